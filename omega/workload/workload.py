"""A workload: machines, initial jobs and arriving jobs.

A workload is drawn or read once and is the same for the same seed. Every kind of choice draws
from a stream of its own name, so that one more draw here never shifts another there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil, floor
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import JobSpec, Limits, MachineSpec
from omega.cellstate.pools import Pools
from omega.cellstate.resources import Dimensions, Resources

FILE_ENDINGS = (".yaml", ".yml", ".json")
"""Ends of the names of files that hold a workload with its machines and pools (`omega.workload.file`)."""

DIMENSIONS = Dimensions(("cpu", "memory"))
"""The dimensions of every workload here, and the order of its vectors."""

LARGEST_CPU = 16_000
"""Millicores of the largest machine. Google published shares of it only; two sockets of eight
cores were a large machine of 2011, and the commonest half-size one then has 8 cores."""
LARGEST_MEMORY = 32 * 1024
"""MiB of the largest machine: 2 GiB a core, so that the commonest machine has 16 GiB."""


def stream(seed: int, name: str) -> Random:
    """Return the stream of random numbers `name` of this seed."""
    return Random(f"{seed}/{name}")


def array_stream(seed: int, name: str) -> np.random.Generator:
    """As `stream`, for whole arrays."""
    return np.random.default_rng(int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:16], "big"))


def request(share: float, largest: int) -> int:
    """Return the request of a task for `share` of the largest machine: rounded up, at least 1 unit.

    Nothing at all would fit any machine any number of times.
    """
    return max(1, ceil(round(share * largest, 6)))


def capacity(share: float, largest: int) -> int:
    """Return the capacity of a machine with `share` of the largest: rounded down."""
    return floor(round(share * largest, 6))


Microseconds = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job and when it is submitted, in seconds since the workload's beginning.

    The schedulers know of a job what its groups say. What really happens may differ, task by task, in columns that all
    jobs of a workload share: each array here is a view of one.
    """

    at_seconds: float
    job: JobSpec
    durations: tuple[Microseconds, ...] = ()
    """By group: how long each task runs, in microseconds (0: it ends when it starts). Empty: as the groups say."""
    machines: tuple[NDArray[np.int32], ...] = ()
    """Of a resident, by group: where each task runs, as a place in `Workload.machines`; -1: the task still waits.

    Empty: on random machines.
    """


class MachineEvent(NamedTuple):
    """A machine comes or changes (its new specification), or goes (not `up`): its tasks are lost then."""

    at_seconds: float
    machine: MachineSpec
    up: bool = True


class JobEvent(NamedTuple):
    """A person changes a job, by its id: `what` is ``hold``, ``release`` or ``stop``."""

    at_seconds: float
    job: str
    what: str


class LimitEvent(NamedTuple):
    """A person sets the limits of a kind of jobs."""

    at_seconds: float
    kind: str
    limits: Limits


WorkloadEvent = MachineEvent | JobEvent | LimitEvent


@dataclass(frozen=True, slots=True)
class Workload:
    """Machines, residents (jobs running at 0 s, with their remaining durations) and arrivals.

    Arrivals and events are in order of time. `pools` are the pools that jobs name, none by default. `about` describes
    in lines the source of the workload and left out, capped or guessed values. Residents that stand on machines with
    too little room stay there: such a machine has nothing free until enough of them left.
    """

    machines: Sequence[MachineSpec]
    residents: Sequence[Arrival]
    arrivals: Sequence[Arrival]
    about: str
    pools: Pools = field(default_factory=Pools)
    dimensions: Dimensions = DIMENSIONS
    events: Sequence[WorkloadEvent] = ()

    @property
    def tasks(self) -> int:
        """How many tasks arrive (residents not counted)."""
        return sum(arrival.job.total for arrival in self.arrivals)

    @property
    def capacity(self) -> Resources:
        """What all machines have together."""
        return tuple(sum(column) for column in zip(*(machine.capacity for machine in self.machines), strict=True))

"""A workload: machines, initial jobs and arriving jobs.

A workload is drawn or read once and is the same for the same seed. Every kind of choice draws
from a stream of its own name, so that one more draw here never shifts another there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil, floor
from random import Random

import numpy as np

from omega.cellstate.model import JobSpec, MachineSpec
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job and when it is submitted, in seconds since the workload's beginning."""

    at_seconds: float
    job: JobSpec


@dataclass(frozen=True, slots=True)
class Workload:
    """Machines, residents (jobs running at 0 s, with their remaining durations) and arrivals.

    Arrivals are in order of submission. `pools` are the pools that jobs name, none by default. `about` describes in
    lines the source of the workload and left out, capped or guessed values.
    """

    machines: Sequence[MachineSpec]
    residents: Sequence[Arrival]
    arrivals: Sequence[Arrival]
    about: str
    pools: Pools = field(default_factory=Pools)

    @property
    def tasks(self) -> int:
        """How many tasks arrive (residents not counted)."""
        return sum(arrival.job.total for arrival in self.arrivals)

    @property
    def capacity(self) -> Resources:
        """What all machines have together."""
        return tuple(sum(column) for column in zip(*(machine.capacity for machine in self.machines), strict=True))

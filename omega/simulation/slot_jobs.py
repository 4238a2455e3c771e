"""Jobs of a simulated slot cluster: maps that read replicated blocks, reduces, and which blocks are left where."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.model import GroupStatus, Job
from omega.schedulers.work import Work

MAP, REDUCE = 0, 1
"""The task groups of a job, and the resources of the cluster: a task needs one slot of its own kind."""
NODE, RACK, ANYWHERE = 0, 1, 2
"""Levels of locality."""


@dataclass(frozen=True, slots=True)
class SlotJobSpec:
    """A job: the machines with a replica of each block that a map reads; times in seconds.

    `seconds` are those of each map with its block on its machine; `reduce_seconds` follow the last map.
    """

    name: str
    blocks: Sequence[Sequence[int]]
    seconds: Sequence[float]
    _: KW_ONLY
    reduces: int = 0
    reduce_seconds: float = 0.0
    at: float = 0.0
    pool: str = ""
    precedence: int = 0

    def __post_init__(self) -> None:
        if not self.blocks or len(self.blocks) != len(self.seconds):
            raise BadInput(f"job {self.name}: {len(self.blocks)} blocks, {len(self.seconds)} times; want one each")
        if min(self.seconds) <= 0 or self.reduce_seconds < 0 or self.reduces < 0 or self.at < 0:
            raise BadInput(f"job {self.name}: negative numbers, or a map of 0 s")


@dataclass(slots=True)
class Blocks:
    """The blocks of a job that no map reads yet, by machine and rack; random order by `rng`."""

    at: Sequence[Sequence[int]]
    racks: NDArray[np.intp]
    """The rack of each machine."""
    rng: Random
    by_machine: NDArray[np.int64] = field(init=False)
    """Number of blocks on each machine."""
    by_rack: NDArray[np.int64] = field(init=False)
    _lists: dict[tuple[int, int], list[int]] = field(init=False)
    """By level and machine or rack: blocks, with those that were taken since."""
    _taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.by_machine = np.zeros(len(self.racks), dtype=np.int64)
        self.by_rack = np.zeros(int(self.racks.max()) + 1, dtype=np.int64)
        self._lists = {}
        for block in self.rng.sample(range(len(self.at)), len(self.at)):
            self._lists.setdefault((ANYWHERE, 0), []).append(block)
            for machine in self.at[block]:
                self._lists.setdefault((NODE, machine), []).append(block)
            for rack in self._racks_of(block):
                self._lists.setdefault((RACK, rack), []).append(block)
            self._count(block, 1)

    def _racks_of(self, block: int) -> list[int]:
        return sorted({int(self.racks[machine]) for machine in self.at[block]})

    def _count(self, block: int, sign: int) -> None:
        for machine in self.at[block]:
            self.by_machine[machine] += sign
        for rack in self._racks_of(block):
            self.by_rack[rack] += sign

    def masks(self) -> list[NDArray[np.bool_]]:
        """Return the machines with a block, and those in a rack with one."""
        return [self.by_machine > 0, (self.by_rack > 0)[self.racks]]

    def take(self, machine: int) -> tuple[int, int]:
        """Take the nearest block for a map on a machine; return it and its level. There must be one."""
        for level, place in ((NODE, machine), (RACK, int(self.racks[machine])), (ANYWHERE, 0)):
            blocks = self._lists.get((level, place), [])
            while blocks:
                block = blocks.pop()
                if block not in self._taken:
                    self._taken.add(block)
                    self._count(block, -1)
                    return block, level
        raise IndexError(machine)


@dataclass(slots=True)
class SlotJob:
    """A job in the simulation."""

    spec: SlotJobSpec
    work: Work
    blocks: Blocks
    levels: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Number of maps launched at each level."""
    offers: int = 0
    """Number of free map slots that it was offered."""
    maps_left: int = 0
    """Maps that have not ended."""
    reduces_left: int = 0
    waiting: list[int] = field(default_factory=list)
    """The machines of reduces that wait for the last map."""
    ended: float | None = None
    """When its last task ended (seconds)."""

    @property
    def local(self) -> float:
        """The part of its launched maps with their block on their machine."""
        launched = sum(self.levels)
        return self.levels[NODE] / launched if launched else 0.0


def job_of(spec: SlotJobSpec, order: int, racks: NDArray[np.intp], waits: Sequence[float], seed: str) -> SlotJob:
    """Return a job; `waits` are the seconds for which its maps prefer machines with blocks, then their racks."""
    tasks = ((MAP, (1, 0), len(spec.blocks)), (REDUCE, (0, 1), spec.reduces))
    groups = [
        GroupStatus(need=need, total=count, unplaced=count, waiting=f"0-{count - 1}" if count else "-")
        for _, need, count in tasks
    ]
    locality = {"machines": ["its blocks"], "domains": ["rack"], "wait_ms": [round(each * 1000) for each in waits]}
    fields = {"groups": [{"locality": locality}, {}], "pool": spec.pool or "default"}
    job = Job(
        id=spec.name, name=spec.name, kind="batch", precedence=spec.precedence, order=order,
        submitted_ms=round(spec.at * 1000), groups=groups, spec=fields,
    )  # fmt: skip
    work = Work.of(job)
    work.ended = [0, 0]
    blocks = Blocks(spec.blocks, racks, Random(f"{seed}/blocks/{spec.name}"))
    return SlotJob(spec, work, blocks, maps_left=len(spec.blocks), reduces_left=spec.reduces)

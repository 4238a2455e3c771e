"""Jobs of a simulated slot cluster: maps that read replicated blocks, reduces, and which blocks are left where."""

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.model import GroupStatus, Job
from omega.cellstate.usage import Account
from omega.schedulers.placement.delay import Waiting
from omega.schedulers.work import Work

MAP, REDUCE = 0, 1
"""The task groups of a job, and the resources of the cluster: a task needs one slot of its own kind."""
NODE, RACK, ANYWHERE = 0, 1, 2
"""Levels of locality."""


@dataclass(frozen=True, slots=True)
class SlotJobSpec:
    """A job: the machines with a replica of each block that a map reads; times in seconds.

    `seconds` are those of each map with its block on its machine. `reduces` are those of each reduce, after the last
    map.
    """

    name: str
    blocks: Sequence[Sequence[int]]
    seconds: Sequence[float]
    _: KW_ONLY
    reduces: Sequence[float] = ()
    at: float = 0.0
    pool: str = ""
    precedence: int = 0

    def __post_init__(self) -> None:
        if not self.blocks or len(self.blocks) != len(self.seconds):
            raise BadInput(f"job {self.name}: {len(self.blocks)} blocks, {len(self.seconds)} times; want one each")
        if min(self.seconds) <= 0 or min(self.reduces, default=0) < 0 or self.at < 0:
            raise BadInput(f"job {self.name}: negative numbers, or a map of 0 s")


@dataclass(slots=True)
class Blocks:
    """The blocks of a job that no map reads yet, by machine and rack; random order by `rng`."""

    at: Sequence[Sequence[int]]
    racks: Sequence[int]
    """The rack of each machine."""
    rng: Random
    by_machine: list[int] = field(init=False)
    """Number of blocks on each machine."""
    by_rack: list[int] = field(init=False)
    _on: dict[int, list[int]] = field(init=False)
    """Blocks by machine, with those that were taken since; `_near` by rack, `_all` in the whole cluster."""
    _near: list[list[int]] = field(init=False)
    _all: list[int] = field(init=False)
    _racks: list[Sequence[int]] = field(init=False)
    """The racks with a replica of each block."""
    _left: bytearray = field(init=False)
    """1 for each block that no map reads yet."""

    def __post_init__(self) -> None:
        racks, near = self.racks, 1 + max(self.racks)
        self.by_machine, self.by_rack = [0] * len(racks), [0] * near
        self._on, self._near, self._left = {}, [[] for _ in range(near)], bytearray(b"\1" * len(self.at))
        self._racks = [tuple({racks[machine] for machine in block}) for block in self.at]
        self._all = self.rng.sample(range(len(self.at)), len(self.at))
        for block in self._all:
            for machine in self.at[block]:
                self.by_machine[machine] += 1
                self._on.setdefault(machine, []).append(block)
            for rack in self._racks[block]:
                self.by_rack[rack] += 1
                self._near[rack].append(block)

    def masks(self) -> list[NDArray[np.bool_]]:
        """Return the machines with a block, and those in a rack with one."""
        return [np.array(self.by_machine) > 0, np.array([self.by_rack[rack] > 0 for rack in self.racks])]

    def level(self, machine: int) -> int:
        """Return the level of the nearest block of a machine."""
        return NODE if self.by_machine[machine] else RACK if self.by_rack[self.racks[machine]] else ANYWHERE

    def take(self, machine: int) -> tuple[int, int]:
        """Take the nearest block for a map on a machine; return it and its level. There must be one."""
        level, left = self.level(machine), self._left
        blocks = self._on[machine] if level == NODE else self._all
        if level == RACK:
            blocks = self._near[self.racks[machine]]
        while True:
            block = blocks.pop()
            if left[block]:
                break
        left[block] = 0
        for each in self.at[block]:
            self.by_machine[each] -= 1
        for rack in self._racks[block]:
            self.by_rack[rack] -= 1
        return block, level


@dataclass(slots=True, eq=False)
class SlotJob:
    """A job in the simulation."""

    spec: SlotJobSpec
    work: Work
    blocks: Blocks
    waits: Sequence[float]
    """How long (seconds) its maps prefer machines with blocks, then their racks."""
    early: float
    """The number of its maps with which its reduces may start: no more than these have not ended."""
    account: Account
    """What it holds and wants."""
    done: list[int]
    """Tasks that ended, by group."""
    maps_left: int
    """Maps that have not ended."""
    reduces_left: int
    delay: Waiting | None = None
    """How far its maps have waited, once they were offered a slot."""
    lane: Hashable = None
    """Its lane, as the ordering names it."""
    levels: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Number of maps launched at each level."""
    offers: int = 0
    """Number of free map slots that it was offered."""
    waiting: list[tuple[int, float]] = field(default_factory=list)
    """Machine and time (seconds) of each reduce that waits for the last map."""
    ended: float | None = None
    """When its last task ended (seconds)."""

    @property
    def wants(self) -> tuple[bool, bool]:
        """Whether it wants a map slot, and a reduce slot."""
        maps, reduces = self.work.left
        return maps > 0, reduces > 0 and self.maps_left <= self.early

    @property
    def local(self) -> float:
        """The part of its launched maps with their block on their machine."""
        launched = sum(self.levels)
        return self.levels[NODE] / launched if launched else 0.0


def work_of(spec: SlotJobSpec, order: int, waits: Sequence[float]) -> Work:
    """Return the job of a scheduler; `waits` are the seconds for which its maps wait for blocks, then for racks."""
    tasks = ((MAP, (1, 0), len(spec.blocks)), (REDUCE, (0, 1), len(spec.reduces)))
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
    return Work.of(job)

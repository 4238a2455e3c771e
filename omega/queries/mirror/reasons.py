"""Why jobs are pending, for all of them: found once for each distinct shape of demand (`omega.queries.room`).

The reader finds the reasons of a bounded number of shapes in each round, those first that it looked at least recently.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from omega.cellstate.model import Job, JobState
from omega.cellstate.transaction import Position
from omega.queries.job_state import waiting
from omega.queries.machine_room import ManyMachines
from omega.queries.mirror.codes import ABSENT
from omega.queries.mirror.counted import Counted
from omega.queries.room import MOST_EXPLAINED, Room
from omega.queries.working_copy import delayed_by
from omega.schedulers.constraints.demands import NONE, demands
from omega.schedulers.constraints.fetching import wanted
from omega.schedulers.work import Work

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.queries.mirror.held_cell import HeldCell

PLAIN = 3
"""Parts of the shape of a job without demands; the last part of others is their id where it matters."""
CHECKS = 4_000_000
"""Machines that are looked at in a round, some 0.1 s: 40 needs on 100,000 machines, all reasons of smaller cells."""
FEW_SHAPES = 1_000
"""Shapes that are looked at in a round in any case: most of them need what another one needs."""


@dataclass(slots=True)
class Shape:
    """Pending jobs that wait for the same reason, unless their scheduler fails at one or delays it."""

    sample: Job
    demanding: bool
    tasks: int = 0
    """Unplaced tasks of all of them."""
    reason: str = ""
    at: int = -1
    """The round in which the reason was found."""


class Reasons:
    """The shapes of the pending jobs of a cell, and their reasons."""

    def __init__(self, held: "HeldCell") -> None:
        self._held = held
        self._shapes = Counted[Shape]()
        self._room: Room | None = None
        self._free: tuple[Position, ManyMachines] | None = None
        self._at = 0
        self._alone: frozenset[str] = frozenset()
        """Jobs that schedulers delay, or at which they fail, as their heartbeats list them."""

    def __len__(self) -> int:
        return len(self._shapes)

    @property
    def room(self) -> Room:
        """The room of the cell at the last round."""
        if self._room is None:
            self._room = self._new_room()
        return self._room

    def _new_room(self) -> Room:
        held, snapshot = cast("Cell", self._held), self._held.snapshot
        if self._free is None or self._free[0] != snapshot.position:
            self._free = snapshot.position, ManyMachines(snapshot, snapshot.dimensions)
        return Room.of(snapshot, held, held.pools.kinds(), held.schedulers.members(), self._free[1])

    # Shapes

    def enter(self, job: Job) -> int:
        """Count a job; return the number of its shape, `ABSENT` for one that waits for nothing."""
        if job.state not in (JobState.ACTIVE, JobState.HELD) or not waiting(job):
            return ABSENT
        key = _key(job)
        number = self._shapes.enter(key, lambda: Shape(replace(job, id=key[-1]), demanding=key[-2] is not None))
        self._shapes.value(number).tasks += waiting(job)
        return number

    def leave(self, number: int, unplaced: int) -> None:
        """Count a job no more that had a shape and so many unplaced tasks."""
        if number != ABSENT:
            self._shapes.value(number).tasks -= unplaced
            self._shapes.leave(number)

    # Rounds of the reader

    def renew(self, cell: "Cell", lock: AbstractContextManager[bool], *, changed: bool) -> None:
        """Begin a round in which the cell changed or not, and find reasons again, as many as a round may."""
        with lock:
            self._at += changed
            self._room = self._new_room() if changed else self.room
            members = self._held.held_members
            listed = [jobs for _, _, figures in members.values() for jobs in figures.get("failing", {}).values()]
            self._alone = frozenset(delayed_by(members)).union(*listed)
            oldest = sorted((shape for _, shape in self._shapes.items() if shape.at < self._at), key=_age)
            for job in [each for each in self._held.placed if each not in self._held.table]:
                del self._held.placed[job]
        checks, explained, needs = CHECKS, MOST_EXPLAINED, set[object]()
        for number, shape in enumerate(oldest):
            new = {group.need for group in shape.sample.groups if group.unplaced} - needs
            needs |= new
            checks -= (5 if shape.demanding else len(new)) * self._held.snapshot.size
            explained -= shape.demanding
            if number >= FEW_SHAPES or (number and checks < 0) or explained < 0:
                return
            if shape.demanding:
                self._fetch(shape.sample, cell)
            with lock:
                self._find(shape)

    def _find(self, shape: Shape) -> str:
        shape.reason, shape.at = str(self.room.reason(shape.sample)), self._at
        return shape.reason

    def _fetch(self, sample: Job, cell: "Cell") -> None:
        """Read the machines of a job, and of jobs near or apart from which it wants to run."""
        held = self._held
        asked = wanted([Work.of(sample)], held.snapshot)
        if asked is None:
            return
        for job_id in asked.placed:
            held.placed[job_id] = cell.jobs.tasks_by_machine(job_id)
        if asked.others:
            ids = cell.jobs.ids_by_name(asked.others)
            jobs = cell.jobs.by_id(sorted(set(ids.values())))
            held.others = {**held.others, **{name: jobs.get(ids.get(name, "")) for name in asked.others}}

    # Reasons

    def of(self, job: Job, number: int) -> str:
        """Return the reason of a job with a shape."""
        if number == ABSENT or job.id in self._alone:
            return str(self.room.reason(job))
        return self._of_shape(self._shapes.value(number))

    def _of_shape(self, shape: Shape) -> str:
        return self._find(shape) if shape.at < 0 else shape.reason

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many jobs with unplaced tasks, and how many of these tasks, have each reason."""
        found: dict[str, list[int]] = {}
        for number, shape in self._shapes.items():
            _add(found, self._of_shape(shape), self._shapes.jobs(number), shape.tasks)
        for job, number in self.alone():
            _add(found, self._of_shape(self._shapes.value(number)), -1, -waiting(job))
            _add(found, self.of(job, number), 1, waiting(job))
        return {reason: {"jobs": jobs, "tasks": tasks} for reason, (jobs, tasks) in sorted(found.items()) if jobs}

    def alone(self) -> list[tuple[Job, int]]:
        """Return the jobs that may have another reason than their shape, with its number."""
        table = self._held.table
        rows = [(row, table.value("shape", row)) for job in self._alone if (row := table.row(job)) is not None]
        return [(table.job(row), number) for row, number in rows if number != ABSENT]

    def shapes_of(self, reason: str) -> list[int]:
        """Return the shapes that have a reason."""
        return [number for number, shape in self._shapes.items() if self._of_shape(shape) == reason]


def _age(shape: Shape) -> int:
    return shape.at


def _add(found: dict[str, list[int]], reason: str, jobs: int, tasks: int) -> None:
    count = found.setdefault(reason, [0, 0])
    count[0] += jobs
    count[1] += tasks


def _key(job: Job) -> tuple[Any, ...]:
    """Return all that the reason of a job depends on; at the end its shape if it demands more than room, and its id
    where the machines of its own tasks matter.
    """  # fmt: skip
    waiting = [i for i, group in enumerate(job.groups) if group.unplaced]
    work = Work.of(job)
    groups = tuple([(job.groups[i].need, job.groups[i].unplaced, job.groups[i].ready) for i in waiting])
    plain = job.state, job.kind, job.precedence, job.commands, job.gang, job.gang_min, job.placed > 0
    waits = job.pending, bool(job.after), job.held, job.gate != ""
    demanding = "groups" in job.spec and any(demands(job, i) is not NONE for i in waiting)
    shape = work.shape() if demanding else None
    scattered = str(shape[-1]) if shape and len(shape) > PLAIN else ""
    return plain, waits, work.whose, groups, shape, scattered

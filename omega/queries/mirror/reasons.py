"""Why jobs are pending, for all of them: computed once for each distinct shape of demand (`omega.queries.room`)."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from omega.cellstate.model import Job, JobState
from omega.queries.room import Room
from omega.queries.working_copy import delayed_by
from omega.schedulers.constraints.demands import NONE, demands
from omega.schedulers.work import Work

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries
    from omega.queries.mirror.held_cell import HeldCell

PLAIN = 3
"""Parts of the shape of a job without demands; the last part of others is their id where it matters."""
NO_SHAPE = -1
"""The shape of a job that is not pending."""


@dataclass(slots=True)
class Shape:
    """Pending jobs that wait for the same reason, unless their scheduler fails at one or delays it."""

    key: Hashable
    sample: Job
    demanding: bool
    jobs: int = 0
    tasks: int = 0
    reason: str = ""
    at: int = -1
    """The reading in which the reason was found."""


class Reasons:
    """The shapes of the pending jobs of a cell, and their reasons."""

    def __init__(self, held: "HeldCell") -> None:
        self._held = held
        self._shapes: list[Shape | None] = []
        self._numbers: dict[Hashable, int] = {}
        self._spare: list[int] = []
        self._room: Room | None = None
        self._at = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def renew(self) -> None:
        """Begin a reading: reasons are found again when they are asked for."""
        self._at += 1
        held = cast("Queries", self._held)
        self._room = Room.of(self._held.snapshot, held, held.kinds(), held.members())

    @property
    def room(self) -> Room:
        """The room of the cell at the last reading."""
        assert self._room is not None, "the mirror was never read"  # noqa: S101
        return self._room

    # Shapes

    def enter(self, job: Job) -> int:
        """Count a job; return the number of its shape, `NO_SHAPE` for one that is not pending."""
        if job.state not in (JobState.ACTIVE, JobState.HELD) or not job.unplaced:
            return NO_SHAPE
        key, demanding = self._key(job)
        number = self._numbers.get(key)
        if number is None:
            number = self._new(Shape(key, replace(job, id=key[-1]), demanding))
        shape = self._shape(number)
        shape.jobs += 1
        shape.tasks += job.unplaced
        return number

    def leave(self, number: int, unplaced: int) -> None:
        """Count a job no more that had a shape and so many unplaced tasks."""
        if number == NO_SHAPE:
            return
        shape = self._shape(number)
        shape.jobs -= 1
        shape.tasks -= unplaced
        if not shape.jobs:
            del self._numbers[shape.key]
            self._shapes[number] = None
            self._spare.append(number)

    def _new(self, shape: Shape) -> int:
        if self._spare:
            number = self._spare.pop()
            self._shapes[number] = shape
        else:
            number = len(self._shapes)
            self._shapes.append(shape)
        self._numbers[shape.key] = number
        return number

    def _shape(self, number: int) -> Shape:
        shape = self._shapes[number]
        assert shape is not None, "a shape without jobs"  # noqa: S101
        return shape

    def _key(self, job: Job) -> tuple[tuple[Any, ...], bool]:
        waiting = [i for i, group in enumerate(job.groups) if group.unplaced]
        demanding = any(demands(job, i) is not NONE for i in waiting)
        work = Work.of(job)
        groups = tuple((job.groups[i].need, job.groups[i].unplaced, job.groups[i].ready) for i in waiting)
        plain = job.state, job.kind, job.precedence, job.commands, job.gang, job.gang_min, bool(job.placed)
        waits = job.pending, bool(job.after), job.held, job.gate != ""
        shape = work.shape() if demanding else None
        scattered = str(shape[-1]) if shape and len(shape) > PLAIN else ""
        return (plain, waits, work.whose, groups, shape, scattered), demanding

    # Reasons

    def of(self, job: Job, number: int) -> str:
        """Return the reason of a job with a shape."""
        if number == NO_SHAPE or self._alone(job.id):
            return str(self.room.reason(job))
        return self._of_shape(self._shape(number))

    def _of_shape(self, shape: Shape) -> str:
        if shape.at != self._at:
            shape.reason, shape.at = str(self.room.reason(shape.sample)), self._at
        return shape.reason

    def _alone(self, job_id: str) -> bool:
        return job_id in self._exceptions()

    def _exceptions(self) -> frozenset[str]:
        """Return the jobs that schedulers delay, or at which they fail, as their heartbeats list them."""
        members = self._held.held_members
        failing = {
            job for _, _, figures in members.values() for jobs in figures.get("failing", {}).values() for job in jobs
        }
        return frozenset(failing | delayed_by(members).keys())

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many pending jobs, and tasks of them, have each reason."""
        found: dict[str, list[int]] = {}
        for shape in self._shapes:
            if shape is not None:
                count = found.setdefault(self._of_shape(shape), [0, 0])
                count[0] += shape.jobs
                count[1] += shape.tasks
        return {reason: {"jobs": jobs, "tasks": tasks} for reason, (jobs, tasks) in sorted(found.items())}

    def shapes_of(self, reason: str) -> list[int]:
        """Return the shapes that have a reason."""
        return [
            number for number, shape in enumerate(self._shapes) if shape is not None and self._of_shape(shape) == reason
        ]

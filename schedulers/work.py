"""A job as its scheduler works on it: what is left to place, and how often it was tried."""

from dataclasses import dataclass, field
from typing import Any

from cellstate.model import Gang, Job
from cellstate.ranges import EMPTY
from cellstate.resources import Resources

Shape = tuple[Any, ...]
"""What decides whether a job fits: equal shapes fit or do not fit together."""


@dataclass(slots=True, eq=False)
class Work:
    """One job in one scheduler's hands. `left[g]` tasks of group g want a machine.

    `attempts` counts decisions, `conflicts` those rejected at least in part; only the latter count
    toward the retry limit (semantics 6). Times are seconds of the answerer's clock.
    """

    job: Job
    left: list[int]
    attempts: int = 0
    conflicts: int = 0
    placed: int = 0
    not_before: float = 0.0
    fruitless: int = 0
    submitted: float = 0.0
    """When the job was submitted."""
    places: dict[int, int] = field(default_factory=dict)
    """Tasks placed here so far by machine; not kept for claims of single tasks (`Singles`)."""

    @classmethod
    def of(cls, job: Job) -> "Work":
        """Take up a job as the store has it."""
        return cls(job, [group.unplaced for group in job.groups], submitted=job.submitted_ms / 1000)

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def remaining(self) -> int:
        """Tasks that still want a machine."""
        return sum(self.left)

    @property
    def gang(self) -> bool:
        """Whether all that is left must be placed in one transaction."""
        return self.job.gang is not Gang.NO

    def need(self, group: int) -> Resources:
        """Amounts one task of a group takes."""
        return self.job.groups[group].need

    def shape(self) -> Shape:
        """What the room it waits for depends on (semantics 19)."""
        needs = tuple(group.need for group, left in zip(self.job.groups, self.left, strict=True) if left)
        gang = tuple(self.left) if self.gang else None
        if not self.job.spec:
            return needs, gang
        return needs, gang, repr(sorted(self.job.spec.items()))

    def takes_over(self, job: Job) -> None:
        """The store says anew what is left (tasks came back, or somebody else placed some)."""
        self.job = job
        self.left = [0 if group.waiting == EMPTY else group.unplaced for group in job.groups]

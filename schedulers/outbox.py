"""Requests of a scheduler to the store beside commits: jobs to reread, jobs to abandon, surplus workers to give up."""

from dataclasses import dataclass, field
from typing import NamedTuple

from schedulers.work import Work


class Errands(NamedTuple):
    """Jobs to reread, jobs to abandon, new totals by job and task group, jobs whose first attempt failed."""

    reread: tuple[str, ...]
    abandon: tuple[str, ...]
    totals: dict[str, dict[int, int]]
    tried: tuple[str, ...] = ()


@dataclass(slots=True)
class Outbox:
    """Requests collected until the loop sends them."""

    gone: list[str] = field(default_factory=list)
    """Jobs that changed in the store."""
    given_up: list[str] = field(default_factory=list)
    spare: dict[str, dict[int, int]] = field(default_factory=dict)
    """New totals of jobs with surplus workers that found no machine."""
    tried: list[str] = field(default_factory=list)
    """Jobs of which nothing was placed at their first attempt."""

    def note(self, work: Work) -> None:
        """Request that the store records an attempt that placed nothing, once per job."""
        if not (work.noted or work.job.begun):
            work.noted = True
            self.tried.append(work.id)

    def __bool__(self) -> bool:
        return bool(self.gone or self.given_up or self.spare or self.tried)

    def take(self) -> Errands:
        """Remove and return all requests."""
        errands = Errands(tuple(self.gone), tuple(self.given_up), self.spare, tuple(self.tried))
        self.gone, self.given_up, self.spare, self.tried = [], [], {}, []
        return errands

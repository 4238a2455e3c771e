"""Requests of a scheduler to the store beside commits: jobs to reread, jobs to abandon, surplus workers to give up."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Errands(NamedTuple):
    """Jobs to reread, jobs to abandon, and new totals by job and task group."""

    reread: tuple[str, ...]
    abandon: tuple[str, ...]
    totals: dict[str, dict[int, int]]


@dataclass(slots=True)
class Outbox:
    """Requests collected until the loop sends them."""

    gone: list[str] = field(default_factory=list)
    """Jobs that changed in the store."""
    given_up: list[str] = field(default_factory=list)
    spare: dict[str, dict[int, int]] = field(default_factory=dict)
    """New totals of jobs with surplus workers that found no machine."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.given_up or self.spare)

    def take(self) -> Errands:
        """Remove and return all requests."""
        errands = Errands(tuple(self.gone), tuple(self.given_up), self.spare)
        self.gone, self.given_up, self.spare = [], [], {}
        return errands

"""What a scheduler wants of the store beside commits: jobs read anew, jobs given up, surplus workers given back."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Errands(NamedTuple):
    """Jobs to be read anew, jobs to be abandoned, and new totals by job and task group."""

    reread: tuple[str, ...]
    abandon: tuple[str, ...]
    totals: dict[str, dict[int, int]]


@dataclass(slots=True)
class Outbox:
    """Collects errands until the loop takes them."""

    gone: list[str] = field(default_factory=list)
    """Jobs that are not what was thought."""
    given_up: list[str] = field(default_factory=list)
    spare: dict[str, dict[int, int]] = field(default_factory=dict)
    """New totals of jobs whose surplus found no machine."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.given_up or self.spare)

    def take(self) -> Errands:
        """Empty it."""
        errands = Errands(tuple(self.gone), tuple(self.given_up), self.spare)
        self.gone, self.given_up, self.spare = [], [], {}
        return errands

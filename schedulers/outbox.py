"""Requests of a scheduler to the store beside commits: jobs to reread, jobs to abandon, surplus workers to drop."""

from dataclasses import dataclass, field

from omega.schedulers.work import Work

NOTE_SECONDS = 0.1
"""Time that notes of first attempts are collected while there is work: most of these jobs are placed meanwhile."""


@dataclass(slots=True)
class Outbox:
    """Requests collected until the loop sends them."""

    gone: list[str] = field(default_factory=list)
    """Jobs that changed in the store."""
    given_up: list[str] = field(default_factory=list)
    spare: dict[str, dict[int, int]] = field(default_factory=dict)
    """New totals of jobs with surplus workers that found no machine."""
    tried: list[Work] = field(default_factory=list)
    """Jobs of which nothing was placed at their first attempt."""
    note_at: float = 0.0
    """When the store is told of them at the latest (seconds)."""

    def note(self, work: Work, now: float) -> None:
        """Request that the store records an attempt that placed nothing, once per job."""
        if not (work.noted or work.job.begun):
            if not self.tried:
                self.note_at = now + NOTE_SECONDS
            work.noted = True
            self.tried.append(work)

    def __bool__(self) -> bool:
        return bool(self.tried) or self.urgent

    @property
    def urgent(self) -> bool:
        """Whether there is a request to be sent at once."""
        return bool(self.gone or self.given_up or self.spare)

    def take(self) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, dict[int, int]]]:
        """Remove and return jobs to reread, jobs to abandon, and new totals by job and task group."""
        gone, given_up, totals = tuple(self.gone), tuple(self.given_up), self.spare
        self.gone, self.given_up, self.spare = [], [], {}
        return gone, given_up, totals

    def take_tried(self) -> tuple[str, ...]:
        """Remove the noted jobs; return those of which nothing was placed since."""
        tried, self.tried = tuple([work.id for work in self.tried if not work.placed]), []
        return tried

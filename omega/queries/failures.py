"""Schedulers that fail: errors of their policies, as they stored them with their figures."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.queries import wording

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.queries.working_copy import Members
    from omega.schedulers.constraints.reasons import Reason


class Failure(NamedTuple):
    """The error of a scheduler; `here`: it concerns the job that was asked for, else only other jobs of its kind."""

    by: str
    error: str
    here: bool

    @property
    def text(self) -> str:
        """The failure as a sentence."""
        where = "" if self.here else " at other jobs"
        return f"scheduler {self.by} fails{where}: {self.error}"

    def as_json(self) -> dict[str, Any]:
        """Return the failure as plain values."""
        return self._asdict()


class Failures:
    """The failures of a cell's schedulers. Figures of schedulers that ended are read once, where no other one is live.

    A live scheduler lists the 256 jobs with the latest errors. Its next heartbeat removes those that it tried since.
    """

    def __init__(self, cell: "Cell", members: "Members") -> None:
        self._cell, self._members = cell, members
        self._ended: Mapping[str, Mapping[str, Any]] | None = None

    def of(self, job_id: str, kind: str) -> Failure | None:
        """Return the failure that keeps a job pending, or else one at other jobs of its kind."""
        live = {name: figures for name, figures in self._of_kind(kind) if self._members[name][1]}
        if not live:
            return self._last(kind)
        texts = [
            Failure(name, text, job_id in jobs)
            for name, figures in live.items()
            for text, jobs in figures.get("failing", {}).items()
        ]
        return max(texts, key=lambda each: each.here, default=None)

    def reason(self, job_id: str, kind: str) -> "Reason | None":
        """Return why no scheduler would place a job: NO_SCHEDULER or FAILING; None when one would."""
        from omega.schedulers.constraints.reasons import Reason

        failure = self.of(job_id, kind)
        if failure is not None and failure.here:
            return Reason.FAILING
        return None if self._is_live(kind) else Reason.NO_SCHEDULER

    def _is_live(self, kind: str) -> bool:
        return any(self._members[name][1] for name, _ in self._of_kind(kind))

    def _of_kind(self, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
        return [(name, each[2]) for name, each in self._members.items() if name.partition("/")[0] == kind]

    def _last(self, kind: str) -> Failure | None:
        """Return the last error that ended a scheduler of a kind without live ones."""
        if self._ended is None:
            self._ended = self._cell.schedulers.figures()
        failed = [
            (figures["failed"]["at_ms"], name, figures["failed"]["error"])
            for name, figures in self._ended.items()
            if name.partition("/")[0] == kind and figures.get("failed")
        ]
        if not failed:
            return None
        _, name, error = max(failed)
        return Failure(name, error, True)


class NewFailures:
    """Errors of live schedulers' policies, each reported once while it lasts."""

    def __init__(self) -> None:
        """Begin without known errors."""
        self._known: set[tuple[str, str]] = set()

    def read(self, cell: "Cell", members: Mapping[str, object]) -> list[str]:
        """Return the errors of these schedulers that are new since the last call, a line each."""
        figures = {name: each for name, each in cell.schedulers.figures().items() if name in members}
        now = {(name, text): jobs for name, each in figures.items() for text, jobs in each.get("failing", {}).items()}
        new, self._known = now.keys() - self._known, set(now)
        return [
            f"scheduler {name}: {text}; {wording.count(len(now[name, text]), 'job')} tried again later"
            for name, text in sorted(new)
        ]

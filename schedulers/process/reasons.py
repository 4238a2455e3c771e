"""Reasons why the jobs of a scheduler were pending, with their times: the last of each job, for its heartbeat."""

import threading
from collections.abc import Callable, Iterable, Sequence

from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Outcome, Transaction, Verdict
from omega.schedulers.constraints.explanation import explain
from omega.schedulers.constraints.reasons import Reason
from omega.schedulers.instruments import Instrument
from omega.schedulers.work import Work

MOST_JOBS = 128
"""Maximum number of jobs with reasons in a heartbeat: those with the latest changes."""
MOST_REASONS = 5
"""Maximum number of reasons per job: the last ones."""
EXPLAINED_PER_SECOND = 10
"""Blocked jobs that are explained per second, some milliseconds each; others keep their last reason, or RESOURCES."""


class PendingReasons(Instrument):
    """Records when the reason of a pending job changed. The loop writes it, the heartbeat reads it."""

    def __init__(self, snapshot: Callable[[], Snapshot | None] = lambda: None) -> None:
        """Explain blocked jobs on the scheduler's snapshot, which `snapshot` returns to the thread of the loop."""
        self._snapshot = snapshot
        self._found: dict[str, list[tuple[int, str]]] = {}
        self._second, self._explained = 0, 0
        self._lock = threading.Lock()

    @override
    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        if outcome.accepted:
            return
        if outcome.conflicted:
            self._record(transaction.job, Reason.CONFLICTS, now)
        elif any(verdict is Verdict.LIMIT for _, verdict in outcome.claims):
            self._record(transaction.job, Reason.LIMIT, now)

    @override
    def blocked(self, work: Work, now: float) -> None:
        last = self._found.get(work.id)
        if last and last[-1] == (int(now * 1000), Reason.LIMIT):
            return  # of this very commit
        waits = work.until > now  # a policy named a later time
        self._record(work.id, Reason.LOCALITY if waits else self._explain(work, now, last[-1][1] if last else ""), now)

    @override
    def placed(self, work: Work, now: float) -> None:
        if work.id in self._found:
            self._record(work.id, Reason.PLACED, now)

    @override
    def placed_all(self, works: Sequence[Work], now: float) -> None:
        if self._found:
            for work in works:
                self.placed(work, now)

    @override
    def committed_all(self, results: Sequence[tuple[Transaction, Outcome]], now: float) -> None:
        for transaction, outcome in results:
            if not outcome.accepted:
                self.committed(transaction, outcome, now)

    @override
    def raised(self, work: Work, error: str, now: float) -> None:
        self._record(work.id, Reason.FAILING, now)

    @override
    def abandoned(self, work: Work, now: float) -> None:
        self._record(work.id, Reason.CONFLICTS, now)

    def delayed(self, jobs: Iterable[str], now: float) -> None:
        """Record jobs that a placement delays for preferred machines."""
        for job_id in jobs:
            self._record(job_id, Reason.LOCALITY, now)

    def as_dict(self) -> dict[str, list[tuple[int, str]]]:
        """Return the reasons by job, each with the time (ms since 1970) from which it held, oldest first."""
        with self._lock:
            return {job_id: list(reasons) for job_id, reasons in self._found.items()}

    def _explain(self, work: Work, now: float, last: str) -> str:
        snapshot = self._snapshot()
        if int(now) != self._second:
            self._second, self._explained = int(now), 0
        if snapshot is None or self._explained >= EXPLAINED_PER_SECOND:
            return last if last not in ("", Reason.CONFLICTS, Reason.LIMIT, Reason.LOCALITY) else Reason.RESOURCES
        self._explained += 1
        reason = explain(work, snapshot).reason
        return Reason.RESOURCES if reason == Reason.WAITING else reason

    def _record(self, job_id: str, reason: str, now: float) -> None:
        with self._lock:
            reasons = self._found.pop(job_id, [])
            if not reasons or reasons[-1][1] != reason:
                reasons = [*reasons[1 - MOST_REASONS :], (int(now * 1000), str(reason))]
            self._found[job_id] = reasons  # the last of the mapping: those before it are dropped first
            if len(self._found) > MOST_JOBS:
                del self._found[next(iter(self._found))]

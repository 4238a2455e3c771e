"""Calls of scheduler processes."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from omega.cellstate.model import Job
from omega.cellstate.pools import Epoch
from omega.cellstate.ports.parts import ChangeTotals, Housekeeping, StopJobs
from omega.cellstate.replies import Awaited, Budget, CommitRequest, Membership, Original, Reply


class SchedulerStore(Housekeeping, StopJobs, ChangeTotals, Protocol):
    """The port of schedulers: lease, transactions, wake-up, updates, housekeeping."""

    def register_scheduler(
        self, member: str, nonce: str, lease_ms: int, at_ms: int, settings: Mapping[str, Any] | None = None
    ) -> Membership:  # fmt: skip
        """Register a scheduler's name; Duplicate when a live one has it. `settings`: of the scheduler, for the log."""

    def renew_scheduler(self, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
        """Renew the lease and leave `figures`; returns the live members. Fenced when it lapsed."""

    def deregister_scheduler(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        """Deregister, or remove a member with an expired lease."""

    def commit(self, request: CommitRequest) -> Reply:
        """Validate transactions in order and apply accepted claims. Fenced when the caller may not commit."""

    def begin(self, request: CommitRequest) -> None:
        """Send a commit without waiting; `finish` returns its reply. One may be in flight."""

    def resend(self) -> None:
        """Send the commit in flight once more, on a new connection (semantics 14)."""

    def finish(self) -> Reply:
        """Wait for the commit in flight. After StoreError, `resend` sends it again without harm."""

    def set_blocked(self, member: str, *, blocked: bool, awaited: Awaited = ()) -> None:
        """Set whether a scheduler has blocked jobs: if so, freed room and changed machines notify it.

        Placements of the jobs `awaited`, by name, notify it as well. Clients that free room must know the live members
        (`may_wake`).
        """

    def wait_for_work(self, member: str, seconds: float) -> bool:
        """Wait for work for this scheduler, at most `seconds`; sync afterwards.

        The token is read before it is removed, so a lost reply does not lose it (semantics 25).
        """

    def gate(self, job_id: str, reason: str, at_ms: int, by: str) -> Job:
        """Hold a job for a reason of its scheduler's gate, or release it from that (reason ""); returns the job.

        A job that a person released from its gate stays released. Refused when it has ended.
        """

    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        """End a rolling update as done, or as stalled with a `reason`. Returns whether there was one.

        A stalled one is deleted with its job.
        """

    def note_attempts(self, jobs: Sequence[str], at_ms: int, by: str) -> int:
        """Record that the first attempt of these jobs placed nothing: their wait is over. Returns how many are new.

        A job of which something was placed since then stays unchanged.
        """

    def speculate(
        self, job_id: str, originals: Sequence[Original], budget: Budget, at_ms: int, by: str
    ) -> list[Original]:
        """Add copies of running tasks to the group for copies behind theirs, within a budget; returns these tasks.

        They wait like other tasks, are placed on another machine than their original, and evict nothing. What ends one
        of the two ends or promotes the other (semantics 41). A task that no longer runs so, or has a copy, is left out.
        A job that ended leaves `copied_jobs`.
        """

    def next_epoch(self) -> int:
        """Return the number of the next epoch, also when the record of the last one cannot be read."""

    def publish_epoch(self, epoch: Epoch, period_ms: int, at_ms: int) -> int:
        """Publish an epoch: the first of its number wins; returns the cell's version then, 0 when it is not taken.

        Nor is it within `period_ms` of the epoch before, or when the pools were changed since it was computed.
        """

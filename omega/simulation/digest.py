"""The digest of a run: a hash over all decisions and ends in order."""

from collections.abc import Sequence
from hashlib import blake2b
from struct import pack

from omega.cellstate.transaction import Outcome, Transaction

FLUSH = 1 << 16


class Digest:
    """A running hash. The same run gives the same digest on every store and computer."""

    def __init__(self) -> None:
        """Create an empty digest."""
        self._hash = blake2b(digest_size=16)
        self._numbers: list[int] = []
        self.ended = self._numbers.extend
        """Adds finished tasks of a job: (time, -1, order of the job, number of tasks). Called for each end of tasks."""

    def decided(self, now: int, scheduler: int, order: int, transaction: Transaction, outcome: Outcome) -> None:
        """Add a validated transaction of the job with this order."""
        numbers = self._numbers
        numbers += (now, scheduler, order, len(outcome.claims))
        for claim, (placed, verdict) in zip(transaction.claims, outcome.claims, strict=True):
            numbers += (claim.machine, claim.group, placed, verdict)
        if len(numbers) >= FLUSH:
            self._take()

    def placed(self, now: int, scheduler: int, order: int, *, group: int, machines: Sequence[int]) -> None:
        """As `decided`, for single tasks of a group that all stand."""
        numbers = self._numbers
        numbers += (now, scheduler, order, -1 - len(machines), group)
        numbers += machines
        if len(numbers) >= FLUSH:
            self._take()

    def _take(self) -> None:
        numbers = self._numbers
        self._hash.update(pack(f"<{len(numbers)}q", *numbers))
        numbers.clear()

    def hexdigest(self) -> str:
        """Return the current digest."""
        self._take()
        return self._hash.hexdigest()

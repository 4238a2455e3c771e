"""Sums over equal parts of a run, by kind of job, from which intervals of its figures are computed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.override import override
from omega.cellstate.transaction import Outcome, Transaction
from omega.schedulers.instruments import Instrument
from omega.schedulers.work import Work

BLOCKS = 50
SUMS = ("jobs", "tasks", "begun", "waited", "busy", "first", "accepted", "conflicts")
"""Jobs and tasks that arrived; of those jobs, the ones with a first attempt, and the seconds that they waited for it.

Seconds of decisions, and those of first attempts; transactions without and with a conflict. All but `busy` and `first`
stand in the block of one instant: the arrival of the job, the end of the attempt.
"""


@dataclass(slots=True)
class Blocks(Instrument):
    """Adds up what all schedulers of a run do, in `number` blocks of `seconds` each.

    A job counts by its kind. An attempt at several jobs counts as one of the first job's kind.
    """

    seconds: float
    number: int = BLOCKS
    sums: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """By kind: (blocks, `SUMS`)."""

    def arrived(self, kind: str, at_seconds: float, tasks: int) -> None:
        """Count the arrival of a job."""
        row = self._of(kind)[self._block(at_seconds)]
        row[0] += 1
        row[1] += tasks

    @override
    def began(self, work: Work, now: float, waited: float) -> None:
        row = self._of(work.job.kind)[self._block(now - waited)]
        row[2] += 1
        row[3] += waited

    @override
    def attempted(
        self, works: Sequence[Work], began: float, now: float, results: Sequence[tuple[Transaction, Outcome]]
    ) -> None:
        sums = self._of(works[0].job.kind)
        self._spend(sums, works, began, now, tried=1)
        row = sums[self._block(now)]
        for _, outcome in results:
            if outcome.conflicted:
                row[7] += 1
            elif not outcome.unfair:
                row[6] += 1

    @override
    def unfinished(self, works: Sequence[Work], began: float, now: float) -> None:
        self._spend(self._of(works[0].job.kind), works, began, now, tried=0)

    def as_json(self) -> dict[str, Any]:
        """Return the sums as plain values, rounded to microseconds."""
        return {
            "seconds": self.seconds,
            "sums": {kind: np.round(sums, 6).T.tolist() for kind, sums in sorted(self.sums.items())},
        }

    def _of(self, kind: str) -> NDArray[np.float64]:
        if kind not in self.sums:
            self.sums[kind] = np.zeros((self.number, len(SUMS)))
        return self.sums[kind]

    def _block(self, at: float) -> int:
        return min(self.number - 1, max(0, int(at / self.seconds)))

    def _spend(self, sums: NDArray[np.float64], works: Sequence[Work], began: float, now: float, *, tried: int) -> None:
        """Add decision time to the blocks over which it lasted; `tried` is the number of attempts of a first one."""
        first = sum(work.attempts == tried for work in works) / len(works)
        block, last = self._block(began), self._block(now)
        while began < now:
            until = now if block == last else min(now, (block + 1) * self.seconds)
            sums[block, 4] += until - began
            sums[block, 5] += (until - began) * first
            began, block = until, block + 1

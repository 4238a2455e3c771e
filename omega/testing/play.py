"""A scheduler of one ordering in a cell of one machine, in which jobs compete for single tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from omega.cellstate.model import MachineState
from omega.cellstate.replies import PendingJob, Reply, Rows
from omega.cellstate.transaction import Outcome, Position, Transaction, Verdict
from omega.schedulers.policies import Ordering
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from omega.testing.scenes import snapshot, work

NOW = 1_000.0
ROOM = 30
"""Tasks of one unit that the cell holds."""
Asked = tuple[str, str, int, int, float | None, list[int], int]
"""(user, pool, precedence, seconds of submission, expected duration, tasks of each group, number of its fields)"""
jobs = st.lists(
    st.tuples(
        st.sampled_from(["", "ada", "bob"]),
        st.sampled_from(["", "p"]),
        st.integers(0, 3),
        st.integers(0, 9),
        st.sampled_from([None, 1.0, 60.0]),
        st.sampled_from([[1], [2], [1, 1]]),
        st.integers(0, 7),
    ),
    min_size=2,
    max_size=7,
)


def made(asked: Sequence[Asked], fields: Sequence[Mapping[str, Any]]) -> list[Work]:
    """Return new jobs in the order of their submission; each has one of the `fields` of the job file."""
    return [
        work(
            *(((1, 1), count) for count in tasks),
            name=f"j{i}",
            order=i,
            submitted=float(seconds),
            user=user,
            pool=pool,
            precedence=precedence,
            expected=expected,
            spec=fields[number % len(fields)],
        )
        for i, (user, pool, precedence, seconds, expected, tasks, number) in enumerate(
            sorted(asked, key=lambda job: job[3])
        )
    ]


class Play:
    """A scheduler of one ordering in a cell of one machine, which places one task after the other."""

    def __init__(self, policy: Ordering, works: list[Work]) -> None:
        """Create a cell in which nothing is free."""
        self.scheduler = Scheduler("batch", ordering=policy).fresh("play")
        self.policy = self.scheduler.ordering
        self.works = works
        self.copy = snapshot((0, 0), (0, 0))
        self.version, self.room, self.placed, self.limit = 1, 0, 0, ROOM
        self.left = {found.id: found.remaining for found in self.works}

    def free(self, tasks: int) -> None:
        """Report that further tasks fit."""
        self.room += tasks
        self.version += 1
        self._say()

    def _say(self) -> None:
        rows = [[0, self.version, MachineState.UP, 0, ROOM, ROOM, ROOM - self.room, ROOM - self.room]]
        self.copy.apply(Reply(Position(self.version, "t"), full=False, rows=_rows(rows)))

    def admit(self) -> None:
        """All jobs arrive at once."""
        self.scheduler.admit([PendingJob(i, found.job) for i, found in enumerate(self.works, 1)])

    @property
    def expected(self) -> list[str]:
        """The job that the policy prefers of those that are not placed whole; those of one key when they rejoin."""
        waiting = [found for found in self.works if self.left[found.id]]
        self.policy.observe(self.copy, NOW)
        places = {
            found.id: (
                self.policy.rank(self.policy.lane(found)),
                self.policy.key(found),
                0 if self.policy.rejoins else found.job.order,
            )
            for found in waiting
        }
        return [name for name, place in places.items() if place == min(places.values())]

    def run_until_blocked(self) -> None:
        """Try every job."""
        self.scheduler.requeue(self.copy, NOW)
        while works := self.scheduler.choose(NOW):
            self._commit(self.scheduler.decide(works, self.copy, NOW))

    def step(self) -> None:
        """Free room or a raised limit places one task: of the job that the policy prefers."""
        expected, before = self.expected, dict(self.left)
        for _ in range(3):
            self.scheduler.requeue(self.copy, NOW)
            self._commit(self.scheduler.decide(self.scheduler.choose(NOW), self.copy, NOW))
            if self.left != before:
                break
        gone = [name for name, left in self.left.items() if left < before[name]]
        assert len(gone) == 1, f"{gone} got room for one"
        assert gone[0] in expected, f"the policy prefers {expected}, and {gone[0]} got the room"
        self.run_until_blocked()

    def _commit(self, transactions: Sequence[Transaction]) -> None:
        self.copy.launch()
        outcomes = [self._validated(transaction) for transaction in transactions]
        self.copy.land(Reply(self.copy.position, full=False, rows=_rows([])))
        self.version += 1
        self._say()
        self.scheduler.settle(list(zip(transactions, outcomes, strict=True)), NOW)

    def _validated(self, transaction: Transaction) -> Outcome:
        found = next(each for each in self.works if each.id == transaction.job)
        verdicts = []
        for claim in transaction.claims:
            count = min(claim.count, self.limit - self.placed, self.room)
            self.placed += count
            self.room -= count
            self.left[found.id] -= count
            found.left[claim.group] -= count
            if count:
                self.copy.usage.change((found.pool, found.user), (count, count), (0, 0))
            verdicts.append((count, Verdict.PLACED if count == claim.count else Verdict.LIMIT))
        return Outcome(tuple(verdicts))


def _rows(records: Sequence[Sequence[int]]) -> Rows:
    return np.array(records, dtype=np.int64).reshape(-1, 8)

"""Owners of leaf pools in a simulation: the table that the first scheduler in rank publishes live."""

from collections.abc import Callable, Sequence
from typing import Any

from omega.cellstate.model import Job
from omega.schedulers.balance import Balance, loads_of
from omega.schedulers.sharing import LEASE_MS, Ownership, divided
from omega.simulation.drive import SimulatedScheduler
from omega.simulation.engine import SECOND, Engine

BEAT = LEASE_MS * SECOND // 3_000
"""Time between two heartbeats, after each of which owners may change (microseconds)."""


class Owners:
    """Divides leaf pools among the schedulers of one kind, and moves the jobs of those that change hands."""

    def __init__(
        self, schedulers: Sequence[SimulatedScheduler], leaves: set[str], engine: Engine,
        moves: Callable[[str], Job | None], deliver: Callable[[Job], None],
    ) -> None:  # fmt: skip
        """`moves` returns a job as stored, `deliver` gives it to its owner."""
        self._schedulers, self._leaves, self._engine = schedulers, leaves, engine
        self._stored, self._deliver = moves, deliver
        self._members = schedulers[0].scheduler.ownership.members
        self._balance = Balance(divided(leaves, self._members))
        self._busy = [0.0] * len(schedulers)

    def start(self) -> None:
        """Look at the loads after each heartbeat."""
        self._engine.at(self._engine.now + BEAT, self._beat)

    def _beat(self, _: Any) -> None:
        loads = {}
        for number, each in enumerate(self._schedulers):
            counts, each.scheduler.decided = each.scheduler.decided, type(each.scheduler.decided)()
            busy, self._busy[number] = each.busy - self._busy[number], each.busy
            loads[each.name] = loads_of(counts.items(), min(1.0, busy * SECOND / BEAT))
        if self._balance.step(self._engine.seconds, self._members, self._leaves, loads):
            self._change(dict(self._balance.owners))
        self.start()

    def _change(self, owners: dict[str, tuple[str, ...]]) -> None:
        moved = [job for each in self._schedulers for job in each.own(Ownership(each.name, self._members, owners))]
        for job in filter(None, map(self._stored, moved)):
            if job.pending:
                self._deliver(job)

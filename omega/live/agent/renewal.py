"""Renewal of an agent's lease, separate from its other calls to the store (semantics 27).

The agent renews in each iteration. A thread with a connection of its own renews when that takes too long: a slow
link, a slow store, many tasks to start. Both write the file with the deadline of the tasks.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from omega.cellstate.errors import Fenced, OmegaError
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Heartbeat, Membership
from omega.live.agent.lease_file import ROOM, now, write
from omega.live.agent.places import AgentPlaces

BEATS = 5
"""Renewals per lease."""
LATE = 1.25
"""The thread renews after this multiple of the usual period without a renewal."""
WRITES = 50
"""Times at most that the file is written in a lease: an agent renews at each end of a task."""
ENDING, ENDED = 0.75, 0.9
"""Parts of the lease without renewal after which tasks are asked to end, and killed."""
STALLED = 1 / 3
"""Part of the lease without an iteration of the agent after which its machine gets no more tasks."""
ANSWER = 0.25
"""Reply timeout of the thread, as a part of the lease; it reconnects afterwards."""


@dataclass(slots=True)
class Renewal:
    """The lease of an agent. `membership` and `machine` (index in the cell) belong to the thread of the agent."""

    places: AgentPlaces
    lease_ms: int
    membership: Membership | None = None
    machine: int | None = None
    failed: OSError | None = None
    """Why the deadline of the tasks could not be written."""
    iterated: float = field(default_factory=now)
    """When an iteration of the agent last came through."""
    stalled: str = ""
    """What the thread told the store because none did; the agent takes it over."""
    _renewed: float = 0.0
    _written: Membership | None = None
    _wrote: float = 0.0
    """For which membership the file was written last, and the time that it counts from."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def seconds(self) -> float:
        """The lease in seconds."""
        return self.lease_ms / 1000

    def renew(self, cell: RedisCell) -> Heartbeat:
        """Renew the lease and extend the tasks' deadline accordingly. Raises Fenced, StoreError.

        Counted from before the request was sent; the server counts from its receipt.
        """
        membership, asked = self.membership, now()
        if membership is None:
            raise Fenced(f"agent {self.places.name}: has not joined yet")
        heartbeat = cell.executors.renew(membership, self.lease_ms, self.machine)
        with self._lock:
            if asked > self._renewed and membership is self.membership:
                self._renewed = asked
                written = self._written == membership and asked - self._wrote < self.seconds / WRITES
                if written and self.places.lease.exists():
                    return heartbeat
                until = f"{asked + ENDING * self.seconds} {asked + ENDED * self.seconds} {membership.incarnation}"
                try:
                    write(self.places.lease, until, ROOM)
                    self.failed = None
                    self._written, self._wrote = membership, asked
                except OSError as error:  # tasks end at their deadline; the agent still reports them
                    self.failed = error
        return heartbeat

    def _tell(self, cell: RedisCell) -> None:
        """Say so when no iteration has come through for long: a lease alone does not prove that the agent works."""
        age, membership, machine = now() - self.iterated, self.membership, self.machine
        if age < STALLED * self.seconds or self.stalled or membership is None or machine is None:
            return
        reason = f"its agent has not come through an iteration for {age:.0f} s"
        cell.executors.report_fitness(membership, [machine], reason, cell.store_ms())
        self.stalled = reason

    def run(self, connect: Callable[[float], RedisCell], stop: threading.Event) -> None:
        """Renew whenever a renewal is late, until `stop` is set; `connect` takes the reply timeout in seconds."""
        own: RedisCell | None = None
        period = self.seconds / BEATS
        while not stop.wait(max(period / 10, min(self._renewed + LATE * period - now(), period))):
            try:
                own = own or connect(ANSWER * self.seconds)  # before it is needed: later there may be no descriptor
                if now() - self._renewed < LATE * period:
                    continue
                self.renew(own)
                self._tell(own)
            except (OmegaError, OSError):  # the agent's next iteration gets and reports the same error
                if own is not None:
                    own.close()
                own = None
        if own is not None:
            with suppress(OSError):
                own.close()

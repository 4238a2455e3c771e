"""Clients of a cell under faults that keep their own lists of what the store acknowledged to them.

The lists are independent of what the product reports: a job that `Submissions` has in its list was acknowledged to the
Python client; a job in those of `Commits` was submitted, placed or ended by a scheduler of the test itself.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from omega.cellstate.errors import OmegaError, StoreError
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership, Reply
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.client.client import Client
from tests.chaos.book import Book

LEASE_MS = 600_000
T = TypeVar("T")
PROBES = 8
"""Jobs of the test's scheduler that are submitted, placed and ended together."""


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Something that the store acknowledged at a time of the monotonic clock; `version` is that of a commit."""

    at: float
    job: str
    version: int = 0


class Witness(threading.Thread, ABC):
    """A client that acts until it is closed; errors that it met are in `errors`."""

    def __init__(self, opened: "Client | RedisCell", pause: float) -> None:
        """Act with so many seconds between two steps; `opened` is closed in the end."""
        super().__init__(daemon=True)
        self.opened, self.pause, self.errors = opened, pause, list[str]()
        self.broken: BaseException | None = None
        self._stopped = threading.Event()

    @abstractmethod
    def act(self, number: int) -> None:
        """Do the next step. Raises OmegaError, which is kept."""

    def run(self) -> None:
        """Act again and again."""
        number = 0
        try:
            with closing(self.opened):
                while not self._stopped.wait(self.pause):
                    number += 1
                    try:
                        self.act(number)
                    except OmegaError as error:
                        self.errors.append(str(error))
        except BaseException as error:
            self.broken = error
            raise

    def stop(self) -> None:
        """End soon."""
        self._stopped.set()

    def close(self) -> None:
        """Return when the last step has ended."""
        self.stop()
        self.join()
        assert self.broken is None, self.broken


class Submissions(Witness):
    """Submits jobs of recorded tasks through the Python client."""

    def __init__(self, url: str, cell: str, book: Book, rng: Random, pause: float = 0.15, name: str = "job") -> None:
        self.client, self.book, self.rng = Client(url, cell, user="ada"), book, rng
        super().__init__(self.client, pause)
        self.name_of_jobs = name
        self.jobs, self.acknowledged = list[JobSpec](), list[Acknowledged]()

    def act(self, number: int) -> None:
        """Submit a job of one or two tasks."""
        job = self.book.job(f"{self.name_of_jobs}-{number}", self.rng.randint(1, 2), self.rng.choice((0.1, 0.5, 8.0)))
        self.jobs.append(job)
        self.client.submit(job)
        self.acknowledged.append(Acknowledged(time.monotonic(), job.id))


class Commits(Witness):
    """A scheduler of a kind of its own: submits jobs, places them on a machine that no process serves, ends them.

    `gaps` are times without an acknowledged commit: begin and length in seconds, of those above a tenth of a second.
    """

    def __init__(self, url: str, cell: str, machine: int, member: str = "probe/0") -> None:
        self.cell, self.machine, self.member = RedisCell.connect(url, cell), machine, member
        super().__init__(self.cell, 0.02)
        self.submitted, self.placed, self.ended = list[Acknowledged](), list[Acknowledged](), list[Acknowledged]()
        self.gaps: list[tuple[float, float]] = []
        self._membership: Membership | None = None
        self._position, self._number, self._last = Position(), 0, time.monotonic()

    def act(self, number: int) -> None:
        """Submit some jobs, place each by a commit of its own, and end them together."""
        names = [f"probe-{number}-{each}" for each in range(PROBES)]
        specs = [JobSpec(name, name, "probe", (TaskGroup((1, 1), 1),)) for name in names]
        self._insist(lambda: self.cell.jobs.submit(specs, now_ms(), "probe"))
        self._note(self.submitted, names)
        for name in names:
            reply = self._commit(Transaction(name, (Claim(self.machine, 0, 1),)))
            if reply.outcomes[0].placed:
                self._note(self.placed, [name], reply.position.version)
        runs = [run for run in self._insist(lambda: self.cell.machines.runs([self.machine])) if run.job in names]
        ends = [TaskEnd(self.machine, run.placement, EndKind.FINISHED, "0", "", run.job) for run in runs]
        counts = self._insist(lambda: self.cell.executors.end(ends, now_ms(), "probe"))
        # Without an effect: the placement was lost with another server, or the reply of the call before this one.
        self._note(self.ended, [run.job for run, count in zip(runs, counts, strict=True) if count])

    def _note(self, where: list[Acknowledged], jobs: list[str], version: int = 0) -> None:
        now = time.monotonic()
        if where is self.placed:
            if now - self._last > 0.1:
                self.gaps.append((self._last, now - self._last))
            self._last = now
        where.extend(Acknowledged(now, job, version) for job in jobs)

    def _insist(self, call: Callable[[], T]) -> T:
        """Repeat an idempotent call until the store acknowledges it, as processes do."""
        while True:
            try:
                return call()
            except StoreError as error:
                self.errors.append(str(error))
                if self._stopped.wait(0.02):
                    raise

    def _commit(self, transaction: Transaction) -> Reply:
        if self._membership is None:
            nonce = f"n{time.monotonic_ns()}"
            self._membership = self._insist(
                lambda: self.cell.schedulers.register(self.member, nonce, LEASE_MS, now_ms())
            )
        self._number += 1
        request = CommitRequest(self._membership, self._number, [transaction], self._position, now_ms())
        begun = False

        def sent() -> Reply:
            nonlocal begun
            if begun:
                self.cell.schedulers.resend()
            else:
                begun = True
                self.cell.schedulers.begin(request)
            return self.cell.schedulers.finish()

        reply = self._insist(sent)
        self._position = reply.position
        return reply

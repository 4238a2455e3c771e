"""A cell under test: in memory, over the fake server, over the real one with either protocol."""

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import fakeredis
import pytest
import redis

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Claim, Detection, Mode, Outcome, Position, Transaction
from tests.leases import expire

AnyCell = MemoryCell | RedisCell
TWO = Dimensions(("cpu", "memory"))
_numbers = itertools.count(1)


class Stand(ABC):
    """A cell, and operations of tests that the port does not offer."""

    cell: AnyCell

    @abstractmethod
    def other(self) -> AnyCell:
        """Another client of the same cell."""

    def expire_lease(self, member: str) -> None:
        """Let a lease run out."""
        expire(self.cell, member)

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""

    def member(self, name: str = "batch/0") -> "Member":
        """A scheduler of this cell."""
        return Member(self.cell, name)


class MemoryStand(Stand):
    def __init__(self, dimensions: Dimensions, keep_jobs: int, keep_ms: int) -> None:
        self.cell: MemoryCell = MemoryCell("c", dimensions, keep_jobs=keep_jobs, keep_ms=keep_ms)

    def other(self) -> AnyCell:
        return self.cell

    def close(self) -> None:
        pass


class RedisStand(Stand):
    def __init__(
        self, connect: Callable[[], redis.Redis], dimensions: Dimensions, keep_jobs: int, keep_ms: int
    ) -> None:
        self.connect, self.others = connect, list[RedisCell]()
        name = f"c{os.getpid()}-{next(_numbers)}"
        self.cell: RedisCell = RedisCell.create(connect(), name, dimensions, keep_jobs=keep_jobs, keep_ms=keep_ms)

    def other(self) -> RedisCell:
        self.others.append(RedisCell.open(self.connect(), self.cell.name))
        return self.others[-1]

    def key(self, name: str) -> str:
        return self.cell.prefix + name

    def close(self) -> None:
        self.cell.delete()
        for cell in (self.cell, *self.others):
            cell.close()


class Member:
    """A scheduler with a working copy as old as its last commit or sync."""

    def __init__(self, cell: AnyCell, name: str = "batch/0", nonce: str = "n") -> None:
        self.cell, self.number, self.at_ms = cell, 0, 0
        self.membership: Membership = cell.schedulers.register(name, nonce, 60_000, 0)
        self.position = Position()

    def seen(self, machine: int) -> int:
        """The machine's sequence number now."""
        return {m.index: m.number for m in self.cell.machines.all()}[machine]

    def transact(self, *transactions: Transaction) -> list[Outcome]:
        """Commit some transactions."""
        self.number += 1
        reply = self.cell.schedulers.commit(
            CommitRequest(self.membership, self.number, transactions, self.position, self.at_ms)
        )
        self.position = reply.position
        return reply.outcomes

    def place(
        self,
        job: str,
        *claims: tuple[int, int],
        mode: Mode = Mode.INCREMENTAL,
        detection: Detection = Detection.FINE,
        evict: tuple[tuple[int, int], ...] = (),
    ) -> Outcome:
        """Claim tasks of a job's first group: (machine, count) each."""
        made = tuple(Claim(machine, 0, count, seen=self.seen(machine), evict=evict) for machine, count in claims)
        return self.transact(Transaction(job, made, mode, detection))[0]


HOUR_MS = 3_600_000


def requeue_lost(cell: AnyCell) -> int:
    """Let the delay of lost tasks end, and housekeeping queue them again; returns how many they were."""
    if isinstance(cell, MemoryCell):
        return cell.jobs.housekeep(HOUR_MS, "batch/0").queued
    now = cell.store_ms
    cell.store_ms = lambda: now() + HOUR_MS  # type: ignore[method-assign]
    queued = cell.jobs.housekeep(0, "batch/0").queued
    cell.store_ms = now  # type: ignore[method-assign]
    return queued


Make = Callable[..., Stand]


LONG_FORMS = ("fake", "resp2")
"""Clients whose results rarely differ from those of the others: `make chaos` runs the tests with them."""


ONLY_STORED = ("test_cuts.py", "test_task_output.py")
"""Files with tests of what a cell in memory has not; other tests of that use the fixture `server`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of some clients as long forms; leave out those of memory where it has not what they test."""
    for item in list(items):
        made = getattr(item, "callspec", None)
        make = None if made is None else made.params.get("make")
        if make in LONG_FORMS:
            item.add_marker(pytest.mark.chaos)
        fixtures = getattr(item, "fixturenames", ())
        if make == "memory" and (item.path.name in ONLY_STORED or "server" in fixtures):
            items.remove(item)


@pytest.fixture(params=["memory", "fake", "resp2", "resp3"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes cells of one implementation."""
    stands: list[Stand] = []

    def connector() -> Callable[[], redis.Redis]:
        if request.param == "fake":
            server = fakeredis.FakeServer()
            return lambda: fakeredis.FakeRedis(server=server)
        url = request.getfixturevalue("store_url")
        return lambda: redis.Redis.from_url(url, protocol=int(request.param[-1]))

    def build(dimensions: Dimensions = TWO, keep_jobs: int = 100, keep_ms: int = 1_000_000) -> Stand:
        if request.param == "memory":
            stands.append(MemoryStand(dimensions, keep_jobs, keep_ms))
        else:
            stands.append(RedisStand(connector(), dimensions, keep_jobs, keep_ms))
        return stands[-1]

    yield build
    for stand in stands:
        stand.close()


@pytest.fixture
def stand(make: Make) -> Stand:
    """An empty cell of two dimensions."""
    return make()


@pytest.fixture
def cell(stand: Stand) -> AnyCell:
    """A cell with three machines of (4, 8)."""
    stand.cell.executors.register("e0", "n", 600_000, 0)
    stand.cell.machines.join("e0", [MachineSpec(f"m{i}", (4, 8)) for i in range(3)], 0)
    return stand.cell


@pytest.fixture
def server(stand: Stand) -> RedisStand:
    """An empty cell, only on servers."""
    assert isinstance(stand, RedisStand)
    return stand


@pytest.fixture
def stored(server: RedisStand, cell: AnyCell) -> RedisCell:
    """The cell with machines, only on servers."""
    assert server.cell is cell
    return server.cell


@pytest.fixture
def member(cell: AnyCell) -> Member:
    """A batch scheduler of the cell."""
    return Member(cell)


def job(id: str, need: tuple[int, ...] = (1, 1), count: int = 1, **words: object) -> JobSpec:
    """A batch job of one group."""
    kind = str(words.pop("kind", "batch"))
    return JobSpec(id, id, kind, (TaskGroup(need, count),), **words)  # type: ignore[arg-type]

"""The same operation on several cells at once, with every answer compared."""

from collections.abc import Callable
from typing import Any, ClassVar

import fakeredis

from omega.cellstate.errors import OmegaError
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import BUCKETS, MachineState
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Membership, Reply
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Ask, Intake, Position
from omega.cellstate.verify import verify
from tests.leases import expire

RESOURCES = ("cpu", "memory", "gpu", "disk")
DIMENSIONS = Dimensions(RESOURCES[:2])
MEMBERS = ("batch/0", "service/0")
KEEP_JOBS, KEEP_MS = 4, 1_000
TRIM_EVERY = KEPT_LEAST = 32
"""The store trims its change list at each 32nd version and keeps at least 32 versions (``lua/parts/trim.lua``)."""
HOUR_MS = 3600 * 1000
LEASE_MS = 36_500 * 24 * HOUR_MS
"""Leases that no history outlasts, however slow or halted its process is: only `World.expire_lease` ends one."""
EVERY_BUCKET, HALF = "1" * BUCKETS, "10" * (BUCKETS // 2)

AnyCell = MemoryCell | RedisCell
Row = tuple[int, ...]


class World:
    """One cell with the private copies of two schedulers that work on it."""

    def __init__(self, cell: AnyCell) -> None:
        self.cell = cell
        self.memberships: dict[str, Membership] = {}
        self.positions: dict[str, list[Position]] = {name: [Position()] for name in MEMBERS}
        self.copies: dict[str, dict[int, Row]] = {name: {} for name in MEMBERS}
        self.cursors: dict[tuple[str, int], int] = {}

    def take(self, name: str, reply: Reply, *, latest: bool) -> tuple[Any, ...]:
        """Apply a reply to a member's copy when it was asked from where that stands; return what must be equal."""
        rows = {int(row[0]): tuple(map(int, row)) for row in reply.rows}
        if latest or reply.full:
            self.copies[name] = rows if reply.full else self.copies[name] | rows
            self.positions[name].append(reply.position)
        jobs = [(arrival, job) for arrival, job in reply.jobs]
        lanes = {int(row[0]): tuple(map(int, row)) for row in ([] if reply.lanes is None else reply.lanes)}
        known = reply.position.version, reply.full, sorted(rows.items()), lanes
        return *known, reply.outcomes, reply.arrivals, reply.counts, jobs

    def intake(self, name: str, most: int, owned: str) -> Intake:
        """What a member asks for: of every lane of its kind, after what it saw of that."""
        kind = name.partition("/")[0]
        lanes = sorted(
            (str(lane), number) for number, (_, lane) in self.cell.schedulers.lanes().items() if lane.kind == kind
        )
        return Intake(kind, tuple(Ask(n, self.cursors.get((name, n), 0), 2) for _, n in lanes), most, owned)

    def took(self, name: str, reply: Reply) -> None:
        """Go on behind the jobs that came."""
        for arrival, job in reply.jobs:
            self.cursors[name, job.lane] = arrival

    def expire_lease(self, member: str) -> None:
        """Let a lease run out."""
        expire(self.cell, member)

    def store_rows(self) -> dict[int, Row]:
        """The machine records as a newcomer reads them."""
        return {int(row[0]): tuple(map(int, row)) for row in self.cell.schedulers.sync(Position()).rows}

    def lane_rows(self) -> list[Row]:
        """The lanes as a newcomer reads them."""
        lanes = self.cell.schedulers.sync(Position()).lanes
        return [] if lanes is None else sorted(tuple(map(int, row)) for row in lanes)

    def everything(self) -> dict[str, Any]:
        """Every record of the cell, in words that can be compared."""
        cell = self.cell
        counters = cell.counters()
        numbers = [number for _, number in map(self.number, ("e0", "e1")) if number]
        seen = cell.log.changed_records(0)
        return {
            "rows": self.store_rows(),
            "machines": cell.machines.all(),
            "runs": cell.machines.runs(list(self.store_rows())),
            "jobs": cell.jobs.all(),
            "names": cell.jobs.names(),
            "pending": cell.schedulers.pending(),
            "lanes": cell.schedulers.lanes(),
            "lane rows": self.lane_rows(),
            "kinds": cell.pools.kinds(),
            "sums": cell.sums(),
            "newest": (cell.jobs.newest_ids(3), [job.id for job in cell.jobs.page(3, 5).jobs], cell.jobs.page(2)[2:]),
            "pools": (cell.pools.get(), cell.pools.use(), cell.pools.epoch()),
            "facts": cell.log.facts(most=100_000),
            "riders": [(each.version, each.basis, each.settings) for each in cell.log.entries(most=100_000)],
            "members": cell.schedulers.members(),
            "updates": cell.jobs.updates(), "copied": cell.jobs.copied("batch"),
            "chores": cell.jobs.chores(),
            "executors": cell.executors.records(),
            "figures": cell.schedulers.figures(),
            "counters": {name: value for name, value in counters.items() if value},
            "mailboxes": [cell.executors.receive(number) for number in numbers],
            "tokens": {name: cell.schedulers.wait_for_work(name, 0.01) for name in MEMBERS},
            "looks": (seen.version, seen.seen, seen.first, seen.length, seen.placements),
            "looked at": (sorted(seen.rows.tolist()), sorted(seen.runs, key=str), sorted(seen.jobs, key=str)),
            "looked up": (seen.queued, seen.holders, seen.absent, seen.kinds),
        }  # fmt: skip

    def number(self, executor: str) -> tuple[str, Any]:
        """An executor's number, when it has one."""
        return self.answer(lambda world: world.cell.executors.number(executor))

    def answer(self, operation: Callable[["World"], Any]) -> tuple[str, Any]:
        """What an operation answers, or which error it raises."""
        try:
            return "ok", operation(self)
        except OmegaError as error:
            return type(error).__name__, None


class Worlds:
    """The twin and the scripts.

    Their time is `now`: the store's clock decides nothing (`timeless`).
    """

    operations: ClassVar[int] = 0
    """Operations that were carried out and compared, by all worlds of this process."""

    def __init__(self, client: Any = None, name: str = "c", resources: int = 2) -> None:
        """`client`: the server that runs the scripts, a fake one by default; `resources`: 1 to 4."""
        dimensions = Dimensions(RESOURCES[:resources])
        client = client or fakeredis.FakeRedis(server=fakeredis.FakeServer())
        self.twin = MemoryCell(name, dimensions, keep_jobs=KEEP_JOBS, keep_ms=KEEP_MS)
        self.store = RedisCell.create(client, name, dimensions, keep_jobs=KEEP_JOBS, keep_ms=KEEP_MS)
        self.store.store_older_than = lambda milliseconds: milliseconds > 0  # type: ignore[method-assign]
        self.now = self._trimmed = 0
        self.store.store_ms = lambda: self.now  # type: ignore[method-assign]
        self.all = self.first, _ = World(self.twin), World(self.store)

    def do(self, operation: Callable[[World], Any]) -> tuple[str, Any]:
        """Carry out an operation everywhere; returns the one answer."""
        Worlds.operations += 1
        # The wake keys of live members are hints of the client.
        self.store.schedulers.may_wake(name for name, each in self.twin.scheduler_members.items() if each.lives)
        answers = [world.answer(operation) for world in self.all]
        assert answers[1] == answers[0], f"the scripts differ from the twin: {answers[1]} and {answers[0]}"
        self._trim()
        return answers[0]

    def _trim(self) -> None:
        """Trim the twin's changes as the store trimmed its own: what it keeps follows from its entries' length."""
        version, floor = self.twin.version, self.twin.floor
        if version // TRIM_EVERY == self._trimmed // TRIM_EVERY:
            return
        self._trimmed = version
        stored = int(self.store.client.hget(f"{self.store.prefix}meta", "floor") or 0)
        assert floor <= stored <= max(floor, version - KEPT_LEAST)
        if stored > floor:
            self.twin.trim(stored)

    def compare(self) -> None:
        """Compare every record."""
        self.timeless()
        twin, store = (world.everything() for world in self.all)
        for word, value in twin.items():
            assert store[word] == value, (word, store[word], value)
        for world in self.all:
            report = verify(world.cell)
            assert report.settled
            assert report.violations == (), report.violations

    def timeless(self) -> None:
        """Check that no key of the store expires within an hour: no test controls the server's clock."""
        keys = list(self.store.client.scan_iter(match=f"{self.store.prefix}*", count=1_000))
        with self.store.client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.pttl(key)
            for key, left in zip(keys, pipe.execute(), strict=True):
                assert left < 0 or left > HOUR_MS, f"{key} expires in {left} ms"


def endings_of(cell: MemoryCell, *, leaving: bool) -> list[TaskEnd]:
    """An ending for every run there is."""
    how = EndKind.LEFT if leaving else EndKind.FINISHED
    return [
        TaskEnd(run.machine, run.placement, how, run.tasks)
        for run in cell.machines.runs(list(cell.M))
        if run.leaving == leaving
    ]


UP = MachineState.UP

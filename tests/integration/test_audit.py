"""The audit against a real server: whatever happened to a cell, and while it happens."""

import threading
from collections.abc import Iterator
from random import Random

import pytest
import redis

from omega.cellstate import ranges
from omega.cellstate.errors import Refused
from omega.cellstate.model import Gang, JobSpec, Machine, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Mode, Position, Transaction
from omega.cellstate.verify import verify

KINDS = ("batch", "service")
HOURS_MS = 3_600_000
SET_BY_USERS = [state for state in MachineState if state not in (MachineState.OFFLINE, MachineState.UNFIT)]


class Life:
    """Everything that may happen to a cell, in an order drawn by `rng`; `name` tells lives of one cell apart."""

    def __init__(self, cell: RedisCell, rng: Random, name: str) -> None:
        self.cell, self.rng, self.name, self.number, self.jobs = cell, rng, name, 0, 0
        self.members: list[Membership] = [
            cell.schedulers.register(f"{kind}/{name}", name, HOURS_MS, 0) for kind in KINDS
        ]
        self.join(8)

    def step(self) -> None:
        acts = [self.submit, self.commit, self.end, self.change_machine, self.stop]
        self.rng.choices(acts, weights=[20, 45, 25, 8, 2])[0]()

    def join(self, number: int) -> None:
        amounts = (1000, 2000, 4000)
        names = self.rng.sample(range(10), number)
        specs = [MachineSpec(f"m{i}", (self.rng.choice(amounts), self.rng.choice(amounts))) for i in names]
        self.cell.executors.register("simulated", "n", 600_000, 0)
        self.cell.machines.join("simulated", specs, 0)

    def submit(self) -> None:
        self.jobs += 1
        name, rng = f"{self.name}-{self.jobs}", self.rng
        groups = tuple(
            TaskGroup((rng.choice((100, 500, 900)), rng.choice((100, 300))), rng.randint(1, 8))
            for _ in range(rng.randint(1, 2))
        )
        gang = rng.choice((Gang.NO, Gang.NO, Gang.YES, Gang.STRICT))
        spec = JobSpec(name, f"{name}-name", rng.choice(KINDS), groups, rng.choice((0, 100, 200)), gang)
        self.cell.jobs.submit([spec], 0, "ada", held=rng.random() < 0.05)

    def commit(self) -> None:
        machines, rng = self.cell.machines.all(), self.rng
        pending = [job for job in self.cell.jobs.all() if job.pending]
        transactions = []
        for job in rng.sample(pending, min(len(pending), 3)):
            claims = []
            for group, status in enumerate(job.groups):
                left = status.unplaced
                while left > 0:
                    count = left if job.gang and rng.random() < 0.5 else rng.randint(1, left)
                    claims.append(self.claim(rng.choice(machines), group, count))
                    left -= count
            mode = Mode.GANG if job.gang else rng.choice(list(Mode))
            transactions.append(Transaction(job.id, tuple(claims), mode, rng.choice(list(Detection))))
        self.number += 1
        self.cell.schedulers.commit(CommitRequest(rng.choice(self.members), self.number, transactions, Position(), 0))

    def claim(self, machine: Machine, group: int, count: int) -> Claim:
        victims: tuple[tuple[int, int], ...] = ()
        if self.rng.random() < 0.4:
            runs = self.cell.machines.runs([machine.index])
            chosen = self.rng.sample(runs, min(len(runs), 3))
            victims = tuple((run.placement, self.rng.randint(1, 4)) for run in chosen)
        return Claim(machine.index, group, count, seen=machine.number, evict=victims)

    def end(self) -> None:
        runs, rng, endings = self.cell.machines.runs(range(10)), self.rng, []
        for run in rng.sample(runs, min(len(runs), rng.randint(1, 5))):
            tasks = ranges.indices(run.tasks)
            some = sorted(rng.sample(tasks, rng.randint(1, len(tasks))))
            part = "*" if rng.random() < 0.6 else ",".join(map(str, some))
            how = EndKind.LEFT if run.leaving else rng.choice([each for each in EndKind if each is not EndKind.LEFT])
            endings.append(TaskEnd(run.machine, run.placement, how, part, "drain" if how is EndKind.EVICTED else ""))
        self.cell.executors.end(endings, 0, "simulated")

    def change_machine(self) -> None:
        index, rng = self.rng.randrange(8), self.rng
        try:
            match rng.randrange(3):
                case 0:
                    self.cell.machines.set_state(index, rng.choice(SET_BY_USERS), 0, "ada")
                case 1:
                    victims = [(run.placement, 9) for run in self.cell.machines.runs([index])[:2] if not run.leaving]
                    self.cell.machines.set_capacity(index, (rng.choice((1000, 4000)), 2000), 0, "ada", victims)
                case _:
                    self.join(3)
        except Refused:
            pass  # gone, or more on it than would fit

    def stop(self) -> None:
        if jobs := self.cell.jobs.all():
            self.cell.jobs.stop(self.rng.choice(jobs).id, 0, "ada")


@pytest.fixture
def client(store_url: str) -> Iterator["redis.Redis"]:
    client = connect(store_url)
    yield client
    client.close()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happened_to_a_cell_it_is_ok(client: "redis.Redis", seed: int) -> None:
    cell = RedisCell.create(client, f"audit-{seed}", keep_jobs=5 if seed % 2 else 1000)
    life = Life(cell, Random(f"{seed}/audit"), "life")
    for step in range(120):
        life.step()
        if step % 20 == 0 or step == 119:
            report = verify(cell)
            assert report.ok, report.violations
    assert {"place", "evicted", "left", "lost", "done"} <= {fact.event[0] for fact in cell.log.facts(0, 1000)}
    cell.delete()


@pytest.mark.chaos
def test_a_cell_is_ok_while_schedulers_commit(store_url: str) -> None:
    cell = RedisCell.create(connect(store_url), "audit-busy", keep_jobs=20)
    done, failures = threading.Event(), list[BaseException]()

    def live(name: str) -> None:
        try:
            own = RedisCell.connect(store_url, "audit-busy")
            life = Life(own, Random(f"{name}/audit"), name)
            while not done.is_set():
                life.step()
            own.close()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=live, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    versions = [0]
    try:
        while (versions[-1] < 400 or len(set(versions)) <= 2) and not failures:
            report = verify(cell)
            assert report.settled
            assert report.violations == ()
            versions.append(report.version)
        cell.client.hset("omega:1:{audit-busy}:names", "ghost", "999")
        assert [each.where for each in verify(cell).violations] == ["names ghost"], "a real one is confirmed"
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert len(set(versions)) > 2, "the cell changed from one verification to the next"
    cell.delete()
    cell.close()


def test_a_trimmed_log_is_checked_from_where_it_begins(client: "redis.Redis") -> None:
    cell = RedisCell.create(client, "audit-trimmed")
    life = Life(cell, Random("trimmed/audit"), "life")
    for _ in range(150):
        life.step()
    for left in (90, 60, 30, 10, 1, 0):
        client.xtrim("omega:1:{audit-trimmed}:log", maxlen=left, approximate=False)
        report = verify(cell)
        assert report.ok, report.violations
        assert report.log_from_version == report.version - left + 1
    cell.delete()


def test_a_broken_cell_is_reported(client: "redis.Redis") -> None:
    cell = RedisCell.create(client, "audit-broken")
    life = Life(cell, Random("broken/audit"), "life")
    for _ in range(60):
        life.step()
    client.hset("omega:1:{audit-broken}:jobnames", "nobody", "nothing")
    report = verify(cell)
    assert [(v.invariant, v.where) for v in report.violations] == [(4, "jobnames nobody")]
    cell.delete()

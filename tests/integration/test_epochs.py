"""Epochs of a live cell: who publishes when, from which machines, and that a publisher may die (semantics 34)."""

import threading
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_process
import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.backup import read_backup, restore
from omega.cellstate.job_demands import JobDemand
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup, bucket_of
from omega.cellstate.pools import Integral, Pool, Pools, PoolTree
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.redis import RedisCell, pools as pools_of_redis
from omega.cellstate.redis.pools import read_demand
from omega.cellstate.replies import CommitRequest, EpochMark
from omega.cellstate.server import connect
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify
from omega.schedulers.pool_machines import totals_of
from omega.schedulers.presets import batch
from omega.schedulers.process import epochs
from omega.schedulers.process.epochs import EpochReader, Publisher, is_due
from omega.schedulers.process.scheduler import SupervisedScheduler
from omega.schedulers.sharing import owned
from tests.integration.stage import check, join, made_cell, serve, started_processes, submit, until

pytestmark = pytest.mark.server
GB = 1 << 20


def job(name: str, pool: str, count: int = 50) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((1000, 1024), count, 60_000),), spec={"pool": pool, "user": "ada"})


def placed(cell: RedisCell, job_id: str) -> int:
    found = cell.jobs.get(job_id)
    return found.groups[0].placed if found else 0


@pytest.mark.parametrize(
    ("mark", "rank", "grows", "due"),
    [
        (
            EpochMark(number=0, at_ms=0, read=0, published=0, version=5, pools_version=2, configured=True, now_ms=1),
            0,
            False,
            True,
        ),
        (
            EpochMark(number=0, at_ms=0, read=0, published=0, version=5, pools_version=0, configured=False, now_ms=1),
            0,
            False,
            False,
        ),
        (
            EpochMark(
                number=3, at_ms=1_000, read=8, published=9, version=10, pools_version=2, configured=True, now_ms=1_999
            ),
            0,
            False,
            False,
        ),
        (
            EpochMark(
                number=3, at_ms=1_000, read=8, published=9, version=10, pools_version=2, configured=True, now_ms=2_000
            ),
            0,
            False,
            True,
        ),
        (
            EpochMark(
                number=3, at_ms=1_000, read=8, published=9, version=10, pools_version=2, configured=True, now_ms=2_249
            ),
            1,
            False,
            False,
        ),
        (
            EpochMark(
                number=3, at_ms=1_000, read=8, published=9, version=10, pools_version=2, configured=True, now_ms=2_250
            ),
            1,
            False,
            True,
        ),
        (
            EpochMark(
                number=3, at_ms=1_000, read=8, published=9, version=10, pools_version=2, configured=True, now_ms=3_000
            ),
            50,
            False,
            True,
        ),
        (
            EpochMark(
                number=3, at_ms=9_000, read=8, published=9, version=10, pools_version=2, configured=True, now_ms=8_999
            ),
            3,
            False,
            True,
        ),
        (
            EpochMark(
                number=3, at_ms=1_000, read=8, published=9, version=9, pools_version=2, configured=True, now_ms=60_000
            ),
            0,
            False,
            False,
        ),
        (
            EpochMark(
                number=3, at_ms=1_000, read=8, published=9, version=9, pools_version=2, configured=True, now_ms=60_000
            ),
            0,
            True,
            True,
        ),
    ],
)
def test_an_epoch_is_due_after_a_period_by_rank_and_only_when_something_changed(
    mark: EpochMark, rank: int, grows: bool, due: bool
) -> None:
    assert is_due(mark, rank, grows=grows) is due


def test_the_first_epoch_is_computed_by_one_scheduler_and_another_one_waits_for_it() -> None:
    mark = EpochMark(number=0, at_ms=0, read=0, published=0, version=9, pools_version=2, configured=True, now_ms=60_000)
    assert is_due(mark, 0, grows=False)
    assert [is_due(mark, 1, grows=True, waited=seconds) for seconds in (0.0, 9.9, 10.0)] == [False, False, True]


def test_trees_divide_the_machines_by_their_formulas(store_url: str) -> None:
    with made_cell(store_url, "trees") as cell:
        serve(cell)
        join(cell, [MachineSpec(f"g{i}", (4000, 8 * GB), {"gpu": "yes"}) for i in range(2)])
        join(cell, [MachineSpec("c0", (9000, 7 * GB), {"zone": "a"}), MachineSpec("c1", (500, GB))])
        trees = PoolTree("main"), PoolTree("gpu", "gpu == 'yes'"), PoolTree("zone", "zone == 'a'")
        cell.pools.set(Pools((Pool("a", tree="main"), Pool("g", tree="gpu")), trees), 0, 0, "ada")
        submit(cell, [job("x", "g")])
        publisher = Publisher(cell)
        assert publisher.publish("batch/0", 5_000)
        expected = {"main": (500, GB), "gpu": (8000, 16 * GB), "zone": (9000, 7 * GB)}
        assert totals_of(cell.pools.get(), publisher.snapshot, ("cpu", "memory")) == expected
        epoch = cell.pools.epoch()
        assert epoch is not None
        assert epoch.totals == expected
        assert epoch.pools["g"].fair_share[0] == pytest.approx(1.0)
        cell.machines.set_attributes(0, {"gpu": None}, 0, "ada")
        assert publisher.publish("batch/0", 6_000)
        assert totals_of(cell.pools.get(), publisher.snapshot, ("cpu", "memory"))["gpu"] == (4000, 8 * GB), (
            "attributes are read again"
        )
        check(cell)


def test_only_records_that_changed_are_read_again(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(job_id: str, *given: Any) -> JobDemand | None:
        read.append(job_id)
        return read_demand(job_id, *given)

    monkeypatch.setattr(pools_of_redis, "read_demand", counted)
    with made_cell(store_url, "again") as cell:
        serve(cell)
        join(cell, [MachineSpec("m", (4000, 8 * GB))])
        cell.pools.set(Pools((Pool("a"),)), 0, 0, "ada")
        submit(cell, [job(name, "a") for name in "xyz"])
        position, first = cell.pools.demands(Position())[0].position, cell.pools.demands(Position())[1]
        assert (sorted(read), [demand.id for demand in first]) == (["x", "y", "z"], ["x", "y", "z"])
        member = cell.schedulers.register("batch/0", "n", 60_000, 0)
        cell.schedulers.commit(CommitRequest(member, 1, [Transaction("y", (Claim(0, 0, 2),))], Position(), 0))
        cell.jobs.stop("z", 0, "ada")
        read.clear()
        again = cell.pools.demands(position)[1]
        assert read in (["y"], ["y", "z"])
        assert [(demand.id, demand.groups[0][2]) for demand in again] == [("x", 0), ("y", 2)]


def test_an_epoch_states_its_processor_time_and_not_that_of_a_halt(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made_cell(store_url, "halted") as cell:
        serve(cell)
        join(cell, [MachineSpec("m", (4000, 8 * GB))])
        cell.pools.set(Pools((Pool("a"),)), 0, 0, "ada")

        def halted() -> int:
            time.sleep(1.0)
            return 1

        monkeypatch.setattr(cell.pools, "next_epoch", halted)
        Publisher(cell).publish("batch/0", 5_000)
        epoch = cell.pools.epoch()
        assert epoch is not None
        assert 0 < epoch.took_ms < 500


def test_readers_take_over_pools_and_epochs(store_url: str) -> None:
    with made_cell(store_url, "readers") as cell:
        serve(cell)
        join(cell, [MachineSpec("m", (4000, 8 * GB))])
        reader, snapshot = EpochReader(store_url, cell.name, "batch/0"), ArraySnapshot(2)
        assert not reader.read(snapshot).configured
        stored = cell.pools.set(Pools((Pool("a"),)), 0, 0, "ada")
        reader.read(snapshot)
        assert (snapshot.pools, snapshot.epoch) == (stored, None)
        Publisher(cell).publish("batch/0", 5_000)
        reader.read(snapshot)
        assert snapshot.epoch == cell.pools.epoch()
        cell.pools.set(Pools(), stored.version, 0, "ada")
        reader.read(snapshot)
        assert (snapshot.pools.configured, snapshot.epoch) == (False, None)
        reader.close()


def test_schedulers_publish_and_one_that_is_killed_is_replaced(store_url: str, tmp_path: Path) -> None:
    with (
        made_cell(store_url, "epochs", 4) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", "batch/1") as group,
    ):
        serve(cell)
        pools = Pools((Pool("a", integral=Integral("relaxed", flow={"cpu": 1000})), Pool("b", weight=3)))
        cell.pools.set(pools, 0, 0, "ada")
        submit(cell, [job("x", "a"), job("y", "b")])
        until(lambda: cell.pools.epoch_mark().number >= 1, "an epoch")
        first = cell.pools.epoch()
        assert first is not None
        publisher = first.by
        group.kill(publisher)
        killed = cell.pools.epoch_mark().number
        until(lambda: cell.pools.epoch_mark().number >= killed + 2, "epochs of the other scheduler")
        epoch = cell.pools.epoch()
        assert epoch is not None
        assert epoch.by != publisher
        assert epoch.pools["b"].fair_share[0] > epoch.pools["a"].fair_share[0] > 0
        check(cell)


@pytest.mark.chaos
def test_attempts_go_on_while_an_epoch_is_computed(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process for it does not start, and the thread that computes instead does not end."""
    computing, ends = threading.Event(), threading.Event()

    async def never_starts(*_: object, **__: object) -> None:
        await anyio.sleep_forever()

    def computes(*_: object) -> None:
        computing.set()
        ends.wait(60)

    async def no_signals(_: SupervisedScheduler, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        task_status.started()

    monkeypatch.setattr(anyio.to_process, "run_sync", never_starts)
    monkeypatch.setattr(epochs, "publish", computes)
    monkeypatch.setattr(SupervisedScheduler, "_signals", no_signals)
    with made_cell(store_url, "busy") as cell:
        serve(cell)
        join(cell, [MachineSpec("m", (4000, 8 * GB))])
        cell.pools.set(Pools((Pool("a"),)), 0, 0, "ada")
        process = SupervisedScheduler(store_url, cell.name, member="batch/0", scheduler=batch())
        thread = threading.Thread(target=process.run)
        thread.start()
        try:
            assert computing.wait(30), "the publisher is due"
            submit(cell, [job("x", "a", 2)])
            until(lambda: placed(cell, "x") == 2, "placements beside the computation")
        finally:
            process._stop()
            thread.join(30)
            ends.set()
        assert not thread.is_alive(), "a stop does not wait for the computation either"
        assert cell.pools.epoch() is None


@pytest.mark.chaos
def test_a_fifo_pool_keeps_its_order_with_two_live_schedulers(store_url: str, tmp_path: Path) -> None:
    """Each has two of the four jobs, which wait for the first epoch."""
    members = ["batch/0", "batch/1"]
    first = owned("batch/0", members)
    own, other = ([f"f{i}" for i in range(99) if first[bucket_of(f"f{i}")] == mark] for mark in "10")
    names = [own[0], other[0], other[1], own[1]]
    with made_cell(store_url, "fifo") as cell:
        serve(cell)
        join(cell, [MachineSpec(f"m{i}", (4000, 8 * GB)) for i in range(10)])
        cell.pools.set(Pools((Pool("a", mode="fifo"),)), 0, 0, "ada")
        with started_processes(cell, store_url, tmp_path, *members, lease_ms=6_000):
            submit(cell, [job(name, "a", 15) for name in names])
            until(lambda: [placed(cell, name) for name in names] == [15, 15, 10, 0], "the order of submission")
            check(cell)
            assert not any(fact.event[0] == "evicted" for fact in cell.log.facts(most=100_000))


def test_a_backup_holds_pools_what_they_hold_and_the_epoch(store_url: str) -> None:
    with made_cell(store_url, "kept") as cell, connect(store_url) as client:
        serve(cell)
        join(cell, [MachineSpec("m", (8000, 8 * GB))])
        top = Pool("top", limits={"tasks": 9, "cpu": 6000})
        stored = cell.pools.set(Pools((top, Pool("a", "top"), Pool("gone"))), 0, 0, "ada")
        stored = cell.pools.set(Pools(stored.pools[:2]), stored.version, 0, "ada")
        submit(cell, [job("x", "a")])
        member = cell.schedulers.register("batch/0", "n", 60_000, 0)
        cell.schedulers.commit(CommitRequest(member, 1, [Transaction("x", (Claim(0, 0, 4),))], Position(), 0))
        Publisher(cell).publish("batch/0", 5_000)
        other = restore(client, read_backup(cell, 6_000), "kept-again", 7_000, "ada", url=store_url)
        try:
            assert other.pools.get() == stored
            assert other.pools.use() == cell.pools.use() == {"top": PoolUse(1, 4, (4000, 4096))}
            assert other.pools.epoch() == cell.pools.epoch()
            later = other.pools.set(Pools((*stored.pools, Pool("new"))), stored.version, 0, "ada")
            assert [pool.number for pool in later.pools] == [1, 2, 4]
            check(cell)
            assert verify(other).violations == ()
        finally:
            other.delete()

"""Two threads, the attempt loop and its heartbeat: neither trips over the other, neither outlives it."""

import threading

import pytest

from omega.cellstate.errors import Duplicate
from omega.cellstate.redis import RedisCell
from omega.schedulers import registry
from omega.schedulers.process import scheduler
from omega.schedulers.process.scheduler import SupervisedScheduler
from tests.integration.stage import made_cell, seen

pytestmark = pytest.mark.server


def test_figures_are_read_while_the_loop_counts_on(store_url: str) -> None:
    process = SupervisedScheduler("", "", member="batch/0", scheduler=registry.scheduler("batch"))
    figures, done = process.figures, threading.Event()
    failures: list[BaseException] = []

    def count() -> None:
        try:
            for number in range(200_000):
                if done.is_set():
                    return
                figures.wait.add(number)
                figures.rejections[number % 1000] = number
        except BaseException as error:
            failures.append(error)
            raise

    loop = threading.Thread(target=count)
    loop.start()
    try:
        for _ in range(50):
            assert process._figures_now()["wait_p90"] >= 0
    finally:
        done.set()
        loop.join()
    assert failures == []
    assert figures.wait.count > 1000


def test_a_heartbeat_that_fails_ends_the_scheduler(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(process: SupervisedScheduler, cell: RedisCell) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SupervisedScheduler, "renew_lease", fail)
    with made_cell(store_url, "fails") as cell:
        process = SupervisedScheduler(store_url, "fails", member="batch/0", scheduler=registry.scheduler("batch"))
        rescue = threading.Timer(20, lambda: setattr(process._live, "stopping", True))
        rescue.start()
        with pytest.raises(ExceptionGroup) as failure:
            process.run()
        assert rescue.is_alive()
        rescue.cancel()
        assert failure.group_contains(ZeroDivisionError)
        assert [fact.event[0] for fact in seen(cell)] == ["enlist", "leave"]


def test_housekeeping_that_takes_long_delays_no_renewal(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, renewed, done = threading.Event(), list[bool](), threading.Event()
    renew = SupervisedScheduler.renew_lease

    def slow(*_: object) -> bool:
        begun.set()
        return done.wait(20)

    def noted(process: SupervisedScheduler, cell: RedisCell) -> None:
        renew(process, cell)
        renewed.append(begun.is_set())
        if renewed.count(True) > 3:
            done.set()
            process._stop()

    monkeypatch.setattr(scheduler, "housekeep", slow)
    monkeypatch.setattr(SupervisedScheduler, "renew_lease", noted)
    with made_cell(store_url, "keeps") as cell:
        started = registry.scheduler("batch")
        SupervisedScheduler(store_url, "keeps", member="batch/0", scheduler=started, lease_ms=900).run()
        assert renewed.count(True) > 3
        assert [fact.event[0] for fact in seen(cell)] == ["enlist", "leave"]


def test_who_sleeps_is_roused_when_its_share_changes(store_url: str) -> None:
    with made_cell(store_url, "rouses") as cell:
        process = SupervisedScheduler(
            store_url, "rouses", member="batch/0", scheduler=registry.scheduler("batch"), lease_ms=60_000
        )
        process._live = process._register()
        process.renew_lease(cell)
        assert not cell.schedulers.wait_for_work("batch/0", 0.01)
        other = cell.schedulers.register("batch/1", "elsewhere", 60_000, 0)
        process.renew_lease(cell)
        assert cell.schedulers.wait_for_work("batch/0", 0.01)
        process.renew_lease(cell)
        assert not cell.schedulers.wait_for_work("batch/0", 0.01)
        cell.schedulers.deregister(other, 0)
        process.renew_lease(cell)
        assert cell.schedulers.wait_for_work("batch/0", 0.01)


def test_one_that_is_told_to_stop_while_it_waits_for_its_name_has_nothing_to_leave(store_url: str) -> None:
    with made_cell(store_url, "waits") as cell:
        cell.schedulers.register("batch/0", "elsewhere", 60_000, 0)
        process = SupervisedScheduler(
            store_url, "waits", member="batch/0", scheduler=registry.scheduler("batch"), lease_ms=60_000
        )
        process._stop()
        process.run()
        assert [fact.event[0] for fact in seen(cell)] == ["enlist"]
        assert cell.schedulers.members()["batch/0"][1]


def test_a_name_whose_holder_moves_its_figures_is_refused_at_once(store_url: str) -> None:
    with made_cell(store_url, "moves-on") as cell:
        holder = cell.schedulers.register("batch/0", "elsewhere", 60_000, 0)
        process = SupervisedScheduler(
            store_url, "moves-on", member="batch/0", scheduler=registry.scheduler("batch"), lease_ms=60_000
        )
        beats = threading.Timer(0.3, lambda: cell.schedulers.renew(holder, 60_000, {"seconds": 1.0}))
        beats.start()
        with pytest.raises(Duplicate):
            process._register()
        beats.join()

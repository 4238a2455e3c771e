"""Two threads, the attempt loop and its heartbeat: neither trips over the other, neither outlives it."""

import threading

import pytest

from cellstate.redis import RedisCell
from schedulers import registry
from schedulers.process import Process
from tests.integration.stage import made_cell, seen

pytestmark = pytest.mark.server


def test_figures_are_read_while_the_loop_counts_on(store_url: str) -> None:
    process = Process("", "", "batch/0", registry.scheduler("batch"))
    figures, done = process.figures, threading.Event()
    failures: list[BaseException] = []

    def count() -> None:
        try:
            for number in range(200_000):
                if done.is_set():
                    return
                figures.waits.add(number)
                figures.rejections[number % 1000] = number
        except BaseException as error:
            failures.append(error)
            raise

    loop = threading.Thread(target=count)
    loop.start()
    try:
        for _ in range(50):
            assert process._figures_now(0, 0)["wait_p90"] >= 0
    finally:
        done.set()
        loop.join()
    assert failures == []
    assert figures.waits.count > 1000


def test_a_heartbeat_that_fails_ends_the_scheduler(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(process: Process, cell: RedisCell) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Process, "beat", fail)
    with made_cell(store_url, "fails") as cell:
        process = Process(store_url, "fails", "batch/0", registry.scheduler("batch"))
        rescue = threading.Timer(20, lambda: setattr(process._live, "stopping", True))
        rescue.start()
        with pytest.raises(ExceptionGroup) as failure:
            process.run()
        assert rescue.is_alive()
        rescue.cancel()
        assert failure.group_contains(ZeroDivisionError)
        assert [fact.words[0] for fact in seen(cell)] == ["enlist", "leave"]

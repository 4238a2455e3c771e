"""Schedulers that die, stand still or leave cost a cell with pools at most one epoch (semantics 34)."""

import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.events import Fact
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor
from tests.chaos.test_takeover import Sleeper
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    all_facts,
    check,
    halt,
    made_cell,
    resume,
    seen,
    simple_job,
    started_processes,
    submit,
    until,
)

pytestmark = [pytest.mark.server, pytest.mark.chaos]
SCHEDULERS = tuple(f"batch/{number}" for number in range(4))
PERIOD_MS = 1_000
POLL_MS = 250
"""A scheduler looks this often whether an epoch is due, and computing one takes some of it."""
WORK_SECONDS = 0.2


def keep_changing(cell: RedisCell, stop: threading.Event) -> None:
    """Submit a short job all the time, so that each epoch differs from the one before."""
    own, number = RedisCell.connect(cell.url, cell.name), 0
    while not stop.wait(WORK_SECONDS):
        number += 1
        submit(own, [simple_job(f"w{number}", ms=300)])
    own.close()


def epochs(cell: RedisCell) -> list[Fact]:
    return [fact for fact in all_facts(cell) if fact.event[0] == "epoch"]


def worst_gap(found: list[Fact]) -> float:
    return max(later.at_ms - earlier.at_ms for earlier, later in pairwise(found))


@pytest.mark.parametrize("how", ["kill", "halt"])
def test_a_publisher_that_is_gone_costs_one_epoch(how: str, store_url: str, tmp_path: Path) -> None:
    rng, sleeper, stop = Random(how), Sleeper(), threading.Event()
    with (
        made_cell(store_url, f"epochs-{how}", 4) as cell,
        started_processes(cell, store_url, tmp_path, *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        cell.pools.set(Pools((Pool("a"),), (PoolTree(),)), cell.pools.get().version, 0, "ada")
        worker = threading.Thread(target=keep_changing, args=(cell, stop))
        worker.start()
        try:
            until(lambda: cell.pools.epoch_mark().number >= 2, "epochs")
            with sleeper.asleep():
                for round_ in range(6):
                    publisher = cell.pools.epoch()
                    assert publisher is not None
                    victim = publisher.by if round_ % 2 == 0 else rng.choice(SCHEDULERS)
                    before = cell.pools.epoch_mark().number
                    hurt(group, victim, how)
                    until(lambda least=before: cell.pools.epoch_mark().number >= least + 4, "epochs of the others")  # type: ignore[misc]
                    mend(group, cell, victim, how)
        finally:
            stop.set()
            worker.join()
        found = epochs(cell)
        gap = worst_gap(found)
        sys.stdout.write(f"{len(found)} epochs, the longest lasted {gap} ms; {sleeper.late_ms:.0f} ms overslept\n")
        assert len({fact.by for fact in found}) > 1
        assert gap <= 2 * PERIOD_MS + POLL_MS + sleeper.late_ms
        assert [int(fact.event[1]) for fact in found] == list(range(1, len(found) + 1)), "none twice, none left out"
        assert seen(cell, "place")
        check(cell)


def hurt(group: ProcessSupervisor, victim: str, how: str) -> None:
    if how == "kill":
        group.kill(victim)
    else:
        halt(group, victim)


def mend(group: ProcessSupervisor, cell: RedisCell, victim: str, how: str) -> None:
    if how == "kill":
        group.start(victim)
    else:
        resume(group, victim)
    until(lambda: cell.schedulers.members().get(victim, (0, False))[1], f"{victim} lives again")
    time.sleep(0.5)

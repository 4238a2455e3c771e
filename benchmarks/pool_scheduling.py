"""What pools cost a scheduler: processor time of an attempt, and tasks through the ordering (no store)."""

from time import process_time

from benchmarks.launch import Document
from omega.cellstate.pools import Epoch, Pool, Pools, PoolShare
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Outcome, Verdict
from omega.schedulers.presets import batch
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from omega.testing import snapshot as empty_cell, work

SLOT = 1_000
CASES = ((2_500, 4, 20, 100, 2_000), (10_000, 10, 1_000, 2_000, 50), (10_000, 10, 0, 2_000, 50))
"""Machines, slots of each, pools (0: none are configured), jobs, tasks of a job. The first is the cell in which the
Hadoop Fair Scheduler was measured (EuroSys 2010); the others differ in their pools alone."""


def jobs(pools: int, number: int, tasks: int) -> list[Work]:
    """Make jobs, in turn of each pool."""
    each = (((SLOT, 0), tasks),)
    return [
        work(*each, name=f"j{i}", order=i, duration=1.0, pool=f"p{i % pools}" if pools else "") for i in range(number)
    ]


def configure(snapshot: Snapshot, pools: int, slots: int) -> None:
    """Give the cell pools of equal shares, as an epoch would publish them."""
    if not pools:
        return
    names = [f"p{number}" for number in range(pools)]
    part, none = (1 / pools, 0.0), (0.0, 0.0)
    shares = {
        name: PoolShare(
            name=name,
            parent="<Root>",
            tree="default",
            weight=1.0,
            fair_share=part,
            demand=(1.0, 0.0),
            usage=none,
            guarantee=none,
            integral=none,
            limits=none,
            promised=none,
            estimated=none,
            satisfaction=0.0,
        )
        for name in names
    }
    snapshot.pools = Pools(tuple(Pool(name) for name in names))
    snapshot.epoch = Epoch(
        number=1, version=1, pools_version=1, at_ms=0, by="bench", totals={"default": (slots * SLOT, 0)}, pools=shares
    )


def attempt(scheduler: Scheduler, snapshot: Snapshot, now: float) -> tuple[int, int]:
    """Decide on the next jobs and have everything accepted; returns the attempts and the tasks placed."""
    scheduler.requeue(snapshot, now)
    works = scheduler.choose(now)
    placed = 0
    for transaction in scheduler.decide(works, snapshot, now):
        outcome = Outcome(tuple((claim.count, Verdict.PLACED) for claim in transaction.claims))
        placed += outcome.placed
        scheduler.settle([(transaction, outcome)], now)
    return len(works), placed


def measure_pool_scheduling() -> list[Document]:
    """Fill each cell; processor time in µs per attempt of a job, and tasks per second of processor time."""
    found = list[Document]()
    for machines, slots, pools, number, tasks in CASES:
        scheduler, snapshot = batch(), empty_cell(*[(slots * SLOT, 0)] * machines)
        configure(snapshot, pools, machines * slots)
        scheduler.take(jobs(pools, number, tasks))
        placed = attempts = 0
        began, now = process_time(), 0.0
        while placed < min(machines * slots * 0.9, number * tasks * 0.9):
            now += 0.01
            jobs_tried, more = attempt(scheduler, snapshot, now)
            placed, attempts = placed + more, attempts + jobs_tried
        took = process_time() - began
        found.append(
            {
                "machines": machines,
                "slots": slots,
                "pools": pools,
                "jobs": number,
                "tasks_per_job": tasks,
                "attempts": attempts,
                "tasks": placed,
                "tasks_per_second": round(placed / took),
                "microseconds_per_attempt": round(took * 1e6 / attempts, 1),
            }
        )
    return found

"""Epochs in the store and in its twin: demands at one version, publication by compare-and-set (semantics 34)."""

from dataclasses import replace

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.model import After, MachineState
from omega.cellstate.pools import Epoch, Integral, Pool, Pools
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Position
from omega.schedulers.epochs import epoch_of, recomputed
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_pools import in_pool, put

PERIOD = 1_000


def next_epoch(cell: AnyCell, at_ms: int, by: str = "batch/0") -> Epoch:
    reply, jobs, _ = cell.pools.demands(Position())
    totals = {"default": tuple(int(n) for n in reply.rows[reply.rows[:, 2] == 0][:, 4:6].sum(axis=0))}
    return epoch_of(
        cell.pools.get(),
        jobs,
        totals,
        cell.dimensions.names,
        cell.pools.epoch(),
        version=reply.position.version,
        at_ms=at_ms,
        by=by,
    )


def test_demands_are_what_live_jobs_hold_and_want(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([in_pool("a", "p"), in_pool("b", user="bob", precedence=3), in_pool("c", "p")], 0, "ada")
    cell.jobs.submit([in_pool("waits")], 0, "ada", held=True)
    assert member.place("a", (0, 3)).accepted
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0")], 1, "e0")
    cell.jobs.stop("c", 1, "ada")
    cell.machines.set_state(2, MachineState.DRAINED, 1, "ada")
    reply, jobs, _ = cell.pools.demands(Position())
    assert jobs == [
        JobDemand(
            "a", Lane("batch", 0, "p", "ada"), 1, gang=False, waits=False, groups=(((1, 2), 1, 2),),
            spec={"user": "ada", "pool": "p"},
        ),
        JobDemand(
            "b", Lane("batch", 3, "", "bob"), 2, gang=False, waits=False, groups=(((1, 2), 4, 0),),
            spec={"user": "bob"},
        ),
    ]  # fmt: skip
    assert reply.position.version == cell.counters()["version"]
    assert reply.full
    assert max(reply.rows[:, 2].tolist()) == MachineState.DRAINED
    cell.jobs.hold("b", 2, "ada")
    later, jobs, _ = cell.pools.demands(reply.position)
    assert [job.id for job in jobs] == ["a"], "a held job wants nothing beyond what it holds"
    assert not later.full
    assert len(later.rows) == 0


def test_what_pools_ask_for_is_what_lanes_count(cell: AnyCell, member: Member) -> None:
    """Also of jobs that wait for a person, for another job, for a gate: a snapshot counts them too."""
    cell.jobs.submit([in_pool("a", "p"), in_pool("b", user="bob"), in_pool("g", "q"), in_pool("s", "r")], 0, "ada")
    cell.jobs.submit([in_pool("held", "h")], 0, "ada", held=True)
    cell.jobs.submit([replace(in_pool("late", "l"), after=(After("a"),))], 0, "ada")
    cell.jobs.gate("g", "no licence", 1, "batch/0")
    cell.jobs.stop("s", 1, "ada")
    assert member.place("a", (0, 3)).accepted
    cell.executors.end([TaskEnd(0, 1, EndKind.LOST, "0")], 1, "e0")
    copy = ArraySnapshot(2)
    copy.apply(cell.schedulers.sync(copy.position))
    copy.lanes.learn(cell.schedulers.lanes(copy.lanes.unknown()))
    counted = dict[str, tuple[int, ...]]()
    for (pool, user), (held, wanted) in copy.usage.by_account().items():
        assert counted.setdefault(pool or user, tuple(map(sum, zip(held, wanted, strict=True))))
    asked = {leaf: amounts for leaf, amounts in cell.pools.demands(Position()).asked.items() if any(amounts)}
    assert asked == counted
    assert {"p", "bob", "q", "h", "l"} <= counted.keys()


def test_the_first_of_a_number_wins(cell: AnyCell) -> None:
    put(cell, Pool("a"), Pool("b", weight=3))
    cell.jobs.submit([in_pool("x", "a", count=100), in_pool("y", "b", count=100)], 0, "ada")
    assert cell.pools.epoch() is None
    first, rival = next_epoch(cell, 5_000), next_epoch(cell, 5_000, "batch/1")
    published = cell.pools.publish_epoch(first, PERIOD, 7)
    assert published == cell.counters()["version"]
    assert cell.pools.publish_epoch(rival, PERIOD, 7) == 0
    assert cell.counters()["version"] == published
    stored = cell.pools.epoch()
    assert stored == replace(first, published=published)
    assert stored.pools["b"].fair_share == pytest.approx((0.75, 0.75))
    assert stored.jobs["y"] == stored.pools["b"].fair_share
    assert stored.pools["default/<Root>"].demand == pytest.approx((200 / 12, 400 / 24))
    assert [fact.event[:3] for fact in cell.log.facts()][-1] == ("epoch", "1", str(first.version))
    mark = cell.pools.epoch_mark()
    assert (mark.number, mark.at_ms, mark.published, mark.configured) == (1, 5_000, published, True)


def test_an_epoch_lasts_a_period_and_follows_its_pools(cell: AnyCell) -> None:
    stored = put(cell, Pool("a"))
    assert cell.pools.publish_epoch(next_epoch(cell, 5_000), PERIOD, 7)
    assert not cell.pools.publish_epoch(next_epoch(cell, 5_999), PERIOD, 7), "too early"
    second = next_epoch(cell, 6_000)
    cell.pools.set(Pools((Pool("a"), Pool("b"))), stored.version, 0, "ada")
    assert not cell.pools.publish_epoch(second, PERIOD, 7), "its pools are others now"
    assert cell.pools.publish_epoch(next_epoch(cell, 6_000), PERIOD, 7)
    epoch = cell.pools.epoch()
    assert epoch is not None
    assert (epoch.number, sorted(epoch.pools)) == (2, ["a", "b", "default/<Root>"])


def test_a_clock_that_was_put_back_stops_no_epochs(cell: AnyCell) -> None:
    put(cell, Pool("a", integral=Integral("burst", flow={"cpu": 3, "memory": 6}, burst={"cpu": 12, "memory": 24})))
    for at_ms in (3_600_000, 3_610_000, 5_000, 6_000):
        assert cell.pools.publish_epoch(next_epoch(cell, at_ms), PERIOD, 7)
    assert not cell.pools.publish_epoch(next_epoch(cell, 6_999), PERIOD, 7), "too early"
    epoch = cell.pools.epoch()
    assert epoch is not None
    assert epoch.pools["a"].volume == pytest.approx((33, 66)), (
        "flow × (10 s + 1 s), nothing lost and nothing for the jump"
    )


def test_volumes_go_from_epoch_to_epoch(cell: AnyCell) -> None:
    put(cell, Pool("a", integral=Integral("burst", flow={"cpu": 3, "memory": 6}, burst={"cpu": 12, "memory": 24})))
    for number in range(3):
        assert cell.pools.publish_epoch(next_epoch(cell, 10_000 * (number + 1)), PERIOD, 7)
    epoch = cell.pools.epoch()
    assert epoch is not None
    assert epoch.pools["a"].volume == pytest.approx((60, 120)), "flow × 20 s"
    assert epoch.seconds == 10
    again = recomputed(epoch, cell.pools.get(), cell.dimensions.names)
    assert again == epoch.pools

"""Many lanes are kept in order: the same jobs come in the same order as by looking at all lanes."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from omega.cellstate.fairness import leaf_of
from omega.cellstate.model import MachineState
from omega.cellstate.pools import Epoch, Leaf, Pool, Pools, PoolShare
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.policies import NoPreemption, Ordering
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.presets import batch
from omega.schedulers.queue import ready as module
from omega.schedulers.queue.queue import Queue
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.queue.ready import Ready
from omega.schedulers.work import Work
from omega.testing.scenes import snapshot, work


@dataclass
class ByPool(Ordering):
    """Pools by numbers that tests change."""

    numbers: dict[str, float] = field(default_factory=dict)

    def lane(self, work: Work) -> Hashable:
        return work.pool

    def rank(self, lane: Hashable) -> float:
        return self.numbers.get(str(lane), 0.0)

    def kin(self, lane: Hashable) -> Hashable | None:
        return lane


steps = st.lists(st.tuples(st.sampled_from("anpdf"), st.integers(0, 3), st.integers(0, 5)), min_size=20, max_size=60)


@given(steps)
def test_the_order_is_that_of_all_lanes(told: list[tuple[str, int, int]]) -> None:
    orders = []
    for many in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MANY", many)
            policy = ByPool()
            ranks = Ranks(policy)
            ready, taken, jobs = Ready(ranks), list[str](), 0
            for what, pool, number in told:
                if what in "an":
                    jobs += 1
                    backs_off = number + 1.0 if what == "n" else 0.0
                    ready.add(work(((1,), 1), name=f"j{jobs}", order=jobs, pool=f"p{pool}", not_before=backs_off))
                elif what == "p":
                    found = ready.pop(float(number))
                    taken.append(found.id if found else "-")
                elif what == "d":
                    ready.discard(f"j{number}")
                else:
                    policy.numbers[f"p{pool}"] = float(number)
                    ranks.forget_kin([f"p{pool}"])
            while (found := ready.pop(100.0)) is not None:
                taken.append(found.id)
            orders.append(taken)
    assert orders[0] == orders[1]


@pytest.mark.parametrize("many", [0, 10**9])
@pytest.mark.parametrize("lanes", [4, 20])
def test_a_lane_whose_rank_was_dropped_takes_its_new_place(
    monkeypatch: pytest.MonkeyPatch, lanes: int, many: int
) -> None:
    monkeypatch.setattr(module, "MANY", many)
    policy = ByPool()
    ranks = Ranks(policy)
    ready = Ready(ranks)
    for pool in range(lanes):
        ready.add(work(((1,), 1), name=f"j{pool}", order=pool, pool=f"p{pool}"))
    first = ready.pop(0.0)
    policy.numbers["p3"] = -1.0
    ranks.forget_kin(["p3"])
    assert [each.id for each in (first, ready.pop(0.0), ready.pop(0.0)) if each] == ["j0", "j3", "j1"]


def test_without_kin_a_job_that_holds_more_changes_the_ranks_of_all_lanes() -> None:
    class Unrelated(ByPool):
        def kin(self, lane: Hashable) -> Hashable | None:
            return None

    policy = Unrelated({"a": 1.0, "b": 1.0})
    ranks = Ranks(policy)
    assert [ranks.rank("a"), ranks.rank("b")] == [1.0, 1.0]
    policy.numbers = {"a": 2.0, "b": 3.0}
    ranks.forget_of("a")
    assert [ranks.rank("a"), ranks.rank("b")] == [2.0, 3.0]


def epoch_of(**shares: float) -> Epoch:
    none = (0.0,)
    pools = {
        name: PoolShare(
            name=name, parent="<Root>", tree="default", weight=1.0,
            fair_share=(share,), demand=(1.0,), usage=none, guarantee=none,
            integral=none, limits=none, promised=none, estimated=none, satisfaction=0.0,
        )
        for name, share in shares.items()
    }  # fmt: skip
    return Epoch(
        number=1, version=1, pools_version=1, at_ms=0, by="ada", totals={"default": (100,)}, pools=pools,
        asked=dict.fromkeys(shares, (10_000,)),
    )  # fmt: skip


def naming(epoch: Epoch, *works: Work) -> Epoch:
    """An epoch in which each of these jobs is due all that it wants."""
    leaves = [
        Leaf(each.pool, demand=tuple(amount * each.remaining for amount in each.need(0)), usage=(0,), gang=False,
             start=each.job.order, pending=each.remaining, jobs=[each.id])
        for each in works
    ]  # fmt: skip
    shares = [tuple(amount / epoch.totals["default"][0] for amount in leaf.demand) for leaf in leaves]
    return replace(epoch, leaves={"default": leaves}, leaf_shares={"default": shares})


def test_shipped_schedulers_follow_the_pools_of_the_cell_and_leave_them_again() -> None:
    copy: Snapshot = snapshot((100,))
    found = batch()
    jobs = [
        work(((20,), 1), name=name, order=order, pool=name[0], precedence=order)
        for order, name in enumerate(("a1", "a2", "b1", "b2"))
    ]
    found.take(jobs)
    copy.pools, copy.epoch = Pools((Pool("a"), Pool("b"))), naming(epoch_of(a=0.5, b=0.5), *jobs)
    copy.usage.change(("b", ""), (10,), (0,))
    found.requeue(copy, 1.0)
    assert found.preemption.by == "fair share"
    assert isinstance(found.preemption, FairSharePreemption)
    assert isinstance(found.preemption.within, PrecedencePreemption), (
        "precedence decides within a pool, whatever the scheduler"
    )
    assert [each.id for each in found.choose(1.0)] == ["a2", "b2", "a1", "b1"], "pools take turns, b holds more"
    assert leaf_of("a", "ada") == "a"
    copy.pools = Pools()
    found.requeue(copy, 2.0)
    assert not found.preemption.evicts


def test_freed_room_goes_to_the_pool_below_its_share() -> None:
    copy = snapshot((100,))
    copy.pools, copy.epoch = Pools((Pool("a"), Pool("b"))), epoch_of(a=0.1, b=0.9)
    queue, jobs = Queue(CellPools()), [work(((60,), 1), name=name, pool=name) for name in ("a", "b")]
    for each in jobs:
        copy.usage.change((each.pool, ""), (10,), (40,))
        queue.block(each)
    copy.epoch = naming(copy.epoch, *jobs)
    queue.observe(copy, 1.0)
    copy.apply(Reply(Position(2, "t"), full=False, rows=np.array([[0, 2, MachineState.UP, 0, 200, 0]])))
    queue.requeue(copy, NoPreemption(), Random(1), 1.0)
    assert [found.id for found in queue.choose(1.0, 9)] == ["b"]


def test_what_a_requeued_job_may_get_counts_until_the_next_choice_only() -> None:
    copy = snapshot((100,))
    copy.pools, copy.epoch = Pools((Pool("a"), Pool("b"))), epoch_of(a=0.5, b=0.5)
    queue = Queue(CellPools())
    for name in ("a1", "a2", "b1"):
        queue.block(work(((60 if name == "a1" else 50,), 2), name=name, pool=name[0]))
    for second in range(1, 6):
        queue.observe(copy, float(second))
        row = [0, second + 1, MachineState.UP, 0, 200 + second, 0]
        copy.apply(Reply(Position(second + 1, "t"), full=False, rows=np.array([row])))
        queue.requeue(copy, NoPreemption(), Random(1), float(second))
        for found in queue.choose(float(second), 9):
            queue.block(found)
    copy.usage.forget_promises()
    assert (copy.usage.of_leaf("a"), copy.usage.of_leaf("b")) == ((0,), (0,))


@pytest.mark.parametrize("published", [False, True])
def test_jobs_that_no_epoch_has_start_by_the_weights_and_guarantees_of_the_tree(published: bool) -> None:
    """The same when the last epoch was published before the jobs came, and gives their pools nothing."""
    copy, queue = snapshot(*[(12,)] * 10), Queue(CellPools())
    inner = Pool("team"), Pool("a", "team", weight=3.0), Pool("b", "team"), Pool("c", guarantee={"cpu": 80})
    copy.pools, copy.resources = Pools(inner), ("cpu",)
    copy.epoch = replace(epoch_of(a=0.0, b=0.0, c=0.0), asked={}) if published else None
    jobs = [work(((1,), 1), name=f"{pool}{order}", order=order, pool=pool) for pool in "abc" for order in range(120)]
    for pool in "abc":
        copy.usage.change((pool, ""), (0,), (1_000,))
    queue.ready.add_all(jobs)
    queue.observe(copy, 0.0)
    started = Counter(found.pool for found in queue.choose(0.0, 120))
    assert started == {"c": 100, "a": 15, "b": 5}, "80 of 120 are guaranteed, c takes half of the rest; then 3 to 1"
    copy.epoch = epoch_of(a=0.5, b=0.5, c=0.0)
    queue.observe(copy, 3.0)
    queue.requeue(copy, NoPreemption(), Random(1), 3.0)
    assert {found.pool for found in queue.choose(3.0, 4)} == {"a", "b"}, "an epoch that has them holds from then on"


@pytest.mark.parametrize(("wanted", "taken"), [(60, 0), (20, 40), (0, 60)])
def test_a_pool_with_its_share_leaves_what_another_lacks(wanted: int, taken: int) -> None:
    """The other pool's jobs are another scheduler's; 60 of 120 are due to each, and one holds its 60."""
    copy, queue = snapshot(*[(12,)] * 10), Queue(CellPools())
    copy.pools, copy.resources = Pools((Pool("a"), Pool("b"))), ("cpu",)
    copy.usage.change(("a", ""), (60,), (1_000,))
    copy.usage.change(("b", ""), (0,), (wanted,))
    queue.ready.add_all([work(((1,), 1), name=f"a{order}", order=order, pool="a") for order in range(120)])
    queue.observe(copy, 0.0)
    assert len(queue.choose(0.0, 120)) == taken

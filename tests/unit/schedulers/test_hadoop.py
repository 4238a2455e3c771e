"""The orderings and the preemption of Hadoop's Fair Scheduler: which pool and which job comes first, who is evicted."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.transaction import Mode, Transaction, Verdict
from omega.schedulers.comparisons.hadoop import FewestRunning, HadoopFair, HadoopFifo
from omega.schedulers.comparisons.hadoop_preemption import HadoopPreemption
from omega.schedulers.composition import compose
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.work import Work
from omega.testing import snapshot, work
from omega.testing.residents import CellWithResidents


def cell(pools: Sequence[Pool], capacity: tuple[int, ...] = (100, 100), **held: int) -> ArraySnapshot:
    """A cell with pools that hold so much of each resource."""
    copy = snapshot(capacity)
    copy.pools, copy.resources = Pools(tuple(pools)), ("cpu", "memory", "gpu")[: len(capacity)]
    copy.usage.capacity = copy.total()
    for name, amount in held.items():
        copy.usage.change((name, ""), (amount,) * len(capacity), (1,) * len(capacity))
    return copy


def order(copy: ArraySnapshot, *pools: str) -> list[str]:
    """The pools in the order in which their jobs come."""
    policy = HadoopFair()
    policy.observe(copy, 0.0)
    return sorted(pools, key=policy.rank)


def running(count: int, *, pool: str = "", precedence: int = 0, weight: float = 1.0) -> Work:
    """A job of ten tasks of which some run."""
    found = work(((1, 1), 10), pool=pool, precedence=precedence, spec={"weight": weight})
    found.left = [10 - count]
    return found


def test_pools_below_their_minimum_come_first_then_usage_by_weight() -> None:
    pools = [Pool("low", guarantee={"cpu": 40}), Pool("lower", guarantee={"cpu": 20}), Pool("heavy", weight=4.0)]
    copy = cell(pools, low=30, lower=5, heavy=12, plain=4)
    assert order(copy, "plain", "heavy", "low", "lower") == ["lower", "low", "heavy", "plain"]


def test_a_pool_with_its_minimum_competes_by_weight() -> None:
    copy = cell([Pool("sure", guarantee={"cpu": 10})], sure=10, plain=9)
    assert order(copy, "sure", "plain") == ["plain", "sure"]


def test_a_minimum_of_what_the_tasks_do_not_need_gives_no_precedence_for_ever() -> None:
    copy = cell([Pool("sure", guarantee={"cpu": 10, "memory": 10})], plain=5)
    copy.usage.change(("sure", ""), (60, 1), (1, 1))
    assert order(copy, "sure", "plain") == ["plain", "sure"]


@pytest.mark.parametrize("capacity", [(100,), (100, 200), (100, 100, 100)])
def test_minimum_shares_above_the_cell_are_scaled_with_a_warning(capacity: tuple[int, ...]) -> None:
    pools = [Pool("a", guarantee={"cpu": 150}), Pool("b", guarantee={"cpu": 50})]
    policy = HadoopFair()
    policy.observe(cell(pools, capacity, a=74, b=25), 0.0)
    assert policy.rank("a") < 0 < policy.rank("b"), "a has 75 of them, b 25"
    (text,) = policy.warnings
    assert "cpu are 200 together" in text
    assert "scaled by 0.500" in text
    policy.observe(cell([Pool("a", guarantee={"cpu": 100})], capacity), 0.0)
    assert not policy.warnings


def test_settings_of_inner_pools_are_reported() -> None:
    policy = HadoopFair()
    policy.observe(cell([Pool("unit"), Pool("a", "unit", weight=2.0)]), 0.0)
    assert [text for text in policy.warnings if "settings of unit are not in effect" in text]


def test_a_fair_pool_prefers_the_fewest_tasks_by_weight_and_priority() -> None:
    policy = HadoopFair()
    policy.observe(cell([]), 0.0)
    assert policy.key(running(2)) < policy.key(running(3))
    assert policy.key(running(3, weight=2.0)) < policy.key(running(2))
    assert policy.key(running(3, precedence=1)) < policy.key(running(2))


def test_a_fifo_pool_prefers_priority_then_submission() -> None:
    policy = HadoopFair()
    policy.observe(cell([Pool("p", mode="fifo")]), 0.0)
    assert policy.key(running(9, pool="p", precedence=1)) < policy.key(running(0, pool="p"))
    assert policy.key(running(9, pool="p")) == policy.key(running(0, pool="p"))


def test_the_baselines_know_no_pools() -> None:
    assert FewestRunning().key(running(1, pool="p", precedence=4)) == 1.0
    fifo = HadoopFifo()
    assert [fifo.rank(fifo.lane(running(0, precedence=at))) for at in (0, 3, 4, 9)] == [0.0, -3.0, -4.0, -4.0]


# Evictions


class Slots(CellWithResidents):
    """Two machines of eight slots, all held by jobs of pool `rich`, the last job the youngest; `poor` wants some."""

    def __init__(self, *pools: Pool, held: Sequence[int] = (8, 4, 4)) -> None:
        super().__init__([(8,), (8,)])
        self.cell.pools.set(Pools(pools), None, 0, "ada")
        left = [8, 8]
        for tasks in held:
            where = next(i for i, room in enumerate(left) if room >= tasks)
            left[where] -= tasks
            self.settle([(where, tasks)], (1,), 9, pool="rich")
        self.work = self.wanting([((1,), 12)], gang=Gang.NO, precedence=0, demands={}, pool="poor")

    def look(self) -> ArraySnapshot:
        copy = self.snapshot(self.work)
        assert isinstance(copy, ArraySnapshot)
        copy.pools, copy.resources = self.cell.pools.get(), tuple(self.cell.dimensions.names)
        return copy

    def evict(self, policy: HadoopPreemption, at: float) -> dict[str, int]:
        """Tasks evicted by job, once the store accepted the claims of a policy at a time."""
        copy = self.look()
        copy.now = at
        if policy.suspects(self.work, copy, Random(1)) is None:
            return {}
        claims = policy.place(self.work, copy, FirstFit(), Random(1))
        made = Transaction(self.work.id, tuple(claims), Mode.INCREMENTAL, assertion=policy.assertion(self.work))
        assert all(verdict is Verdict.PLACED for _, verdict in self.commit(made)), "the store accepts every claim"
        return self.leaving()


def test_the_youngest_tasks_of_a_pool_above_its_share_go_up_to_the_fair_share() -> None:
    slots = Slots(Pool("rich"), Pool("poor"))
    assert slots.evict(HadoopPreemption(fair_timeout=0.0), 1.0) == {"r3": 4, "r2": 4}


def test_single_tasks_go_as_well_and_all_of_the_youngest_run() -> None:
    slots = Slots(Pool("rich"), Pool("poor"), held=(8, 3, 3, 1, 1))
    assert slots.evict(HadoopPreemption(fair_timeout=0.0), 1.0) == {"r5": 1, "r4": 1, "r3": 3, "r2": 3}


def test_only_half_a_share_for_the_whole_timeout_evicts() -> None:
    slots, policy = Slots(Pool("rich"), Pool("poor")), HadoopPreemption(fair_timeout=10.0)
    policy.observe(slots.look(), 1.0)
    assert not policy.starving()
    assert slots.evict(policy, 10.9) == {}
    assert slots.evict(policy, 12.0) == {"r3": 4, "r2": 4}
    assert policy.starving() == {"poor": "starving"}
    assert policy.stirred() == {"poor"}
    assert policy.stirred() == set()


def test_a_pool_below_its_minimum_evicts_earlier_and_only_up_to_that() -> None:
    slots = Slots(Pool("rich"), Pool("poor", guarantee={"cpu": 3}))
    policy = HadoopPreemption(minimum_timeout=5.0, fair_timeout=1e9)
    policy.observe(slots.look(), 1.0)
    assert slots.evict(policy, 5.5) == {}
    assert slots.evict(policy, 7.0) == {"r3": 3}


def test_a_clock_that_was_set_back_evicts_no_earlier() -> None:
    slots, policy = Slots(Pool("rich"), Pool("poor")), HadoopPreemption(fair_timeout=10.0)
    policy.observe(slots.look(), 100.0)
    assert slots.evict(policy, 50.0) == {}
    assert slots.evict(policy, 55.0) == {}
    assert slots.evict(policy, 61.0)


def test_evictions_in_flight_are_not_planned_twice() -> None:
    slots, policy = Slots(Pool("rich"), Pool("poor", guarantee={"cpu": 3})), HadoopPreemption(minimum_timeout=0.0)
    copy, named = slots.look(), list[tuple[int, int]]()
    for wanting in (slots.work, work(((1,), 12), name="other", pool="poor")):
        for claim in policy.place(wanting, copy, FirstFit(), Random(1)):
            named += claim.evict
        policy.assertion(wanting)
    youngest = max(slots.runs())
    assert sum(count for placement, count in named if placement == youngest) == 4, "of four tasks, for two jobs"
    assert len({placement for placement, _ in named}) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("fair_timeout", -1.0), ("minimum_timeout", float("nan")), ("fraction", 1.5)]
)
def test_bad_parameters(name: str, value: float) -> None:
    with pytest.raises(BadInput, match=name):
        compose("fair.toml", f'kind = "batch"\n[preemption]\npolicy = "hadoop-fair"\n{name} = {value}\n')


def test_the_scheduler_file_of_the_page_names_the_policies() -> None:
    text = Path("docs/hadoop.md").read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    found = compose("fair.toml", text)
    assert isinstance(found.ordering, HadoopFair)
    assert isinstance(found.preemption, HadoopPreemption)
    assert found.uses_pools

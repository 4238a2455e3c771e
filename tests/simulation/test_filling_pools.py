"""Pools that fill up one after the other: none loses what it just gained, and nobody searches for victims in vain."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from omega.cellstate import ranges
from omega.cellstate.override import override
from omega.cellstate.pools import Pool
from omega.cellstate.transaction import Claim, Outcome, Transaction
from omega.schedulers.instruments import Instrument
from omega.schedulers.policies import Placement
from omega.schedulers.preemption import plans
from omega.schedulers.preemption.plans import EvictionPlan
from omega.schedulers.work import Work
from tests.simulation.pool_ground import QUICK, Ground, PoolRun
from tests.tiers import first

KEPT_SECONDS = 5.0
SEVERAL = pytest.mark.parametrize("schedulers", [1, 4, pytest.param(8, marks=pytest.mark.chaos)])


def ground(schedulers: int, seconds: float, tasks: int) -> Ground:
    """Three pools of weights 1, 2 and 3 that come 20 s apart, ten jobs each, to 400 slots."""
    made = Ground([Pool(f"p{i}", weight=float(i + 1)) for i in range(3)], 100, schedulers=schedulers)
    for i in range(3):
        for _ in range(10):
            made.job(f"p{i}", tasks, at=20.0 * i, seconds=seconds)
    return made


def lost_after_a_gain(story: PoolRun) -> tuple[int, int]:
    """Evictions, and those from a pool that gained a task by one within 5 s before, at the same demand, by the log."""
    gained: dict[str, float] = {}
    evicting, version, evicted, lost = "", -1, 0, 0
    for fact in story.simulation.store.cell.log.facts():
        how, words, now = fact.event[0], fact.event, fact.at_ms / 1000
        if fact.version != version:
            evicting, version = "", fact.version
        if how == "submit":
            gained.clear()
        elif how == "assert":
            evicting = words[1]
        elif how == "place" and words[3] == evicting:
            gained[pool_of(words[3])] = now
        elif how == "evicted":
            count, pool = ranges.count(words[5]), pool_of(words[3])
            evicted += count
            lost += count if now - gained.get(pool, -KEPT_SECONDS) < KEPT_SECONDS else 0
    return evicted, lost


def pool_of(job: str) -> str:
    return job.partition("-")[0]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times of searches for victims."""
    found, place = list[float](), EvictionPlan.place

    def counted(plan: EvictionPlan, placement: Placement, rng: Random) -> list[Claim]:
        found.append(plan.snapshot.now)
        return place(plan, placement, rng)

    monkeypatch.setattr(EvictionPlan, "place", counted)
    return found


@SEVERAL
@pytest.mark.parametrize(("seconds", "tasks"), first(2, [(1e6, 40), (10.7, 1_000), (10.0, 1_000)]))
def test_no_pool_loses_a_task_soon_after_it_gained_one_and_few_searches_are_made(
    schedulers: int, seconds: float, tasks: int, searches: list[float]
) -> None:
    story = ground(schedulers, seconds, tasks).run(50, logged=True)
    evicted, lost = lost_after_a_gain(story)
    assert evicted == story.evicted, "the log is complete"
    assert lost == 0
    assert len(searches) <= 30 + 10 * schedulers


@SEVERAL
def test_nobody_searches_for_victims_while_nothing_changes(schedulers: int, searches: list[float]) -> None:
    """Shares are no multiples of a task, so some pool always lacks a part of one."""
    story = ground(schedulers, 1e6, 40).run(80)
    assert [round(story.held(f"p{i}")) for i in range(3)] == pytest.approx([67, 133, 200], abs=1)
    assert searches
    assert not [at for at in searches if at > 60]


@pytest.mark.parametrize(("evictions", "starts", "slots"), first(2, [(7, 500, 2), (200, 4, 1), (7, 500, 1)]))
def test_a_transaction_evicts_and_starts_a_bounded_number(
    monkeypatch: pytest.MonkeyPatch, evictions: int, starts: int, slots: int
) -> None:
    """A task of two slots evicts two at once, so that a transaction ends one above the bound at most."""
    monkeypatch.setattr(plans, "MOST_EVICTIONS", evictions)
    monkeypatch.setattr(plans, "MOST_STARTS", starts)
    made = Ground([Pool("p0"), Pool("p1")], 15)
    made.job("p0", 60)
    made.job("p1", 60, at=3.3, slots=slots)
    story = made.run(12, logged=True)
    gone = Counter[int]()
    for fact in story.simulation.store.cell.log.facts():
        if fact.event[0] == "evicted":
            gone[fact.version] += ranges.count(fact.event[5])
    assert sum(gone.values()) == 30
    most = min(evictions, starts * slots)
    assert max(gone.values()) == most + most % slots


def test_jobs_of_a_pool_that_waits_for_its_timeout_are_tried_once_an_epoch() -> None:
    """Jobs of a third pool are tried in between. Evictions begin 8 s after the pool fell below its share."""

    class Tried(Instrument):
        @override
        def attempted(
            self, works: Sequence[Work], began: float, now: float, results: Sequence[tuple[Transaction, Outcome]]
        ) -> None:
            tried.extend(began for work in works if work.id == "p1-1")

    tried = list[float]()
    slow = replace(QUICK, starvation_timeout=8.0)
    made = Ground([Pool(f"p{i}") for i in range(3)], 6, preemption=slow)
    made.compose = lambda scheduler: replace(scheduler, instruments=[Tried()])
    made.job("p0", 24)
    made.job("p1", 24, at=6.0)
    for at in (6.3, 8.6):
        made.job("p2", 1, at=at)
    story = made.run(14.5)
    # At first twice: as live, it looks once more when it begins to ask what its blocked jobs wait for.
    assert [round(at) for at in tried] == [6, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    assert story.evicted > 0


@SEVERAL
def test_pools_that_come_together_fill_an_empty_cell_by_their_shares(schedulers: int) -> None:
    """Room beyond a pool's share is left to the pools that lack some of theirs, whichever schedulers have their jobs.

    Within 5 % of the cell: each scheduler takes at least one task at a time, from a copy that lacks the others' last.
    """
    weights = {f"p{i}": i + 1 for i in range(3)}
    ground = Ground([Pool(name, weight=float(weight)) for name, weight in weights.items()], 250, schedulers=schedulers)
    for name in weights:
        for _ in range(60):
            ground.job(name, 50)
    story = ground.run(1.9, watch=[1.5])  # before the first evictions
    held = Counter[str]()
    for job, tasks in story.seen[1.5].items():
        held[pool_of(job)] += tasks
    assert held.total() == 1_000, "no room stays free"
    for name, weight in weights.items():
        assert held[name] == pytest.approx(1_000 * weight / 6, abs=50), held


@pytest.mark.parametrize("schedulers", [1, 4])
def test_more_pools_than_slots_hold_one_task_each_or_none(schedulers: int) -> None:
    """Shares of less than half a task: pools of two give to pools of none; then equals keep places."""
    at = Ground([Pool(f"p{i}") for i in range(80)], 8, 4, schedulers=schedulers)
    at.job("p0", 32)
    for i in range(1, 80):
        at.job(f"p{i}", 3, at=2.0 if i < 20 else 12.0)
    story = at.run(40.0, watch=[11.9, 30.0, 39.9])
    assert set(story.seen[11.9].values()) == {1, 2}, "twenty pools share 32 slots"
    assert Counter(story.seen[30.0].values()) == {1: 32, 0: 48}
    assert story.evictions[39.9] == story.evictions[30.0]

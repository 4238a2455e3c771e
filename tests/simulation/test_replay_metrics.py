"""Metrics of a replay, against the same recomputed microsecond by microsecond."""

import math
from itertools import pairwise

import numpy as np
import pytest

from omega.cellstate.model import TaskGroup
from omega.cellstate.tasks import EndKind
from omega.replay.columns import State
from omega.replay.fairness import fairness_of, jain_index
from omega.replay.fragmentation import fragmentation, task_classes, used_at
from omega.replay.utilisation import over_commit, utilisation_of
from omega.replay.waits import bounded_slowdown, by_kind, spread, times_of
from omega.simulation.records import RUNNING
from omega.workload.workload import JobEvent
from tests.simulation.replay_cases import HORIZON, MICRO, Case, Row, arrival, drawn, made

SEEDS = range(12)
ONE = TaskGroup((1000, 100), 1, 5)


def _capacity(case: Case, instant: int) -> list[int]:
    return [sum(column) for column in zip(*case.capacity(instant).values(), strict=True)]


@pytest.mark.parametrize("seed", SEEDS)
def test_utilisation_is_what_every_microsecond_adds_up_to(seed: int) -> None:
    case = drawn(seed)
    held = np.array([case.held(instant) for instant in range(HORIZON)])
    has = np.array([_capacity(case, instant) for instant in range(HORIZON)])
    utilisation = utilisation_of(case.columns)
    assert len(case.rows) > 5
    assert list(utilisation.mean().values()) == pytest.approx(list(held.sum(axis=0) / has.sum(axis=0)))
    assert list(utilisation.largest().values()) == pytest.approx(list((held / has).max(axis=0)))
    edges, held_means, has_means = utilisation.bins(7)
    spans = list(pairwise(edges))
    assert edges[0] == 0
    assert edges[-1] == HORIZON
    assert np.allclose(held_means, [held[a:b].mean(axis=0) for a, b in spans])
    assert np.allclose(has_means, [has[a:b].mean(axis=0) for a, b in spans])


@pytest.mark.parametrize("seed", SEEDS)
def test_fragmentation_is_what_every_instant_adds_up_to(seed: int) -> None:
    case, instants = drawn(seed), 13
    lost, free_in_all = np.zeros(2), np.zeros(2)
    needs = [(group.need, group.count) for each in case.workload.arrivals for group in each.job.groups]
    tasks = sum(count for _, count in needs)
    for i in range(instants):
        at = int((i + 0.5) * HORIZON / instants)
        for name, capacity in case.capacity(at).items():
            free = np.array(capacity) - case.held(at, int(name[1:]))
            unfit = sum(count for need, count in needs if any(n > f for n, f in zip(need, free, strict=True)))
            free_in_all += free
            lost += free * unfit / tasks
    assert list(fragmentation(case.columns, instants).values()) == pytest.approx(list(lost / free_in_all))


@pytest.mark.parametrize("seed", SEEDS)
def test_use_of_machines_at_instants(seed: int) -> None:
    case, at = drawn(seed), np.array([0, 1, 10, 20, 35, 59])
    used = used_at(case.columns, at)
    assert used.tolist() == [[case.held(int(t), machine) for machine in range(4)] for t in at]


def test_one_ends_when_another_starts() -> None:
    case = made(
        [(1000, 1000)], [], [arrival(0, 0, ONE), arrival(1, 0, ONE)], [Row(0, 0, 0, 0, 0, 10), Row(1, 0, 0, 0, 10, 20)]
    )
    assert utilisation_of(case.columns).largest() == {"cpu": 1.0, "memory": 0.1}
    assert over_commit(case.columns)[None].machines == 0


def test_over_committed_machines_are_found() -> None:
    rows = [Row(0, 0, 0, 1, 5, 30), Row(1, 0, 0, 1, 20, -1, RUNNING), Row(2, 0, 0, 0, 20, 20)]
    case = made([(1000, 1000), (1500, 1000)], [], [arrival(i, 0, ONE) for i in range(3)], rows)
    over = over_commit(case.columns)
    assert over[None] == over["cpu"] == (1, 1, 20, 2000 / 1500)
    assert over["memory"] == (0, -1, 0, 0.2)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_over_committed_where_all_fits(seed: int) -> None:
    assert over_commit(drawn(seed).columns)[None].machines == 0


def test_times_and_states_of_jobs() -> None:
    two = TaskGroup((1000, 100), 2, 5)
    jobs = [arrival(i, at, two) for i, at in enumerate((0, 10, 10, 10, 10, 10, 70, 12))]
    rows = [
        Row(0, 0, 0, 0, 0, 30), Row(0, 0, 1, 0, 0, 40),  # resident, finished
        Row(1, 0, 0, 0, 15, 20, EndKind.EVICTED), Row(1, 0, 0, 0, 30, 50), Row(1, 0, 1, 0, 20, 20),  # finished at 50
        Row(2, 0, 0, 0, 12, -1, RUNNING), Row(2, 0, 1, 0, 12, 13),
        Row(3, 0, 0, 0, 12, 20, EndKind.LOST),  # waits again
        Row(4, 0, 0, 0, 12, 20, EndKind.FAILED), Row(4, 0, 1, 0, 12, 20),
        Row(5, 0, 0, 0, 12, 20, EndKind.STOPPED),
    ]  # fmt: skip
    events = [
        JobEvent(20 * MICRO, "j5", "stop"),
        JobEvent(30 * MICRO, "j7", "hold"),
        JobEvent(65 * MICRO, "j3", "stop"),
    ]
    case = made([(9000, 9000)], jobs[:1], jobs[1:], rows, events, first_attempt=[0, 11, 11, 11, 11, 11, -1, 13])
    columns = case.columns
    assert [State(each) for each in columns.jobs.state] == [
        State.FINISHED, State.FINISHED, State.RUNNING, State.PENDING, State.FAILED, State.STOPPED, State.ABSENT,
        State.HELD,
    ]  # fmt: skip
    times = times_of(columns)
    assert times.wait[1] == pytest.approx(5 * MICRO)
    assert times.first_attempt[1] == pytest.approx(1 * MICRO)
    assert times.response[1] == pytest.approx(40 * MICRO)
    assert times.run[1] == pytest.approx(35 * MICRO)
    assert times.slowdown[1] == 1.0
    assert [math.isnan(each) for each in times.wait] == [True, False, False, False, False, False, True, True]
    assert [math.isnan(each) for each in times.response] == [True, False, *[True] * 6]
    found = by_kind(columns, times)
    assert found["all"] == found["batch"]
    everything = found["all"]
    assert everything["jobs"] == 6
    assert everything["jobs_never_started"] == 1
    assert (everything["tasks"], everything["tasks_started"], everything["tasks_finished"]) == (12, 8, 4)
    assert (everything["evictions"], everything["losses"]) == (1, 1)
    assert everything["states"] == {
        "pending": 1, "running": 1, "finished": 1, "failed": 1, "stopped": 1, "abandoned": 0, "held": 1,
    }  # fmt: skip
    assert everything["response_s"]["jobs"] == 1


def test_abandoned_jobs() -> None:
    """One had a task that was stopped with it, one never started; a held job that was abandoned is abandoned."""
    jobs = [arrival(i, 0, ONE) for i in range(3)]
    rows = [Row(0, 0, 0, 0, 10, 30, EndKind.STOPPED)]
    events = [JobEvent(5 * MICRO, "j2", "hold")]
    case = made([(1000, 1000)], [], jobs, rows, events, abandoned=[30, 20, 40])
    assert {State(each) for each in case.columns.jobs.state} == {State.ABANDONED}
    found = by_kind(case.columns, times_of(case.columns))["all"]
    assert found["states"]["abandoned"] == 3
    assert found["wait_s"]["jobs"] == 1
    assert found["response_s"]["jobs"] == 0


def test_the_bounded_slowdown_has_a_threshold() -> None:
    wait, run = np.array([0.0, 5.0, 20.0, 20.0, 30.0]), np.array([0.0, 1.0, 1.0, 0.0, 60.0])
    assert bounded_slowdown(wait, run).tolist() == [1.0, 1.0, 2.1, 2.0, 1.5]


def test_a_spread_of_nothing_has_no_mean() -> None:
    assert spread(np.array([math.nan]))["mean"] is None
    assert spread(np.array([1.0, 3.0, math.nan]))["mean"] == 2.0


def test_fairness_among_users() -> None:
    """Ada's jobs take 2 and 4 times as long as they run, Bob's as long: (3 + 1)² ÷ (2 · 10) = 0.8."""
    second = 1_000_000
    jobs = [arrival(i, 0, ONE, user=user) for i, user in enumerate(("ada", "ada", "bob", "eve"))]
    rows = [
        Row(0, 0, 0, 0, 20 * second, 40 * second),
        Row(1, 0, 0, 1, 60 * second, 80 * second),
        Row(2, 0, 0, 2, 0, 60 * second),
    ]
    case = made([(1000, 1000)] * 3, [], jobs, rows)
    columns = Case(case.workload, case.jobs, case.rows, horizon=100 * second).columns
    fairness = fairness_of(columns, times_of(columns))
    assert [(each.user, each.jobs, each.finished, each.slowdown_mean) for each in fairness.users] == [
        ("ada", 2, 2, 3.0), ("bob", 1, 1, 1.0), ("eve", 1, 0, None),
    ]  # fmt: skip
    assert [each.share for each in fairness.users] == [0.4, 0.6, 0.0]
    assert fairness.jain == pytest.approx(0.8)


def test_jains_index() -> None:
    assert jain_index(np.array([3.0, 3.0, 3.0])) == pytest.approx(1.0)
    assert jain_index(np.array([5.0, 0.0])) == pytest.approx(0.5)
    assert jain_index(np.array([])) is None


def test_a_run_without_placements_has_no_times() -> None:
    case = made([(1000, 1000)], [], [arrival(0, 0, ONE)], [])
    columns = case.columns
    assert utilisation_of(columns).mean() == {"cpu": 0.0, "memory": 0.0}
    assert by_kind(columns, times_of(columns))["all"]["jobs_never_started"] == 1
    assert fairness_of(columns, times_of(columns)).jain is None
    assert fragmentation(columns) == {"cpu": 0.0, "memory": 0.0}


def test_the_most_frequent_requests_stand_for_the_workload() -> None:
    jobs = [arrival(0, 0, TaskGroup((1, 1), 3), TaskGroup((2, 2), 1)), arrival(1, 0, TaskGroup((1, 1), 4))]
    needs, shares = task_classes(made([(9, 9)], [], jobs, []).columns)
    assert needs.tolist() == [[1, 1], [2, 2]]
    assert shares.tolist() == [0.875, 0.125]

"""``omega bench conflict`` in small: what is counted, the shape of the document, and real schedulers once."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from benchmarks.conflict import chosen, comparisons, measure, task_groups, with_pools
from benchmarks.contest import Contest, Observation, figures
from benchmarks.residents import add_pools, queue_jobs
from omega.cellstate.errors import BadInput
from omega.cellstate.model import TaskGroup
from omega.live.choice import scheduler
from tests.integration.stage import made_cell

CONTEST = Contest(
    batch=2,
    service=0,
    detection="fine",
    commit="incremental",
    fullness=0.0,
    gang=True,
    tasks_per_job=10,
    jobs_per_call=8,
)


def reading(seconds: float, times: int) -> dict[str, Any]:
    """What a scheduler has counted after some seconds: `times` as much as after the first."""
    return {
        "seconds": seconds,
        "busy_seconds": 0.5 * seconds,
        "transactions": 10 * times,
        "accepted": 8 * times,
        "conflicts": 2 * times,
        "tasks": 100 * times,
        "jobs": 10 * times,
        "jobs_placed": 9 * times,
        "abandoned": 0,
        "wait_mean": float(times),
        "wait_p90": 2.0,
    }


def test_figures_are_the_difference_of_two_readings_each_over_its_own_time() -> None:
    observed = Observation(
        before={"batch/0": reading(1.0, 1), "batch/1": reading(1.0, 1), "gone/0": {}},
        after={"batch/0": reading(3.0, 2), "batch/1": reading(5.0, 3), "gone/0": {}},
        cpu={"server": 0.5},
    )
    found: dict[str, Any] = figures(observed, CONTEST)
    assert (found["transactions"], found["accepted"], found["conflicts"]) == (30, 24, 6)
    assert found["conflict_fraction"] == 0.25
    assert found["tasks_placed"] == 300
    assert found["tasks_per_second"] == 100 / 2 + 200 / 4
    assert found["gangs_per_second"] == found["jobs_per_second"] == round(9 / 2 + 18 / 4)
    assert found["busyness"] == {"batch/0": 0.5, "batch/1": 0.5}
    # batch/0 began 10 jobs that waited 3 s each on average, batch/1 20 that waited 4 s each.
    assert found["wait_seconds"] == {"batch": {"mean": round((10 * 3 + 20 * 4) / 30, 4), "p90": 2.0}}
    # A queue that was made 3 s before it was put back is no wait of this run.
    aged: dict[str, Any] = figures(observed, CONTEST, age=3.0)
    assert aged["wait_seconds"]["batch"] == {"mean": round((10 * 3 + 20 * 4) / 30 - 3, 4), "p90": 0.0}


def test_without_an_accepted_transaction_the_fraction_is_the_conflicts() -> None:
    zero, some = reading(1.0, 0), reading(2.0, 1) | {"accepted": 0, "conflicts": 10}
    observed = Observation(before=dict.fromkeys(CONTEST.members, zero), after=dict.fromkeys(CONTEST.members, some))
    observed.cpu["server"] = 0.0
    assert figures(observed, CONTEST)["conflict_fraction"] == 20.0


def test_runs_are_compared_with_those_of_the_same_repeat() -> None:
    fractions = {
        (0, "fine", "incremental"): 0.1,
        (0, "coarse", "incremental"): 0.4,
        (0, "fine", "gang"): 0.2,
        (1, "fine", "incremental"): 0.2,
        (1, "coarse", "incremental"): 0.4,
    }
    fixed = {"batch": 4, "service": 0, "fullness": 0.9, "gang": False, "pools": 0}
    runs = [
        fixed | {"repeat": repeat, "detection": detection, "commit": commit, "conflict_fraction": fraction}
        for (repeat, detection, commit), fraction in fractions.items()
    ]
    found: list[dict[str, Any]] = comparisons(runs)
    assert [(each["of"], each["conflict_fraction_ratio"], each["spread"], each["pairs"]) for each in found] == [
        ("coarse ÷ fine", 3.0, [2.0, 4.0], 2),
        ("gang ÷ incremental", 2.0, [2.0, 2.0], 1),
    ]


def test_what_is_said_wins_over_a_preset() -> None:
    settings = chosen("contended", repeat=2)
    assert settings.repeat == 2
    assert settings.batch == (4,)
    assert chosen("headline").gang == (False, True)
    with pytest.raises(BadInput, match="known: headline, contended"):
        chosen("other")
    with pytest.raises(BadInput, match="cpu and memory"):
        chosen(need=(1,))


def test_groups_share_a_jobs_tasks_and_keep_their_mean_size() -> None:
    alike = task_groups(chosen(need=(1000, 2048)))
    assert [(group.need, group.count) for group in alike] == [((1000, 2048), 10)]
    mixed = task_groups(chosen(need=(1000, 2000), groups=5))
    assert [group.count for group in mixed] == [2] * 5
    assert [group.need[0] for group in mixed] == [600, 800, 1000, 1200, 1400]
    with pytest.raises(BadInput, match="multiple"):
        task_groups(chosen(groups=3))


def test_a_scheduler_process_commits_as_the_contest_says() -> None:
    contest = replace(CONTEST, detection="coarse", commit="gang", jobs_per_call=3)
    found = scheduler(contest.settings, "batch", "seed")
    assert (found.detection.name, found.mode.name, found.jobs_per_call) == ("COARSE", "GANG", 3)
    usual = scheduler({}, "batch", "seed")
    assert (usual.detection.name, usual.mode.name) == ("FINE", "INCREMENTAL")
    with pytest.raises(BadInput, match="OMEGA_DETECTION"):
        scheduler({"OMEGA_DETECTION": "rough"}, "batch", "seed")


@pytest.mark.server
@pytest.mark.chaos
def test_real_schedulers_are_watched_and_counted(store_url: str) -> None:
    settings = chosen(
        store=store_url,
        machines=200,
        batch=(1,),
        service=(1,),
        fullness=(0.5,),
        seconds=0.2,
        calm_seconds=0.0,
        duration_ms=20,
    )
    document: dict[str, Any] = measure(settings)
    assert document["cell"]["machines"] == 200
    (run,) = document["runs"]
    assert {name: run[name] for name in ("batch", "service", "detection", "commit", "fullness")} == {
        "batch": 1,
        "service": 1,
        "detection": "fine",
        "commit": "incremental",
        "fullness": 0.5,
    }
    assert run["accepted"] + run["conflicts"] == run["transactions"] > 0
    assert run["tasks_placed"] > 0
    assert run["tasks_per_second"] > 0
    assert set(run["wait_seconds"]) == {"batch", "service"}
    assert set(run["busyness"]) == {"batch/0", "service/0"}
    assert set(run["cpu"]) == {"batch/0", "service/0", "simulated/bench", "server"}
    assert 0.4 < run["utilisation"][0] < 1
    (median,) = document["medians"]
    assert median["repeats"] == 1
    assert median["conflict_fraction"] == run["conflict_fraction"]


def test_runs_with_pools_are_divided_by_those_without() -> None:
    def run(repeat: int, pools: int, rate: float) -> dict[str, Any]:
        about: dict[str, Any] = asdict(CONTEST) | {"pools": pools, "repeat": repeat}
        return about | {"tasks_per_second": rate, "schedulers_us_per_task": 1e5 / rate, "server_us_per_task": 5.0}

    runs = [run(0, 0, 100.0), run(0, 60, 80.0), run(1, 0, 200.0), run(1, 60, 180.0)]
    (row,) = with_pools(runs)
    assert (row["pools"], row["pairs"], row["tasks_per_second"]) == (60, 2, 0.85)
    assert row["tasks_per_second_spread"] == [0.8, 0.9]
    assert row["server_us_per_task"] == 1.0


@pytest.mark.server
def test_pools_of_a_contest_are_three_levels_deep(store_url: str) -> None:
    with made_cell(store_url, "contest") as cell:
        leaves = add_pools(cell, 60)
        queue_jobs(cell, "batch", 120, (TaskGroup((10, 16), 1, 60_000),), pools=leaves)
        pools = cell.pools.get()
        assert (len(leaves), {len(pools.path(name)) for name in leaves}) == (60, {3})
        assert sorted(job.spec["pool"] for job in cell.jobs.all())[:3] == ["p0", "p0", "p1"]

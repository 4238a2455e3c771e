"""The figures of ``omega trace info``: distributions and what tasks request over time."""

from pathlib import Path

import numpy as np
import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.traces import Trace
from omega.traces.summary import pieces, spread, summarised
from omega.workload.workload import Arrival, MachineEvent, Workload


def job(name: str, count: int, need: tuple[int, int] = (1_000, 100), kind: str = "batch") -> JobSpec:
    return JobSpec(name, name, kind, (TaskGroup(need, count, 5_000),))


def trace(**given: object) -> Trace:
    workload = Workload(
        [MachineSpec("a", (4_000, 1_000)), MachineSpec("b", (4_000, 1_000))],
        residents=[Arrival(0.0, job("r", 2), (np.array([50, 100]) * 1_000_000,), (np.array([1, -1], dtype=np.int32),))],
        arrivals=[
            Arrival(10.0, job("x", 4), (np.broadcast_to(np.array([20_000_000]), 4),)),
            Arrival(60.0, job("y", 1, (2_000, 500), "service")),
        ],
        about="",
        events=[MachineEvent(80.0, MachineSpec("b", (4_000, 1_000)), up=False)],
    )
    return Trace("tiny", workload, (), {}, 100.0)


def test_requests_over_time_are_those_of_all_tasks_from_their_arrival() -> None:
    summary = summarised(trace())
    at = {round(time): place for place, time in enumerate(summary.times) if abs(time - round(time)) < 1e-9}
    cpu = {
        seconds: float(summary.requested["cpu"][at[seconds]] * 8) for seconds in (0, 9, 10, 29, 30, 49, 50, 60, 64, 65)
    }
    assert cpu == {0: 2, 9: 2, 10: 6, 29: 6, 30: 2, 49: 2, 50: 1, 60: 3, 64: 3, 65: 1}
    assert summary.requested["cpu"][at[79]] == 1 / 8
    assert summary.requested["cpu"][at[80]] == 1 / 4, "one of two machines is gone"
    assert summary.requested["memory"][at[60]] == 600 / 2_000
    means = summary.intervals(10)
    assert [row["from"] for row in means] == pytest.approx(range(0, 100, 10))
    assert means[1]["cpu"] == pytest.approx(6 / 8)


def test_counts_and_distributions() -> None:
    summary = summarised(trace())
    assert summary.residents == {"jobs": 1, "running": 1, "waiting": 1}
    assert summary.kinds == {"batch": {"jobs": 1, "tasks": 4}, "service": {"jobs": 1, "tasks": 1}}
    of = {each.what: each for each in summary.spreads}
    assert of["tasks per job"].percentiles[0] == 1
    assert (of["seconds between jobs"].mean, of["seconds between jobs"].count) == (50.0, 1)
    assert of["task duration, seconds"].as_json() == {
        "count": 5,
        "mean": 17,
        "p50": 20,
        "p90": 20,
        "p99": 20,
        "max": 20,
    }
    assert of["request of a task, memory"].mean == 180
    assert summary.machine_events == 1


@pytest.mark.parametrize("seed", range(5))
def test_weighted_percentiles_are_those_of_the_repeated_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(0, 50, 30).astype(float), rng.integers(1, 9, 30)
    repeated = np.repeat(values, weights)
    found = spread("", values, weights.astype(float))
    wanted = np.percentile(repeated, (50, 90, 99), method="inverted_cdf")
    assert found.percentiles == tuple(wanted)
    assert found.mean == pytest.approx(repeated.mean())
    assert found.count == len(repeated)
    assert spread("", np.zeros(0)).largest == 0


def test_tasks_of_one_duration_are_one_entry() -> None:
    big = Arrival(0.0, job("big", 10**6), (np.broadcast_to(np.array([1_000_000]), 10**6),))
    assert len(pieces([big], 2).at) == 1
    assert pieces([big], 2).count.sum() == 10**6


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from omega.experiments.plots.trace import draw_trace

    made = trace()
    files = [tmp_path / f"trace{ending}" for ending in (".svg", ".png")]
    draw_trace(made, summarised(made), "tiny", *files)
    text = files[0].read_text()
    assert "requested ÷ capacity" in text
    assert all(word in text for word in ("batch", "service", "memory", "tasks per job", "Trace tiny"))
    assert files[1].stat().st_size > 10_000

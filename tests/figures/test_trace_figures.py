"""Figures 11 to 14 in small form, on a made trace whose saturation is known."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omega.cellstate.errors import BadInput
from omega.experiments.bootstrap import METRICS, interval, sums_of
from omega.experiments.finding import Conclusion
from omega.experiments.metrics import of
from omega.experiments.plots.draw_trace import draw_trace
from omega.experiments.results import Record, Results, key_of
from omega.experiments.sweep import Sweep
from omega.experiments.trace_claims import of_figure_12
from omega.experiments.trace_figures import (
    FIGURES,
    Saturation,
    TraceForm,
    expected,
    lightweight,
    load,
    overloaded,
    saturation,
)
from omega.experiments.trace_outcome import TraceOutcome, simulated_figure
from omega.experiments.trace_run import TraceRun
from tests.figures.conftest import clock
from tests.figures.made_trace import GAP, MEAN_TASKS, SERVICE_GAP, write_made
from tests.tiers import first

RESULTS = Results()


def simulate(runs: Sequence[TraceRun]) -> list[Record]:
    return Sweep(runs, RESULTS).run(None, clock)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> TraceRun:
    return TraceRun(trace=str(write_made(tmp_path_factory.mktemp("made"))), factor=1.0)


def outcome(start: TraceRun, number: int) -> TraceOutcome:
    figure = FIGURES[number]
    return simulated_figure(figure, TraceForm(replace(start, cell=figure.cell), quick=True), simulate)


@pytest.mark.parametrize("schedulers", [1, 3])
def test_saturation_found_by_halving_is_the_analytic_one(start: TraceRun, schedulers: int) -> None:
    analytic = schedulers * GAP - 0.005 * MEAN_TASKS
    assert expected(start, schedulers) == pytest.approx(analytic, rel=0.01)
    found = saturation(TraceForm(start), schedulers, simulate, halvings=5)
    assert found.high - found.low < 0.04 * analytic
    assert found.seconds == pytest.approx(analytic, rel=0.03)


def test_saturation_beyond_the_searched_times_is_reported_as_such(start: TraceRun) -> None:
    def with_busyness(factor: float) -> Saturation:
        """Search with simulations whose decisions take `factor` times as long as they should."""

        def distorted(runs: Sequence[TraceRun]) -> list[Record]:
            return simulate([replace(run, t_job_batch=run.t_job_batch * factor) for run in runs])

        return saturation(TraceForm(start), 1, distorted, halvings=2)

    slow, fast = with_busyness(5.0), with_busyness(0.1)
    assert (slow.low, slow.high) == pytest.approx((0.0, 0.5 * GAP), rel=0.01)
    assert (fast.low, fast.high) == pytest.approx((1.5 * GAP, float("inf")), rel=0.01)


def test_load_is_one_where_decisions_take_all_time(start: TraceRun) -> None:
    (below, beyond) = simulate([replace(start, t_job_batch=share * GAP) for share in (0.5, 1.5)])
    assert load(below, "batch") == pytest.approx(0.5, abs=0.02)
    assert load(beyond, "batch") == pytest.approx(1.5, abs=0.05)
    assert [overloaded(each, "batch") for each in (below, beyond)] == [False, True]


def test_sums_over_parts_add_up_to_the_figures_of_the_run(start: TraceRun) -> None:
    (record,) = simulate([replace(start, t_job_service=8.0, detection="coarse", seed=3)])
    for kind in ("batch", "service"):
        sums = sums_of([record], kind)
        assert sums.blocks[:, 0].sum() == record["result"][kind]["jobs_submitted"]
        for metric, name in (("busyness", "busyness"), ("no_conflict", "no_conflict"), ("wait", "wait")):
            assert interval(metric, [record], kind).value == pytest.approx(of(record, kind, name), rel=1e-6)
        conflicts = interval("conflict_fraction", [record], kind).value
        assert conflicts == pytest.approx(of(record, kind, "conflict_fraction"))
    assert of(record, "service", "conflict_fraction") > 0
    assert set(METRICS) >= {"busyness", "conflict_fraction", "wait"}


@pytest.mark.parametrize("number", first(1, FIGURES))
def test_a_figure_is_drawn_with_intervals_and_verdicts(start: TraceRun, number: int, tmp_path: Path) -> None:
    drawn = outcome(start, number)
    paths = [tmp_path / f"figure{ending}" for ending in (".svg", ".png")]
    draw_trace(drawn, *paths)
    text = paths[0].read_text()
    assert f"after figure {number} of the Omega paper" in text
    assert "95 % bootstrap intervals" in text
    assert ("calibrated" in text) == (number == 12)
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert drawn.judged
    for each in drawn.judged:
        assert each.measured, each.name
        assert each.verdict is not Conclusion.UNKNOWN or "–" in " ".join(each.measured)
        if each.verdict in (Conclusion.UNDECIDED, Conclusion.INSUFFICIENT):
            assert each.reason


def test_fewer_than_a_hundred_jobs_are_insufficient(tmp_path: Path) -> None:
    few = TraceRun(trace=str(write_made(tmp_path, service_gap=13)), factor=1.0, t_job_service=0.1, t_task_service=1.0)
    *_, slow = of_figure_12(simulate([few]))
    assert slow.verdict is Conclusion.INSUFFICIENT
    assert "a run has 93 jobs" in slow.reason
    *_, slow = of_figure_12(simulate([replace(few, copies=2)]))
    assert slow.verdict is not Conclusion.INSUFFICIENT
    assert slow.fewest is not None
    assert slow.fewest >= 140


def test_the_lightweight_simulator_draws_from_the_same_cell(start: TraceRun) -> None:
    (run, *_) = lightweight(TraceForm(start, quick=True))
    (workload, seconds), (traced, _) = run.workload(), start.workload()
    assert workload.machines == traced.machines
    used = sum(group.need[0] * group.count for each in workload.residents for group in each.job.groups)
    assert 0 < used <= 0.6 * workload.capacity[0]
    for kind, gap in (("batch", GAP), ("service", SERVICE_GAP)):
        jobs = [each for each in workload.arrivals if each.job.kind == kind]
        assert len(jobs) == pytest.approx(seconds / gap, rel=0.1)
        assert all(len(each.job.groups) == 1 and not each.job.groups[0].spec for each in jobs)
    sizes = [each.job.total for each in workload.arrivals if each.job.kind == "batch"]
    assert float(np.mean(sizes)) == pytest.approx(MEAN_TASKS, rel=0.15)
    assert replace(run, seed=1).workload()[0].arrivals != workload.arrivals


def test_a_calibrated_cell_saturates_at_the_paper_s_multiple_of_its_arrivals(start: TraceRun) -> None:
    (workload, seconds), (_, traced) = replace(start, cell="B").workload(), start.workload()
    jobs = [each for each in workload.arrivals if each.job.kind == "batch"]
    decision = 0.1 + 0.005 * MEAN_TASKS
    assert 6 * len(jobs) * decision / seconds == pytest.approx(1.0, rel=0.02)
    held = sum(float(column.sum()) for each in workload.arrivals for column in each.durations) / seconds
    before = sum(float(column.sum()) for each in start.workload()[0].arrivals for column in each.durations) / traced
    assert held == pytest.approx(0.5 * before, rel=0.01)


def test_results_belong_to_the_files_of_the_trace(tmp_path: Path) -> None:
    first = TraceRun(trace=str(write_made(tmp_path / "a")))
    same, other = (
        TraceRun(trace=str(write_made(tmp_path / name, cpu=cpu))) for name, cpu in (("b", 0.05), ("c", 0.06))
    )
    assert first.content() == same.content() != other.content()
    assert key_of(first) != key_of(replace(first, seed=1))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"cell": "D"}, "cell 'D'; want trace, A, B"),
        ({"hours": 0.0}, "0 hours"),
        ({"copies": -1}, "copies -1"),
        ({"detection": "none"}, "detection 'none'"),
        ({"t_job_batch": -1.0}, "t_job_batch is -1 s"),
    ],
)
def test_what_is_no_run(values: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        TraceRun(trace="x", **values)  # type: ignore[arg-type]


def test_a_trace_without_batch_jobs_has_no_figure_13(tmp_path: Path, start: TraceRun) -> None:
    with pytest.raises(BadInput, match="no job arrives"):
        expected(replace(start, hours=1e-7), 1)
    with pytest.raises(BadInput, match="without any t_job"):
        expected(replace(start, t_task=10.0), 1)
    with pytest.raises(BadInput, match="no such file or directory"):
        TraceRun(trace=str(tmp_path / "none")).workload()


def test_batch_schedulers_may_have_another_placement(start: TraceRun) -> None:
    preset, other = simulate([start, replace(start, placement="best-fit")])
    assert preset["digest"] != other["digest"]
    assert "placement" not in preset["configuration"]
    assert other["configuration"]["placement"] == "best-fit"
    with pytest.raises(BadInput, match="want preset, random, first-fit, best-fit"):
        replace(start, placement="worst-fit")

"""The mix drawn from Google's 2011 cell: same seed, same jobs; steered load; what is cut is said."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from omega.cellstate.errors import BadInput
from omega.workload import DEMO, Mix, google_mix
from omega.workload.quantiles import machine_classes
from omega.workload.synthetic import google_machines
from tests.unit.omega.workload.loads import offered_load, peak_load


def test_same_seed_same_workload() -> None:
    mix = Mix(jobs=200)
    assert google_mix(7, 100, mix) == google_mix(7, 100, mix)
    assert google_mix(7, 100, mix).arrivals != google_mix(8, 100, mix).arrivals


def test_a_seed_means_the_same_in_every_version() -> None:
    # A workload named by its seed in a report must be drawn again from it later, elsewhere.
    _, second, *_ = google_mix(7, 100, Mix(jobs=200)).arrivals
    (group,) = second.job.groups
    assert (second.job.id, second.job.name) == ("5fbab1548572", "mix7/batch-1")
    assert (group.need, group.count, group.duration_ms, second.job.precedence) == ((400, 1_095), 1, 120_213, 8)
    assert second.at_seconds == pytest.approx(50.75707)


def test_machines_have_the_measured_classes() -> None:
    machines = google_machines(1, 1_000, largest_cpu=16_000, largest_memory=32_768)
    assert len({machine.name for machine in machines}) == 1_000
    counts = Counter((machine.attributes["platform"], machine.capacity) for machine in machines)
    assert counts["A", (8_000, 16_367)] in (534, 535)
    assert counts["B", (16_000, 32_768)] in (63, 64)
    for machine in machine_classes():
        found = counts[machine.platform, (int(machine.cpu * 16_000), int(machine.memory * 32_768))]
        assert abs(found - machine.share * 1_000) < 1
    assert [machine.capacity for machine in google_machines(2, 1_000, largest_cpu=16_000, largest_memory=32_768)] != [
        machine.capacity for machine in machines
    ]
    assert [machine.capacity for machine in google_machines(1, 1, largest_cpu=16_000, largest_memory=32_768)] == [
        (8_000, 16_367)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_demo_fits_and_fills_its_cell(seed: int) -> None:
    workload = google_mix(seed, 1_000, DEMO)
    assert len(workload.arrivals) == 1_200
    assert 25_000 < workload.tasks < 36_000
    assert workload.arrivals[-1].at_seconds == pytest.approx(20.0)
    assert 0.65 < max(peak_load(workload)) <= 0.75
    assert 0.3 < max(offered_load(workload)) < 1
    assert Counter(arrival.job.kind for arrival in workload.arrivals)["service"] > 20
    assert max(group.duration_ms for arrival in workload.arrivals for group in arrival.job.groups) <= 15_000


def test_jobs_are_well_formed_and_in_order() -> None:
    workload = google_mix(3, 500, Mix(jobs=2_000, service_rate=20))
    times = [arrival.at_seconds for arrival in workload.arrivals]
    assert times == sorted(times)
    assert times[0] >= 0
    assert len({arrival.job.id for arrival in workload.arrivals}) == 2_000
    assert len({arrival.job.name for arrival in workload.arrivals}) == 2_000
    for arrival in workload.arrivals:
        (group,) = arrival.job.groups
        assert group.duration_ms >= 1
        assert min(group.need) >= 1
        assert arrival.job.precedence in (range(9, 12) if arrival.job.kind == "service" else range(12))


def test_arrivals_come_as_measured() -> None:
    seconds = 40_000.0
    workload = google_mix(1, 12_477, Mix(seconds=seconds))
    kinds = Counter(arrival.job.kind for arrival in workload.arrivals)
    assert kinds["batch"] == pytest.approx(seconds / 4.645, rel=0.05)
    assert kinds["service"] == pytest.approx(seconds / 58.27, rel=0.15)
    assert workload.arrivals[-1].at_seconds <= seconds
    assert workload.tasks / len(workload.arrivals) == pytest.approx(27.9, rel=0.05)
    # Tasks × request × duration, each at its mean, are 0.07 of cpu and 0.06 of memory; large jobs are few.
    assert offered_load(workload) == pytest.approx((0.07, 0.06), abs=0.03)


def test_rate_and_duration_steer_the_load() -> None:
    base = Mix(jobs=1_000)
    once = google_mix(1, 1_000, base)
    thrice = google_mix(1, 1_000, replace(base, rate=3.0))
    longer = google_mix(1, 1_000, replace(base, duration=2.0))
    assert thrice.arrivals[-1].at_seconds == pytest.approx(once.arrivals[-1].at_seconds / 3, rel=1e-3)
    assert offered_load(thrice) == pytest.approx([3 * load for load in offered_load(once)], rel=1e-3)
    assert offered_load(longer) == pytest.approx([2 * load for load in offered_load(once)], rel=1e-3)
    assert [a.job.groups[0].need for a in once.arrivals] == [a.job.groups[0].need for a in longer.arrivals]


def test_service_jobs_more_often_leave_batch_jobs_as_they_are() -> None:
    few = google_mix(1, 1_000, Mix(seconds=4_000))
    many = google_mix(1, 1_000, Mix(seconds=4_000, service_rate=20))
    assert [a.at_seconds for a in few.arrivals if a.job.kind == "batch"] == [
        a.at_seconds for a in many.arrivals if a.job.kind == "batch"
    ]
    kinds = [Counter(a.job.kind for a in workload.arrivals)["service"] for workload in (few, many)]
    assert kinds[1] > 5 * max(kinds[0], 1)


@pytest.mark.parametrize("fill", [0.2, 0.5, 0.9])
def test_fill_bounds_the_peak(fill: float) -> None:
    workload = google_mix(2, 1_000, Mix(jobs=1_200, fill=fill, job_share=0.05))
    # Longer durations make one more job overlap at the peak, and that is at most 5 % of the cell.
    assert fill - 0.05 < max(peak_load(workload)) <= fill


def test_no_job_is_larger_than_its_share_and_the_cut_is_told() -> None:
    workload = google_mix(1, 50, Mix(jobs=500, job_share=0.1))
    for arrival in workload.arrivals:
        (group,) = arrival.job.groups
        asked = max(group.count * need / have for need, have in zip(group.need, workload.capacity, strict=True))
        assert asked <= 0.1 or group.count == 1
    line = next(line for line in workload.about.splitlines() if line.startswith("jobs cut to 10% of the cell: "))
    assert not line.startswith("jobs cut to 10% of the cell: 0,")


def test_every_task_fits_a_machine_even_in_a_tiny_cell() -> None:
    for seed in range(20):
        workload = google_mix(seed, 1, Mix(jobs=50, service_rate=50))
        (machine,) = workload.machines
        for arrival in workload.arrivals:
            need = arrival.job.groups[0].need
            assert all(n <= c for n, c in zip(need, machine.capacity, strict=True))


def test_the_largest_machine_scales_everything() -> None:
    small = google_mix(1, 100, Mix(jobs=100))
    large = google_mix(1, 100, Mix(jobs=100, largest_cpu=32_000, largest_memory=65_536))
    assert large.capacity == pytest.approx([2 * amount for amount in small.capacity], rel=1e-3)
    assert offered_load(large) == pytest.approx(offered_load(small), rel=0.01)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "give a number of jobs"),
        ({"jobs": 0}, "at least 1 job"),
        ({"jobs": 1, "largest_cpu": 0}, "at least 1 unit"),
        ({"seconds": -1.0}, "above 0"),
        ({"jobs": 1, "rate": 0.0}, "above 0"),
        ({"jobs": 1, "duration": float("inf")}, "finite"),
        ({"jobs": 1, "fill": float("nan")}, "finite"),
    ],
)
def test_senseless_mixes(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Mix(**fields)


def test_nothing_may_arrive_in_a_short_time() -> None:
    workload = google_mix(1, 10, Mix(seconds=1e-9, fill=0.5))
    assert (workload.arrivals, workload.tasks, len(workload.machines)) == ([], 0, 10)
    assert "0 tasks in 0 batch and 0 service jobs" in workload.about


def test_no_machines() -> None:
    with pytest.raises(BadInput, match="a cell of 0 machines"):
        google_mix(1, 0, Mix(jobs=1))

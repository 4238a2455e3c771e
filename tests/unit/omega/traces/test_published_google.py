"""Google's published trace, where it is at hand: parts 0 to 4 say what others counted."""

from pathlib import Path

import numpy as np
import pytest

from omega.traces import Trace, TraceOptions, read_trace
from tests.unit.omega.workload.loads import peak_load

pytestmark = pytest.mark.chaos  # each reads twelve seconds of a trace


@pytest.fixture(scope="module")
def directory(shared_directory: Path) -> Path:
    found = shared_directory / "traces" / "google-2011"
    if not found.is_dir():
        pytest.skip(f"no trace at {found}")
    return found


@pytest.fixture(scope="module")
def trace(directory: Path) -> Trace:
    return read_trace(directory)


def test_machines_residents_and_arrivals_are_those_of_the_files(trace: Trace) -> None:
    workload, facts = trace.workload, trace.facts
    assert len(workload.machines) == 12_477
    assert (facts["running"], facts["waiting"], facts["on_unknown_machines"]) == (132_982, 11_357, 13)
    assert workload.tasks == 159_940
    apart = sum(
        group.count for a in workload.arrivals for group in a.job.groups if group.spec.get("different_machines")
    )
    assert apart == facts["different_machines"] == 54_601
    assert (trace.format, round(trace.seconds), facts["task_events"]) == ("google-2011", 25_055, 919_519)


def test_requests_exceed_the_machines_as_stated(trace: Trace) -> None:
    facts = trace.facts
    assert (facts["machines_over"], facts["machines_over_factor"], facts["factor"]) == (10_834, 119, 1.55)
    assert [round(facts["load"][part], 3) for part in ("p50", "p99")] == [1.173, 1.549]
    assert round(facts["load"]["p100"], 2) == 2.00
    assert {name: round(part, 2) for name, part in facts["requested"].items()} == {"cpu": 1.13, "memory": 0.93}


def test_residents_stand_on_their_machines(trace: Trace) -> None:
    places = np.concatenate([column for each in trace.workload.residents for column in each.machines])
    assert (places >= 0).sum() == 132_982 - 13
    assert (places == -1).sum() == 11_357 + 13
    assert places.max() < 12_477


def test_the_split_by_priority_alone_has_429_service_jobs(directory: Path, trace: Trace) -> None:
    def service(of: Trace) -> tuple[int, int]:
        jobs = [arrival.job for arrival in of.workload.arrivals if arrival.job.kind == "service"]
        return len(jobs), sum(job.total for job in jobs)

    assert service(trace)[0] == 429
    assert service(read_trace(directory, TraceOptions(service="class"))) == (28, 488)


@pytest.fixture(scope="module")
def thinned(directory: Path) -> Trace:
    return read_trace(directory, TraceOptions(residents="thin", tasks=10_000))


def test_the_first_ten_thousand_tasks(thinned: Trace) -> None:
    workload = thinned.workload
    assert 10_000 <= workload.tasks < 11_000
    assert round(workload.arrivals[-1].at_seconds) == 837
    assert sum(arrival.job.total for arrival in workload.arrivals[:-1]) < 10_000
    assert {arrival.job.kind for arrival in workload.arrivals} == {"batch", "service"}
    every = [arrival.job.id for arrival in (*workload.residents, *workload.arrivals)]
    assert len(set(every)) == len(every)


def test_residents_are_thinned_to_the_cell(thinned: Trace) -> None:
    workload = thinned.workload
    used = [
        sum(group.need[i] * group.count for a in workload.residents for group in a.job.groups)
        for i in range(len(workload.capacity))
    ]
    shares = [amount / have for amount, have in zip(used, workload.capacity, strict=True)]
    assert 0.595 < max(shares) <= 0.6
    assert max(peak_load(workload)) < 0.65
    assert {defect.rule: defect.count for defect in thinned.defects}["waiting-left-out"] == 11_357
    assert f"{sum(arrival.job.total for arrival in workload.residents):,} of them in" in workload.about


def test_durations_are_known_or_counted(trace: Trace) -> None:
    workload = trace.workload
    counted = {defect.rule: defect.count for defect in trace.defects}
    assert counted["no-end"] + counted["never-ran"] < 150_000
    lasting = np.concatenate([column for each in workload.arrivals for column in each.durations])
    assert len(lasting) == workload.tasks
    assert lasting.min() >= 0
    assert all(group.duration_ms > 0 for a in workload.arrivals for group in a.job.groups)

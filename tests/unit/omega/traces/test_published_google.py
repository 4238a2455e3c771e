"""Google's published trace, where it is at hand: parts 0 to 4 say what others counted."""

from pathlib import Path

import numpy as np
import pytest

from omega.traces import Trace, TraceOptions, read_trace


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

    assert service(trace) == (28, 488)
    assert service(read_trace(directory, TraceOptions(service="priority")))[0] == 429

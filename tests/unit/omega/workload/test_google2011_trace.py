"""The published trace itself, where it is at hand: what is read agrees with what others counted."""

from pathlib import Path

import pytest

from omega.workload import Workload
from omega.workload.google2011 import read_google2011
from tests.unit.omega.workload.loads import peak_load


@pytest.fixture(scope="module")
def directory(shared_directory: Path) -> Path:
    found = shared_directory / "traces" / "google-2011"
    if not found.is_dir():
        pytest.skip(f"no trace at {found}")
    return found


@pytest.fixture(scope="module")
def workload(directory: Path) -> Workload:
    return read_google2011(directory)


def test_machines_and_the_first_ten_thousand_tasks(workload: Workload) -> None:
    assert len(workload.machines) == 12_477
    assert 10_000 <= workload.tasks < 11_000
    assert round(workload.arrivals[-1].at_seconds) == 837
    assert sum(arrival.job.total for arrival in workload.arrivals[:-1]) < 10_000
    assert {arrival.job.kind for arrival in workload.arrivals} == {"batch"}


def test_residents_are_thinned_to_the_cell(workload: Workload) -> None:
    used = [
        sum(group.need[i] * group.count for a in workload.residents for group in a.job.groups)
        for i in range(len(workload.capacity))
    ]
    shares = [amount / have for amount, have in zip(used, workload.capacity, strict=True)]
    assert 0.595 < max(shares) <= 0.6
    assert max(peak_load(workload)) < 0.65
    kept = sum(arrival.job.total for arrival in workload.residents)
    assert f"{kept:,} of 132,982 tasks running then" in workload.about
    assert "left out: 11,357 tasks waiting at 0 s" in workload.about


def test_durations_are_known_or_told(workload: Workload) -> None:
    assert "not seen to end within 25,055 s" in workload.about
    assert all(group.duration_ms > 0 for a in workload.arrivals for group in a.job.groups)


def test_ids_are_unique(workload: Workload) -> None:
    every = [arrival.job.id for arrival in (*workload.residents, *workload.arrivals)]
    assert len(set(every)) == len(every)

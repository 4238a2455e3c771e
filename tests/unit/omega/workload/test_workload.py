"""The vocabulary of workloads, their streams and their load."""

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.workload import Arrival, Workload
from omega.workload.workload import array_stream, capacity, request, stream
from tests.unit.omega.workload.loads import offered_load, peak_load


def arrival(at: float, name: str, *groups: TaskGroup) -> Arrival:
    return Arrival(at, JobSpec(name, name, "batch", groups))


def workload(residents: list[Arrival], arrivals: list[Arrival]) -> Workload:
    machines = [MachineSpec("a", (6, 30)), MachineSpec("b", (4, 70))]
    return Workload(machines, residents, arrivals, "by hand")


def test_streams_are_named() -> None:
    assert stream(1, "a").random() == stream(1, "a").random()
    assert len({stream(seed, name).random() for seed in (1, 2) for name in ("a", "b")}) == 4
    assert array_stream(1, "a").random(3).tolist() == array_stream(1, "a").random(3).tolist()
    assert len({array_stream(seed, name).random() for seed in (1, 2) for name in ("a", "b")}) == 4


def test_requests_are_rounded_up_and_capacities_down() -> None:
    assert [request(share, 16_000) for share in (0.0, 0.1, 0.02499, 1.0)] == [1, 1_600, 400, 16_000]
    assert [capacity(share, 32_768) for share in (0.0, 0.4995, 1.0)] == [0, 16_367, 32_768]


def test_counts() -> None:
    cell = workload(
        [], [arrival(0, "a", TaskGroup((1, 1), 3), TaskGroup((2, 1), 2)), arrival(1, "b", TaskGroup((1, 1), 4))]
    )
    assert cell.tasks == 9
    assert cell.capacity == (10, 100)


def test_offered_load_is_resource_seconds_per_second() -> None:
    # 2 tasks of 1 cpu for 5 s and 1 of 4 cpu for 10 s, within 20 s: 50 of 200 cpu-seconds.
    cell = workload([], [arrival(0, "a", TaskGroup((1, 0), 2, 5_000)), arrival(20, "b", TaskGroup((4, 50), 1, 10_000))])
    assert offered_load(cell) == pytest.approx((0.25, 0.25))


def test_peak_load_is_the_most_at_one_time() -> None:
    residents = [arrival(0, "r", TaskGroup((1, 10), 1, 100_000))]
    arrivals = [
        arrival(1, "a", TaskGroup((3, 10), 2, 4_000)),
        arrival(5, "b", TaskGroup((5, 10), 1, 1_000)),  # takes what a leaves at that instant
        arrival(7, "c", TaskGroup((1, 60), 1, 1_000)),
    ]
    assert peak_load(workload(residents, arrivals)) == pytest.approx((0.7, 0.7))


def test_an_empty_workload_asks_for_nothing() -> None:
    assert offered_load(workload([], [])) == (0, 0)
    assert peak_load(workload([], [])) == (0, 0)

"""MapReduce jobs made of a workload's batch jobs: how many, how large, and what they could gain."""

import numpy as np
import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.schedulers.sizing import Profile
from omega.workload.mapreduce import KIND, POPULAR, MapReduceJob, load, split
from omega.workload.presets import Size, draw
from omega.workload.workload import Arrival, Workload


@pytest.fixture(scope="module")
def workload() -> Workload:
    """A twentieth of a day of C, on a few machines."""
    return draw("C", 0, 0.15, size=Size(machines=100))


@pytest.fixture(scope="module")
def jobs(workload: Workload) -> list[MapReduceJob]:
    return split(workload, 0)[1]


def speedup(job: MapReduceJob) -> float:
    """What any number of workers would bring."""
    profile = Profile(job.asked, job.phases)
    useful = profile.useful()
    assert useful is not None
    return job.seconds / (profile.seconds(useful) or 1.0)


def test_a_fifth_of_the_batch_jobs(workload: Workload, jobs: list[MapReduceJob]) -> None:
    batch = [arrival for arrival in workload.arrivals if arrival.job.kind == KIND]
    assert len(jobs) == pytest.approx(0.2 * len(batch), rel=0.15)
    others = split(workload, 0)[0]
    assert len(others) + len(jobs) == len(workload.arrivals)
    assert {job.asked for job in jobs} == set(POPULAR)


def test_they_do_the_work_of_the_jobs_they_are_made_of() -> None:
    group = TaskGroup((100, 50), 180, 60_000)
    arrivals = [Arrival(float(i), JobSpec(f"j{i}", f"j{i}", KIND, (group,))) for i in range(200)]
    _, jobs = split(Workload([], [], arrivals, ""), 0, share=1.0)
    assert len(jobs) == 200
    for job in jobs:
        assert (job.asked, job.need) == (200, (100, 50))
        assert job.seconds * job.asked == pytest.approx(180 * 60)


def test_what_was_fitted_is_where_the_paper_stands(jobs: list[MapReduceJob]) -> None:
    """Figure 15 with max-parallelism: 50 to 70 % benefit, the 80th percentile is 3 to 4 times as fast."""
    gains = np.array([speedup(job) for job in jobs])
    assert 0.5 <= (gains >= 1.01).mean() <= 0.7
    assert 3.0 <= np.quantile(gains, 0.8) <= 4.0


def test_the_same_seed_draws_the_same_jobs(workload: Workload, jobs: list[MapReduceJob]) -> None:
    assert split(workload, 0)[1] == jobs
    assert split(workload, 1)[1] != jobs


def test_load_over_time() -> None:
    def arrival(at: float, count: int, seconds: int) -> Arrival:
        return Arrival(at, JobSpec("a", "a", KIND, (TaskGroup((10, 1), count, 1000 * seconds),)))

    found = load([arrival(0, 1, 20), arrival(10, 2, 1000), arrival(5000, 9, 1)], step=10, ticks=4)
    assert found.tolist() == [[10, 1], [30, 3], [20, 2], [20, 2]]

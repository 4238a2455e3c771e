"""With decision times of 0, a replayed log starts every job when an exact list scheduler does."""

from heapq import heappop, heappush
from pathlib import Path

import pytest

from omega.simulation import Settings, Simulation
from omega.traces import read_trace
from omega.workload.workload import Workload

CPU = 1_000
LOG = "UniLu-Gaia-2014-first-half.swf.gz"


def list_scheduled(workload: Workload) -> dict[str, int]:
    """Start each job, in the order of submission, as soon as its processors are free; when, in seconds."""
    free = sum(machine.capacity[0] // CPU for machine in workload.machines)
    ends, waiting, starts = list[tuple[int, int]](), list[tuple[str, int, int]](), dict[str, int]()
    arrivals = [(round(each.at_seconds), each) for each in workload.arrivals]
    while arrivals or (waiting and ends):
        now = min([*(at for at, _ in arrivals[:1]), *(at for at, _ in ends[:1])])
        while ends and ends[0][0] <= now:
            free += heappop(ends)[1]
        while arrivals and arrivals[0][0] <= now:
            each = arrivals.pop(0)[1]
            seconds = {round(int(span) / 1e6) for column in each.durations for span in column}
            waiting.append((each.job.id, each.job.total, max(seconds)))
        for job in list(waiting):
            if job[1] <= free:
                free -= job[1]
                starts[job[0]] = now
                heappush(ends, (now + job[2], job[1]))
                waiting.remove(job)
    return starts


@pytest.mark.parametrize("jobs", [2_000, pytest.param(30_000, marks=pytest.mark.chaos)])
def test_starts_are_those_of_a_list_scheduler(shared_directory: Path, jobs: int) -> None:
    path = shared_directory / "traces" / "swf" / LOG
    if not path.exists():
        pytest.skip(f"no trace at {path}")
    trace = read_trace(path)
    workload = Workload(
        trace.workload.machines, [], trace.workload.arrivals[:jobs], "", dimensions=trace.workload.dimensions
    )
    days = workload.arrivals[-1].at_seconds / 86_400
    records = Simulation(workload, Settings(days=days, t_job_batch=0.0, t_task=0.0), records=True).run().records
    assert records is not None
    ids = [each.job.id for each in records.jobs]
    found = {ids[job]: at // 1_000_000 for job, at in zip(records.job.tolist(), records.started.tolist(), strict=True)}
    wanted = {job: at for job, at in list_scheduled(workload).items() if at <= days * 86_400}
    assert len(wanted) > 0.99 * len(workload.arrivals)
    assert found == wanted

"""Other workloads from the jobs of one: more service jobs, another pace, the draws of a lightweight simulator."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from omega.cellstate.model import JobSpec, TaskGroup
from omega.workload.presets import CALIBRATED_HOLD, FILL
from omega.workload.workload import Arrival, Workload, array_stream


def gaps(arrivals: Sequence[Arrival], seconds: float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the times between arrivals within `seconds`; the time after the last belongs to the first gap."""
    at = np.array([each.at_seconds for each in arrivals])
    return np.diff(at, prepend=at[-1] - seconds) if len(at) else np.array([])


def arrival_times(
    rng: np.random.Generator, between: "np.ndarray[tuple[int], np.dtype[np.float64]]", seconds: float
) -> list[float]:
    """Return times up to `seconds` whose gaps are drawn from `between`."""
    if not len(between) or not between.sum():
        return []
    at, times = 0.0, list[float]()
    while at < seconds:
        times += (at + np.cumsum(rng.choice(between, 256))).tolist()
        at = times[-1]
    return [time for time in times if time < seconds]


def bootstrapped(workload: Workload, kind: str, copies: int, seed: int, seconds: float) -> Workload:
    """Replace the arriving jobs of a kind by draws from them, `copies` times as many; gaps are drawn on their own."""
    mine = [each for each in workload.arrivals if each.job.kind == kind]
    rng = array_stream(seed, f"bootstrap/{kind}")
    times = arrival_times(rng, gaps(mine, seconds) / copies, seconds)
    drawn = []
    for number, (at, which) in enumerate(zip(times, rng.integers(len(mine), size=len(times)).tolist(), strict=True)):
        job = mine[which].job
        again = replace(job, id=f"{job.id}.{number}", name=f"{job.name}.{number}")
        drawn.append(replace(mine[which], at_seconds=at, job=again))
    others = [each for each in workload.arrivals if each.job.kind != kind]
    return replace(workload, arrivals=sorted([*others, *drawn], key=lambda each: each.at_seconds))


def paced(workload: Workload, pace: float, hold: float = CALIBRATED_HOLD) -> Workload:
    """Let jobs arrive `pace` times as often, and run so much shorter that they hold `hold` times the resources."""
    shorter = hold / pace

    def scaled(each: Arrival) -> Arrival:
        groups = [replace(group, duration_ms=round(group.duration_ms * shorter)) for group in each.job.groups]
        durations = tuple(np.rint(column * shorter).astype(np.int64) for column in each.durations)
        return replace(
            each, at_seconds=each.at_seconds / pace, job=replace(each.job, groups=tuple(groups)), durations=durations
        )

    return replace(workload, arrivals=[scaled(each) for each in workload.arrivals])


def drawn_independently(workload: Workload, seed: int, seconds: float, fill: float = FILL) -> Workload:
    """Return what a lightweight simulator draws from a workload (Omega §4, table 2).

    Machines are the same. Of each kind of job, gaps, tasks per job, durations and requests of arrivals are drawn from
    the workload, independently; all tasks of a job are alike, and no job has constraints. Residents are a choice of
    whole jobs that request at most `fill` of the cell in any dimension, on random machines.
    """
    arrivals: list[Arrival] = []
    for kind in dict.fromkeys(each.job.kind for each in workload.arrivals):
        mine = [each for each in workload.arrivals if each.job.kind == kind]
        rng = array_stream(seed, f"lightweight/{kind}")
        times = arrival_times(rng, gaps(mine, seconds), seconds)
        sizes, lengths, needs = (rng.integers(len(mine), size=len(times)).tolist() for _ in range(3))
        for number, (at, size, length, need) in enumerate(zip(times, sizes, lengths, needs, strict=True)):
            name = f"lightweight-{kind}-{number}"
            group = TaskGroup(
                mine[need].job.groups[0].need, mine[size].job.total, mine[length].job.groups[0].duration_ms
            )
            arrivals.append(Arrival(at, JobSpec(name, name, kind, (group,), precedence=mine[need].job.precedence)))
    arrivals.sort(key=lambda each: each.at_seconds)
    return replace(workload, arrivals=arrivals, residents=_thinned(workload, seed, fill), events=())


def _thinned(workload: Workload, seed: int, fill: float) -> list[Arrival]:
    """Return a random choice of residents without their waiting tasks, up to `fill` of the cell."""
    room = [fill * amount for amount in workload.capacity]
    rng = array_stream(seed, "lightweight/residents")
    kept = []
    for index in rng.permutation(len(workload.residents)).tolist():
        resident = workload.residents[index]
        groups, durations = list[TaskGroup](), []
        for number, group in enumerate(resident.job.groups):
            count = int((resident.machines[number] >= 0).sum()) if resident.machines else group.count
            if count:
                groups.append(TaskGroup(group.need, count, group.duration_ms))
                durations += [resident.durations[number][:count]] if resident.durations else []
        asked = [sum(group.need[d] * group.count for group in groups) for d in range(len(room))]
        if groups and all(mine <= left for mine, left in zip(asked, room, strict=True)):
            room = [left - mine for mine, left in zip(asked, room, strict=True)]
            job = JobSpec(resident.job.id, resident.job.name, resident.job.kind, tuple(groups))
            kept.append(Arrival(0.0, job, tuple(durations)))
    return kept

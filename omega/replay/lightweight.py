"""The lightweight simulator of Omega §4 on the cell of a trace: a workload drawn from the trace's distributions.

Table 2 of the paper: homogeneous machines, sampled requests, initial state, tasks per job, arrivals and durations,
constraints ignored, randomised first fit. Everything is drawn by kind of job, each quantity by itself.
"""

from collections.abc import Sequence
from random import Random

import numpy as np

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import Resources
from omega.replay.machines import SECOND
from omega.simulation import Result, Settings, Simulation
from omega.workload.workload import Arrival, Workload, stream

FILL = 0.6
"""Part of the cell that the initial jobs take (Omega §4)."""
_MOST = 4
"""Jobs that are drawn at most, relative to those of the trace: gaps of 0 s would never end."""


class _Kind:
    """What is drawn for jobs of one kind: columns of the trace's jobs of that kind."""

    def __init__(self, jobs: Sequence[Arrival]) -> None:
        self.sizes = [each.job.total for each in jobs]
        self.precedences = [each.job.precedence for each in jobs]
        self.needs = list[Resources]()
        self.counts, self.durations = list[int](), list[float]()
        for each in jobs:
            for i, group in enumerate(each.job.groups):
                if group.count:
                    self.needs.append(group.need)
                    self.counts.append(group.count)
                    ms = float(np.mean(each.durations[i])) / 1000 if each.durations else group.duration_ms
                    self.durations.append(ms)
        times = np.array([each.at_seconds for each in jobs])
        self.gaps = np.diff(np.concatenate(([0.0], times))).tolist()

    def job(self, rng: Random, number: str, kind: str) -> JobSpec:
        """Draw a job: its size as a job's, its request and duration as a task's."""
        need = rng.choices(self.needs, self.counts)[0]
        duration_ms = max(1, round(rng.choices(self.durations, self.counts)[0]))
        group = TaskGroup(need, rng.choice(self.sizes), duration_ms)
        return JobSpec(number, f"drawn/{number}", kind, (group,), rng.choice(self.precedences))


def lightweight(workload: Workload, seconds: float, seed: int) -> Workload:
    """Return a workload of this length drawn from the distributions of another one."""
    names = workload.dimensions.names
    machines = _machines(workload)
    by_kind: dict[str, list[Arrival]] = {}
    for each in workload.arrivals:
        by_kind.setdefault(each.job.kind, []).append(each)
    arrivals = list[Arrival]()
    for kind, jobs in sorted(by_kind.items()):
        rng, drawn, at, number = stream(seed, f"lightweight/{kind}"), _Kind(jobs), 0.0, 0
        while (at := at + rng.choice(drawn.gaps)) < seconds and number < _MOST * len(jobs):
            arrivals.append(Arrival(at, drawn.job(rng, f"{kind}-{number}", kind)))
            number += 1
    arrivals.sort(key=lambda each: each.at_seconds)
    residents = _residents(workload, machines, seed)
    about = f"drawn from the trace, seed {seed}: {len(machines):,} equal machines of {', '.join(names)}"
    return Workload(machines, residents, arrivals, about, dimensions=workload.dimensions)


def _machines(workload: Workload) -> list[MachineSpec]:
    """Return as many machines, each with the mean capacity."""
    number = len(workload.machines)
    mean = tuple(amount // number for amount in workload.capacity)
    return [MachineSpec(f"m{i}", mean) for i in range(number)]


def _residents(workload: Workload, machines: Sequence[MachineSpec], seed: int) -> list[Arrival]:
    """Draw jobs as those at the beginning of the trace until the cell is full to 60 % in some dimension."""
    if not workload.residents:
        return []
    by_kind: dict[str, list[Arrival]] = {}
    for each in workload.residents:
        by_kind.setdefault(each.job.kind, []).append(each)
    drawn = {kind: _Kind(jobs) for kind, jobs in by_kind.items()}
    kinds, weights = list(drawn), [len(jobs) for jobs in by_kind.values()]
    rng = stream(seed, "lightweight/residents")
    room = [FILL * sum(column) for column in zip(*(each.capacity for each in machines), strict=True)]
    residents = list[Arrival]()
    while True:
        kind = rng.choices(kinds, weights)[0]
        job = drawn[kind].job(rng, f"resident-{len(residents)}", kind)
        need = job.groups[0].need
        room = [left - amount * job.total for left, amount in zip(room, need, strict=True)]
        if any(left < 0 for left in room) or not any(need):
            return residents
        residents.append(Arrival(0.0, job))


def run_lightweight(workload: Workload, settings: Settings) -> Result:
    """Run the lightweight simulator on a workload's distributions with these settings: random placement."""
    return Simulation(lightweight(workload, settings.horizon / SECOND, settings.seed), settings).run()

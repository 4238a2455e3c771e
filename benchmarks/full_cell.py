"""The same jobs in a cell that is 60 % full and in one where few machines have room: what a decision costs there."""

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np

from benchmarks.launch import progress
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.schedulers.presets import batch, service
from omega.simulation import Settings, Simulation
from omega.workload.workload import Arrival, Workload, stream

CAPACITY = (16_000, 64 * 1024)
LAYERS = 4
"""Resident jobs, each with one task on every machine."""
HOURS = 2
ROOMY = 50
"""Every so many machines of the full cell are 60 % full, as all are in the other one."""
FILLS = {"60 %": (2_400, 2_400), "full": (3_900, 2_400)}
"""Millicores of a resident task on most machines, and on every `ROOMY`-th."""


def cell(fill: str, machines: int, jobs: int, seed: int = 0) -> Workload:
    """Return a cell with residents that outlive the run; a third of the jobs want different machines."""
    rng, residents = stream(seed, "full cell"), list[Arrival]()
    for layer in range(LAYERS):
        for part, cpu in enumerate(FILLS[fill]):
            where = np.array([i for i in range(machines) if (i % ROOMY == 0) == bool(part)], dtype=np.int32)
            group = TaskGroup((cpu, 4_096), len(where), 24 * 3_600_000)
            residents.append(
                Arrival(0.0, JobSpec(f"r{layer}-{part}", f"r{layer}-{part}", "batch", (group,)), (), (where,))
            )
    arrivals = []
    for i in range(jobs):
        need, count = (rng.choice((500, 750, 1_000)), 1_024), 1 + int(rng.expovariate(1 / 7))
        extra = {"different_machines": True} if rng.random() < 1 / 3 else {}
        group = TaskGroup(need, count, round(1_000 * (60 + rng.expovariate(1 / 540))), extra)
        kind = "service" if rng.random() < 1 / 20 else "batch"
        arrivals.append(Arrival(rng.random() * HOURS * 3600, JobSpec(f"j{i}", f"j{i}", kind, (group,))))
    arrivals.sort(key=lambda arrival: arrival.at_seconds)
    return Workload([MachineSpec(f"m{i}", CAPACITY) for i in range(machines)], residents, arrivals, f"{fill} cell")


def measure_full(machines: int = 12_500, jobs: int = 2_000) -> Iterator[dict[str, Any]]:
    """Simulate both cells, with random placement and with the live presets; times are of the processor."""
    for name, own in (("random", None), ("presets", [batch(), service()])):
        for fill in FILLS:
            workload = cell(fill, machines, jobs)
            began = process_time()
            result = Simulation(workload, Settings(days=HOURS / 24), own=own).run()
            seconds = process_time() - began
            yield {
                "schedulers": name,
                "fill": fill,
                "machines": machines,
                "jobs": jobs,
                "tasks": sum(kind.tasks_scheduled for kind in result.kinds.values()),
                "attempts": sum(each["attempts"] for each in result.schedulers.values()),
                "processor_seconds": seconds,
            }
            progress(f"sim: {name} on {machines:,} machines, {fill}: {seconds:.2f} s of the processor")

"""What users of other systems suffered from, as files: set-up, and what must be so at which time.

A file has machines (cpu in cores, memory in MiB), pools, jobs (`copies`: so many alike), and expectations: running
tasks of jobs and of pools, tasks evicted until then. `within` is how many tasks may differ.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cellstate.errors import BadInput
from cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from cellstate.pools import Pool, Pools, PoolTree, Preemption
from omega.simulation import Settings, Simulation
from omega.workload.workload import Arrival, Workload
from schedulers.ordering.fair_pools import FairPools
from schedulers.placement.first_fit import RandomFirstFit
from schedulers.preemption.fair_share import FairShare
from schedulers.preemption.precedence import Precedence
from schedulers.scheduler import Scheduler
from tests.simulation.pool_ground import Story

FILES = sorted((Path(__file__).parent / "pool_scenarios").glob("*.yaml"))
GANGS = {"": Gang.NO, "yes": Gang.YES, "strict": Gang.STRICT}
QUICK = {"starvation_timeout": 1.0, "starvation_tolerance": 1.0, "backoff": 0.5}


def pools_of(scenario: dict[str, Any]) -> Pools:
    pools = tuple(Pool(name, **(fields or {})) for name, fields in scenario["pools"].items())
    return Pools(pools, (PoolTree(preemption=Preemption(**(QUICK | scenario.get("preemption", {})))),))


def jobs_of(scenario: dict[str, Any]) -> list[Arrival]:
    found = []
    for job in scenario["jobs"]:
        copies = job.get("copies", 1)
        for copy in range(copies):
            name = job["name"] if copies == 1 else f"{job['name']}-{copy}"
            need = round(job.get("cpu", 1) * 1000), job.get("memory", 0)
            group = TaskGroup(need, job.get("tasks", 1), round(job.get("seconds", 100_000) * 1000))
            gang = GANGS[job.get("gang", "")]
            spec = JobSpec(name, name, "batch", (group,), job.get("precedence", 0), gang, {"pool": job["pool"]})
            found.append(Arrival(job.get("at", 0.0), spec))
    return sorted(found, key=lambda each: each.at_seconds)


def base(name: str) -> str:
    """The name of the jobs that a copy is one of."""
    return name.rpartition("-")[0]


def play(scenario: dict[str, Any], schedulers: int) -> Story:
    machines = [
        MachineSpec(name, (round(of["cpu"] * 1000), of.get("memory", 0))) for name, of in scenario["machines"].items()
    ]
    workload = Workload(machines, [], jobs_of(scenario), scenario["about"], pools_of(scenario))
    settings = Settings(days=scenario["until"] / 86_400, batch_schedulers=schedulers)
    own = Scheduler("batch", FairPools(), RandomFirstFit(), FairShare(Precedence()), jobs_per_call=8, t_job=0.003)
    simulation = Simulation(workload, settings, own=own)
    story = Story(simulation, 0)
    for expected in scenario["expect"]:
        simulation.world.engine.at(round(expected["at"] * 1e6), story.look, expected["at"])
    simulation.run()
    return story


@pytest.mark.parametrize("schedulers", [1, pytest.param(4, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, schedulers: int) -> None:
    scenario = yaml.safe_load(path.read_text())
    if "refused" in scenario:
        with pytest.raises(BadInput, match=scenario["refused"]):
            play(scenario | {"jobs": [], "expect": [], "until": 1}, schedulers)
        return
    story, pool_of = play(scenario, schedulers), {job["name"]: job["pool"] for job in scenario["jobs"]}
    spare = scenario.get("within", 0)
    for expected in scenario["expect"]:
        at = expected["at"]
        seen = story.seen[at]
        for job, tasks in expected.get("running", {}).items():
            assert seen.get(job, 0) == pytest.approx(tasks, abs=spare), f"{job} at {at} s: {seen}"
        for pool, tasks in expected.get("pools", {}).items():
            held = sum(count for name, count in seen.items() if pool_of.get(name, pool_of.get(base(name))) == pool)
            assert held == pytest.approx(tasks, abs=spare), f"pool {pool} at {at} s: {seen}"
        assert story.evictions[at] <= expected.get("evicted_most", story.evictions[at])
        assert story.evictions[at] == story.evictions[expected.get("none_evicted_since", at)]
        if "evicted" in expected:
            assert story.evictions[at] == pytest.approx(expected["evicted"], abs=spare), f"evicted at {at} s"

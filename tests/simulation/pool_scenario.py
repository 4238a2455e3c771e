"""Scenario files of pools: pools and jobs in the form of users' files, and what has to hold at which time.

A file has machines (cpu in cores, memory in MiB, attributes), pools and trees (fields as in docs/pools.md), jobs
(`copies`: number of equal ones), changes (fields of pools and sizes of jobs at a time), and expectations: running tasks
of jobs and of pools, fair shares of pools and jobs as parts of the machines (`computed: false`: not those of the
calculator for all jobs), volumes of integral guarantees between two bounds in cores × seconds, pools that are gone,
tasks evicted until then. `within` is how many tasks may differ; `why`: what
`omega job why` prints of jobs on a live cell. `only: live`: the simulator does not support it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from omega.cellstate.model import JobSpec
from omega.cellstate.pools import Pools
from omega.cellstate.resources import Dimensions
from omega.jobfile.reader import JobFile, load
from omega.pools import file as pool_file
from omega.workload.workload import DIMENSIONS, Arrival

FOLDER = Path(__file__).parent / "pool_scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))
QUICK = {"starvation_timeout": 1.0, "starvation_tolerance": 1.0, "backoff": 0.5}
MILLI = 1_000
_AMOUNTS = ("guarantee", "limits", "borrowing", "lending", "flow", "burst")


@dataclass(frozen=True, slots=True)
class Seen:
    """A cell at a time of an expectation."""

    running: Mapping[str, int]
    """Tasks by job."""
    evicted: int
    shares: Mapping[str, tuple[float, ...]]
    """Fair shares by pool and by job."""
    volumes: Mapping[str, tuple[float, ...]]


class Scenario:
    """A file."""

    def __init__(self, path: Path) -> None:
        """Read it."""
        self.name, self.fields = path.stem, yaml.safe_load(path.read_text("utf-8"))
        self.jobs = [job for each in self.fields.get("jobs", []) for job in _copies(each)]
        self.expect: list[dict[str, Any]] = self.fields.get("expect", [])
        self.refused: str | None = self.fields.get("refused")
        self.live_only: bool = self.fields.get("only") == "live"

    @property
    def changes(self) -> list[dict[str, Any]]:
        """What changes at which time."""
        found: list[dict[str, Any]] = self.fields.get("changes", [])
        return found

    def pools(self, at: float = 0.0) -> dict[str, Any]:
        """The pools as the value of a file, with the changes until a time."""
        pools = {name: dict(of or {}) for name, of in self.fields["pools"].items()}
        for change in self.changes:
            if change["at"] <= at:
                for name, of in change.get("pools", {}).items():
                    pools[name] = {**pools.get(name, {}), **of}
        quick = {"preemption": QUICK | self.fields.get("preemption", {})}
        trees = [quick | tree for tree in self.fields.get("trees", [{"name": "default"}])]
        return {"trees": trees, "pools": [{"name": name, **_with_units(of)} for name, of in pools.items()]}

    def cell_pools(self, at: float = 0.0) -> Pools:
        """The pools as a cell has them."""
        return pool_file.from_values(self.pools(at), DIMENSIONS)[0]

    def arrivals(self) -> list[Arrival]:
        """The jobs for a simulation."""
        found = [Arrival(job.get("at", 0.0), spec_of(job, DIMENSIONS)) for job in self.jobs]
        return sorted(found, key=lambda each: each.at_seconds)

    def check(self, expected: Mapping[str, Any], seen: Seen, earlier: Mapping[float, Seen]) -> None:
        """Fail unless a cell is as expected; `earlier` are the cells of earlier expectations by time."""
        at, spare = expected["at"], self.fields.get("within", 0)
        pool_of = {job["name"]: job.get("pool", job.get("user", "")) for job in self.jobs}
        for job, tasks in expected.get("running", {}).items():
            held = sum(count for name, count in seen.running.items() if job in (name, name.rpartition("-")[0]))
            assert held == pytest.approx(tasks, abs=spare), f"{job} at {at} s: {dict(seen.running)}"
        for pool, tasks in expected.get("pools", {}).items():
            held = sum(count for name, count in seen.running.items() if pool_of[name] == pool)
            assert held == pytest.approx(tasks, abs=spare), f"pool {pool} at {at} s: {dict(seen.running)}"
        for name, share in expected.get("shares", {}).items():
            found = dict(zip(DIMENSIONS.names, seen.shares.get(name, ()), strict=False))
            assert {each: found.get(each, 0.0) for each in share} == pytest.approx(share, abs=1e-4), f"{name} at {at} s"
        for name, bounds in expected.get("volumes", {}).items():
            assert bounds[0] <= seen.volumes[name][0] / MILLI <= bounds[1], f"volume of {name} at {at} s"
        for name in expected.get("gone", []):
            assert name not in seen.shares, f"{name} at {at} s"
        assert seen.evicted <= expected.get("evicted_most", seen.evicted)
        if "none_evicted_since" in expected:
            assert seen.evicted == earlier[expected["none_evicted_since"]].evicted
        if "evicted" in expected:
            assert seen.evicted == pytest.approx(expected["evicted"], abs=spare), f"evicted at {at} s"

    def tree(self, at: float) -> dict[str, Any]:
        """The cell at a time as a file of the calculator: all jobs that are there, none of them running."""
        total = {"cpu": 0.0, "memory": 0.0}
        for of in self.fields["machines"].values():
            total = {name: amount + of.get(name, 0) for name, amount in total.items()}
        document = self.pools(at)
        elements = [{"id": each["name"], "kind": "pool", **_of_calculator(each)} for each in document["pools"]]
        known = {each["id"] for each in elements}
        for job in self.jobs:
            if job.get("at", 0.0) > at:
                continue
            pool = job.get("pool", job.get("user"))
            if pool not in known:
                known.add(pool)
                elements.append({"id": pool, "kind": "pool"})
            count = job.get("tasks", 1)
            demand = {"cpu": job.get("cpu", 1) * count, "memory": job.get("memory", 0) * count}
            elements.append({"id": f"job {job['name']}", "kind": "job", "parent": pool, "demand": demand,
                             "start_time": job.get("at", 0.0)})  # fmt: skip
        return {"total_resources": total, "tree": elements, "options": {}, "seconds_since_previous_update": None}


def job_file(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job as a user would write it."""
    resources = _named({"cpu": job.get("cpu", 1), "memory": job.get("memory", 0)})
    tasks = {"count": job.get("tasks", 1), "resources": resources, "duration": f"{job.get('seconds', 100_000)}s"}
    tasks |= {name: job[name] for name in ("constraints", "apart_from") if name in job}
    gang = {"": False, "yes": True, "strict": "strict"}[job.get("gang", "")]
    found = {"id": job["name"], "name": job["name"], "kind": "batch", "gang": gang, "tasks": [tasks]}
    return found | {name: job[name] for name in ("pool", "user", "precedence") if name in job}


def spec_of(job: Mapping[str, Any], dimensions: Dimensions) -> JobSpec:
    """The job as a cell takes it."""
    others = {each: each for each in (job.get("apart_from") or {}).values()}
    text = json.dumps(job_file(job))
    return load([JobFile("scenario", text)], dimensions, lambda: "", lambda name: others[name])[0]


def _copies(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    copies = job.get("copies", 1)
    return [dict(job) if copies == 1 else {**job, "name": f"{job['name']}-{copy}"} for copy in range(copies)]


def _named(amounts: Mapping[str, float]) -> dict[str, str]:
    """Amounts as users write them: cpu in thousandths, memory in MiB."""
    wide = {"cpu": lambda amount: f"{round(amount * MILLI)}m", "memory": lambda amount: f"{round(amount)}Mi"}
    return {name: wide[name](amount) if name in wide else str(amount) for name, amount in amounts.items()}


def _with_units(fields: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in fields.items():
        inner = _with_units(value) if isinstance(value, Mapping) else value
        found[name] = _named(value) if name in _AMOUNTS else inner
    return found


def _of_calculator(pool: Mapping[str, Any]) -> dict[str, Any]:
    """A pool's fields under the names of the calculator, with plain numbers."""
    names = {"guarantee": "strong_guarantee", "limits": "limits"}
    found = {name: pool[name] for name in ("weight", "parent", "mode") if name in pool}
    for name, theirs in names.items():
        if name in pool:
            found[theirs] = {each: float(amount.rstrip("Mim")) / (MILLI if each == "cpu" else 1)
                             for each, amount in pool[name].items()}  # fmt: skip
    return found

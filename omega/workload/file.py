"""Workloads from YAML or JSON files: machines, pools, and jobs as in job files (docs/fair-share-calculator.md)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, MachineSpec
from omega.cellstate.pools import Pools
from omega.cellstate.resources import parse_amount
from omega.jobfile.document import Document, joined, parse
from omega.jobfile.reader import JobFile, load
from omega.pools.file import from_document
from omega.workload.workload import DIMENSIONS, Arrival, Workload

_LARGEST_FILE = 64 << 20
_ARRIVAL = ("at", "copies", "every")


class _Machines(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = Field(default=1, ge=1, le=1_000_000)
    cpu: str | int | float
    memory: str | int | float
    attributes: dict[str, str] = {}


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    machines: list[_Machines] = Field(min_length=1)
    trees: list[Any] = []
    pools: list[Any] = []
    jobs: list[dict[str, Any]] = []


def read_workload(path: str) -> Workload:
    """Read a file. Raises BadInput with the place of what is wrong."""
    document = _document(path)
    try:
        file = _File.model_validate(document.value)
    except ValidationError as error:
        wrong = [f"{document.where(each['loc'])}: {each['msg'].lower()}" for each in error.errors()]
        raise BadInput(f"{joined(wrong)}; fields: see docs/fair-share-calculator.md") from None
    pools = _pools(document, {name: document.value[name] for name in ("trees", "pools") if document.value.get(name)})
    arrivals = [each for at, fields in enumerate(file.jobs) for each in _arrivals(f"{path} jobs[{at}]", fields)]
    named = pools.by_name
    for each in arrivals:
        pool = each.job.spec.get("pool", "")
        if pool in named and pool not in pools.leaves:
            raise BadInput(f"{path}: job {each.job.name} names pool {pool}, which has pools below it")
        if pool and pools.configured and pool not in named:
            raise BadInput(f"{path}: job {each.job.name} names the unknown pool {pool}")
    machines = [spec for kind in file.machines for spec in _machines(kind)]
    specs = [replace(spec, name=f"m{number}") for number, spec in enumerate(machines)]
    arrivals.sort(key=lambda each: each.at_seconds)
    return Workload(specs, [], arrivals, f"{path}: {len(specs):,} machines, {len(arrivals):,} jobs", pools)


def with_pools(workload: Workload, path: str) -> Workload:
    """Return a workload with the pools of a file; jobs without one belong to its leaf pools in turn."""
    document = _document(path)
    pools = _pools(document, document.value)
    leaves = [pool.name for pool in pools.pools if pool.name in pools.leaves]
    if not leaves:
        raise BadInput(f"{path}: no pools")
    turns = cycle(leaves)

    def pooled(given: Sequence[Arrival]) -> list[Arrival]:
        jobs = (each.job if each.job.spec.get("pool") else with_pool(each.job, next(turns)) for each in given)
        return [replace(each, job=job) for each, job in zip(given, jobs, strict=True)]

    result = replace(workload, residents=pooled(workload.residents), arrivals=pooled(workload.arrivals), pools=pools)
    return replace(result, about=f"{workload.about.rstrip()}\npools: {path}")


def with_pool(job: JobSpec, pool: str) -> JobSpec:
    """Return a job of another pool."""
    return replace(job, spec={**job.spec, "pool": pool})


def _document(path: str) -> Document:
    try:
        if Path(path).stat().st_size > _LARGEST_FILE:
            raise BadInput(f"{path}: larger than {_LARGEST_FILE >> 20} MiB; want a smaller workload")
        return parse(path, Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from None


def _pools(document: Document, fields: Any) -> Pools:
    pools, _ = from_document(Document(document.name, fields, None), DIMENSIONS)
    if any(tree.machines for tree in pools.trees):
        raise BadInput(
            f"{document.name}: trees with a formula over machines; a simulation has one tree of all machines"
        )
    return pools


def _machines(kind: _Machines) -> Iterator[MachineSpec]:
    amounts = {"cpu": kind.cpu, "memory": kind.memory}
    capacity = tuple(parse_amount(name, amounts[name]) for name in DIMENSIONS.names)
    return (MachineSpec("m", capacity, dict(kind.attributes)) for _ in range(kind.count))


def _arrivals(where: str, fields: Mapping[str, Any]) -> Iterator[Arrival]:
    """Yield the copies of a job: the first at `at`, the others `every` so long later each."""
    job = {name: value for name, value in fields.items() if name not in _ARRIVAL}
    copies = fields.get("copies", 1)
    if not isinstance(copies, int) or not 1 <= copies <= 1_000_000:
        raise BadInput(f"{where}: copies {copies!r}; want 1 to 1,000,000")
    at, every = (parse_duration(fields.get(name, 0)) / 1000 for name in ("at", "every"))
    (spec,) = load([JobFile(where, json.dumps(job))], DIMENSIONS, lambda: str(job.get("name", "job")))
    for copy in range(copies):
        name = f"{spec.name}-{copy}" if copies > 1 else spec.name
        yield Arrival(at + copy * every, replace(spec, id=name, name=name))

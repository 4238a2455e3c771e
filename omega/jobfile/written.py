"""A stored job as the job file that it could have been read from: for an edited update, and for readers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omega.arrays import index_text
from omega.cellstate.model import BUDGET, Gang
from omega.cellstate.resources import MEMORY_BYTES, format_amount
from omega.mapreduce.plan import MapReducePlan
from omega.schedulers.speculation import FIELD as SPECULATION

if TYPE_CHECKING:
    from omega.cellstate.model import Job, TaskGroup
    from omega.cellstate.resources import Dimensions
    from omega.versions import Version

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_PLAIN = (
    "pool", "weight", "user", "environment", "directory", "after", "simulate", "on_abandon", "policy", "annotations",
)  # fmt: skip
_OF_GROUP = (
    "name", "command", "runner", "image", "constraints", "spread", "different_machines", "near", "apart_from",
    "locality", "restart", "health", "repeatable", "grace", "time_limit", "keep_output", "output", "error",
)  # fmt: skip
_DURATIONS = frozenset({"grace", "time_limit", "delay", "interval", "timeout", "healthy_after", "progress_deadline"})
"""Fields that are stored in milliseconds."""


def document(job: "Job", version: "Version", dimensions: "Dimensions") -> dict[str, Any]:
    """Return a version of a job as the value of a job file; reading the file gives the same specification.

    Fields that no job file has are left out. A MapReduce job has the files that its patterns named.
    """
    fields = version.fields
    groups = version.groups
    found: dict[str, Any] = {"name": job.name, "kind": job.kind}
    found |= {"precedence": job.precedence} if job.precedence else {}
    found |= {"gang": _gang(job)} if job.gang is not Gang.NO else {}
    found |= {name: fields[name] for name in _PLAIN if fields.get(name)}
    if fields.get("expected_duration") is not None:
        found["expected_duration"] = duration(round(fields["expected_duration"] * 1000))
    found |= {"update": _with_durations(fields["update"])} if fields.get("update") else {}
    found |= {SPECULATION: _copies(fields[SPECULATION])} if SPECULATION in fields else {}
    found |= {"requeue": "never"} if any(group.once for group in groups) else {}
    plan = MapReducePlan.read(fields)
    if plan is not None:
        return found | _of_plan(plan, groups[0], dimensions)
    return found | {"tasks": [_tasks(group, dimensions) for group in groups]}


def duration(milliseconds: int) -> str:
    """Return a duration as job files have it: ``1h30m``, ``250ms``; of 0, ``0s``."""
    parts = []
    for unit, size in _UNITS:
        number, milliseconds = divmod(milliseconds, size)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0s"


def _gang(job: "Job") -> Any:
    if job.gang_min:
        return {"min": job.gang_min} | ({"strict": True} if job.gang is Gang.STRICT else {})
    return "strict" if job.gang is Gang.STRICT else True


def _tasks(group: "TaskGroup", dimensions: "Dimensions") -> dict[str, Any]:
    spec = group.spec
    found = {"name": spec["name"]} if spec.get("name") else {}
    found |= {"array": index_text(spec, f"0-{group.count - 1}")} if spec.get("array") else {"count": group.count}
    found |= {"resources": _resources(group, dimensions)} if any(group.need) else {}
    found |= {"duration": duration(group.duration_ms)} if group.duration_ms else {}
    stated = (name for name in _OF_GROUP if spec.get(name) or (name == "grace" and name in spec))
    found |= {name: _value(name, spec[name]) for name in stated}
    if group.budget != BUDGET:
        found["restart"] = {**found.get("restart", {}), "lost": group.budget}
    return found


def _resources(group: "TaskGroup", dimensions: "Dimensions") -> dict[str, str]:
    pairs = zip(dimensions.names, group.need, strict=True)
    found = {name: format_amount(name, amount) for name, amount in pairs if amount}
    size = group.spec.get(MEMORY_BYTES)
    return found if size is None else found | {"memory": f"{size}B"}


def _value(name: str, value: Any) -> Any:
    if name == "locality":
        rest = {key: each for key, each in value.items() if key != "wait_ms"}
        return rest | ({"wait": [*map(duration, value["wait_ms"])]} if "wait_ms" in value else {})
    if name == "keep_output":
        return f"{value}B"
    if name in _DURATIONS:
        return duration(value)
    return _with_durations(value) if name in ("restart", "health") else value


def _with_durations(value: Mapping[str, Any]) -> dict[str, Any]:
    def shown(name: str, each: Any) -> Any:
        if isinstance(each, Mapping):
            return _with_durations(each)
        return duration(each) if name in _DURATIONS else each

    return {name: shown(name, each) for name, each in value.items()}


def _copies(stored: Mapping[str, Any]) -> Any:
    seconds = stored.get("after")
    return {**stored, "after": duration(round(seconds * 1000))} if seconds is not None else dict(stored) or True


def _of_plan(plan: MapReducePlan, workers: "TaskGroup", dimensions: "Dimensions") -> dict[str, Any]:
    """Return the fields of a MapReduce job."""
    source = {"ranges": plan.numbers} if not plan.files else {"files": [path for path, _ in plan.files]}
    found: dict[str, Any] = {"workers": workers.count}
    found |= {"resources": _resources(workers, dimensions)} if any(workers.need) else {}
    found |= {"constraints": workers.spec["constraints"]} if workers.spec.get("constraints") else {}
    return found | {
        "input": source | {"shard": plan.shard}, "map": {"command": list(plan.map)},
        "reduce": {"command": list(plan.reduce), "count": plan.reduces}, "output": plan.output, "scratch": plan.scratch,
    }  # fmt: skip

"""Orders for supervisors, built from a job and the agent's environment. Pure."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omega.arrays import array_index
from omega.cellstate.model import Job
from omega.cellstate.resources import MEMORY_BYTES, MIB, Dimensions
from omega.live.agent.places import PlacementKey
from omega.live.agent.progress_reports import PROGRESS
from omega.live.agent.runners import run_by
from omega.live.agent.task_start import DECIDED, MARK
from omega.live.runners.runner import Runner
from omega.output_pattern import FIELDS, path_of, read_pattern
from omega.queries.job_state import generations
from omega.schedulers.rolling import Policy, started_with
from omega.upkeep import HEALTH_FAILURES, HEALTH_INTERVAL_MS, HEALTH_TIMEOUT_MS, restarts

GRACE_MS = 10_000
KEEP_OUTPUT = 256 << 20
"""Bytes of output of a task that are kept, half for each stream, unless its job says another amount."""
READY_EVERY_MS, READY_TIMEOUT_MS = 5_000, 10_000
"""Period and timeout of the readiness command of an update."""


class Site(NamedTuple):
    """Environment common to all tasks of an agent; `there` returns whether a directory exists."""

    machine: str
    incarnation: int
    lease: Path
    dimensions: Dimensions
    surroundings: Mapping[str, str]
    there: Callable[[str], bool]
    user: Mapping[str, Any] | None = None
    """The account that tasks run as (task_start.py); None for the agent's own."""
    runners: Mapping[str, Runner] = {}
    """The task runners of this machine by name."""


def group_spec(job: Job, group: int) -> Mapping[str, Any]:
    """Return the fields of a task group for schedulers and executors."""
    groups = job.spec.get("groups") or []
    said: Mapping[str, Any] = groups[group] if group < len(groups) else {}
    return said


def order(job: Job, key: PlacementKey, place: Path, site: Site, own: Mapping[str, str]) -> dict[str, Any]:
    """Return the order of one task; `own` holds the variables of tasks that run an Omega command.

    The task's environment is the agent's without OMEGA_ settings and its own directories, then the job's variables,
    then the task's identity; PWD is the task's directory (task_start.py).
    Its directory is the job's, else the directory of submission if it exists here, else the task's own; a copy of a
    slow task runs in its own. Raises BadInput when the task's runner is not on this machine, refuses or fails.
    """
    said = group_spec(job, key.group)
    group = job.groups[key.group]
    restart = restarts(job.kind, said.get("restart"), once=group.once)
    inherited = {
        name: value
        for name, value in site.surroundings.items()
        if not name.startswith("OMEGA_") and name not in ("PWD", "OLDPWD")
    }
    if site.user is not None:
        inherited |= {"HOME": site.user["home"], "USER": site.user["name"], "LOGNAME": site.user["name"]}
    runner, directory = str(said.get("runner") or ""), _directory(job, key.group, place, site)
    file = _progress(job, place) if not runner or directory == str(place / "work") else ""
    number = key.group - group.copies  # a copy has the identity of its original
    index = array_index(said, key.task)
    numbered = {} if index is None else {"OMEGA_ARRAY_INDEX": str(index)}
    its = started_with(job, key.group)
    policy = Policy.of(its)
    need = dict(zip(site.dimensions.names, group.need, strict=True))
    identity = {
        **its.get("environment", {}),
        "OMEGA_JOB": job.id,
        "OMEGA_JOB_NAME": job.name,
        "OMEGA_GROUP": said.get("name") or str(number),
        "OMEGA_GROUP_NUMBER": str(number),
        "OMEGA_GENERATION": str(generations(job)[number]),
        "OMEGA_TASK": str(key.task),
        "OMEGA_MACHINE": site.machine,
        "OMEGA_PLACEMENT": str(key.placement),
        MARK: str(place),
        **numbered,
        **({"OMEGA_COPY": "1"} if group.copies else {}),
        **({"OMEGA_PROGRESS": file} if file else {}),
        **own,
    }
    files = _files(said, str(its.get("directory") or its.get("submitted_in") or place / "work"), job, key, index)
    made = {
        "command": said.get("command") or _simulated(group.duration_ms),
        "environment": {**inherited, **identity},
        "directory": directory,
        "restart": restart._asdict(),
        "final": DECIDED if own else None,
        "time_limit_ms": said.get("time_limit", 0),
        "grace_ms": said.get("grace", GRACE_MS),
        "log_bytes": said.get("keep_output", KEEP_OUTPUT) // 2,
        "checks": _checks(policy, said.get("health") or {}),
        "cpu_millicores": need.get("cpu", 0),
        "memory_bytes": said.get(MEMORY_BYTES, need.get("memory", 0) * MIB),
        "cgroup": "",
        "user": site.user,
        "lease": str(site.lease),
        "incarnation": site.incarnation,
        **({"progress": file} if file else {}),
        **({"files": files, "alone": True} if files else {}),  # a file system that hangs halts no other task
    }
    return run_by(site.runners, runner, str(said.get("image", "")), made, (inherited, identity)) if runner else made


def _directory(job: Job, group: int, place: Path, site: Site) -> str:
    """Return the directory that a task runs in."""
    its = started_with(job, group)
    own, origin = str(place / "work"), str(its.get("submitted_in", ""))
    if job.groups[group].copies:
        return own
    return str(its.get("directory") or (origin if site.there(origin) else own))


def _files(said: Mapping[str, Any], directory: str, job: Job, key: PlacementKey, index: int | None) -> dict[str, Any]:
    """Return where a task's output goes besides the agent (output_files.py); {} for one that names no files.

    Raises BadInput for patterns that no job file may have: any client can write to the store.
    """
    patterns = {stream: read_pattern(said[field]) for field, stream in FIELDS.items() if said.get(field)}
    if not patterns:
        return {}
    copies = job.groups[key.group].copies
    group, number = str(said.get("name") or key.group - copies), key.task if index is None else index
    values = {"index": str(number), "job": job.name, "id": job.id, "group": group}
    paths = {stream: path_of(pattern, values) for stream, pattern in patterns.items()}
    return {"directory": directory, "paths": paths, "copy": copies}


def _progress(job: Job, place: Path) -> str:
    """Return the file for the progress of a task (progress_reports.py); empty for a job whose tasks have no copies."""
    return str(place / "work" / PROGRESS) if any(group.copies for group in job.groups) else ""


def _checks(policy: Policy, liveness: Mapping[str, Any]) -> dict[str, Any]:
    """Return the health commands of a task (task_health.py), how many tasks of the job may be ended at once, and
    how long an attempt that follows a failed one must last.
    """
    ready = {
        "command": list(policy.command),
        "grace_ms": policy.grace_ms,
        "every_ms": READY_EVERY_MS,
        "timeout_ms": READY_TIMEOUT_MS,
    }
    alive = {
        "command": list(liveness.get("command", ())),
        "grace_ms": liveness.get("grace", 0),
        "every_ms": liveness.get("interval", HEALTH_INTERVAL_MS),
        "timeout_ms": liveness.get("timeout", HEALTH_TIMEOUT_MS),
        "failures": liveness.get("failures", HEALTH_FAILURES),
    }
    return {"ready": ready, "alive": alive, "max_down": policy.max_down, "proven_ms": policy.healthy_after_ms}


def _simulated(duration_ms: int) -> list[str]:
    """Return the command of a job without one: sleep for its duration."""
    return ["sleep", f"{duration_ms / 1000:g}"] if duration_ms else []

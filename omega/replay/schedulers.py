"""The schedulers of a replay: those that run live, with the decision times of the simulation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from omega.cellstate.transaction import Detection, Mode
from omega.schedulers.policies import NoPreemption
from omega.schedulers.presets import batch, service
from omega.schedulers.scheduler import Scheduler
from omega.simulation import Settings
from omega.simulation.settings import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a replay changes of all its schedulers; None: nothing."""

    detection: Detection | None = None
    commit: Mode | None = None
    preemption: bool = True
    """Whether schedulers keep their preemption policies."""


def schedulers_of(given: Sequence[Scheduler], settings: Settings, changes: Changes) -> list[Scheduler]:
    """Return the schedulers of a replay: the given ones, and a preset for each of batch and service without one.

    All decide on one job at a time, as in Omega §4. Those without decision times take the simulation's for their kind.
    The one of a monolithic architecture is the preset of service unless it is given.
    """
    kinds = {each.kind for each in given}
    if settings.architecture.startswith("monolithic"):
        one = _replayed(service(), settings, changes)
        one.paths = {kind: settings.decision_time(kind) for kind in KINDS}
        return [_replayed(each, settings, changes) for each in given] or [one]
    presets = [made() for name, made in (("batch", batch), ("service", service)) if name not in kinds]
    return [_replayed(each, settings, changes) for each in (*given, *presets)]


def _replayed(scheduler: Scheduler, settings: Settings, changes: Changes) -> Scheduler:
    made = replace(scheduler.fresh("replay"), jobs_per_call=1)
    if not (made.t_job or made.t_task or made.paths):
        made.t_job, made.t_task = settings.decision_time(made.kind)
    if changes.detection is not None:
        made.detection = changes.detection
    if changes.commit is not None:
        made.mode = changes.commit
    if not changes.preemption:
        made.preemption = NoPreemption()
    return made


def policies(scheduler: Scheduler) -> dict[str, Any]:
    """Return a scheduler's policies by the names of their classes, its decision times and its commits."""
    named = {name: type(getattr(scheduler, name)).__name__ for name in ("ordering", "placement", "preemption")}
    return {
        "kind": scheduler.kind,
        **named,
        "t_job": scheduler.t_job,
        "t_task": scheduler.t_task,
        "detection": scheduler.detection.name.lower(),
        "commit": scheduler.mode.name.lower(),
    }

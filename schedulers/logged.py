"""The settings of a scheduler in plain values, for the log and for recordings.

A policy is named by its class, as the registry names it (``module:Class``), with those of its fields that are plain
values. Nothing is imported by such a name: a reader compares it with the names of installed policies.
"""

from dataclasses import fields, is_dataclass
from typing import Any

from omega.schedulers.scheduler import Scheduler

_PLAIN = (bool, int, float, str, type(None))


def settings_of(scheduler: Scheduler) -> dict[str, Any]:
    """Return kind, policies, mode, detection, jobs per call, back-off, limit of attempts and retry policy."""
    policies = dict(zip(("ordering", "placement", "preemption", "sizing"), scheduler.policies, strict=True))
    return {
        "kind": scheduler.kind,
        **{axis: policy_of(policy) for axis, policy in policies.items() if policy is not None},
        "mode": scheduler.mode.name.lower(),
        "detection": scheduler.detection.name.lower(),
        "jobs_per_call": scheduler.jobs_per_call,
        "backoff": scheduler.backoff,
        "retry_limit": scheduler.retry_limit,
        **({} if scheduler.retry_policy is None else {"retry_policy": policy_of(scheduler.retry_policy)}),
    }


def policy_of(policy: object) -> dict[str, Any]:
    """Return the class of a policy, and its fields that are plain values."""
    kind = type(policy)
    described: dict[str, Any] = {"class": f"{kind.__module__}:{kind.__qualname__}"}
    for each in fields(policy) if is_dataclass(policy) and not isinstance(policy, type) else ():
        value = getattr(policy, each.name, None)
        if each.init and isinstance(value, _PLAIN):
            described[each.name] = value
    return described

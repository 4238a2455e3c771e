"""How the tasks of a group are kept up: restarts after failures and liveness checks, with the defaults of a kind.

The defaults of liveness are those of Kubernetes' probes, those of a service's restarts Nomad's.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

HEALTH_INTERVAL_MS, HEALTH_TIMEOUT_MS, HEALTH_FAILURES = 10_000, 1_000, 3
"""Default period and timeout of a liveness command, and failures in a row after which a task is unhealthy."""


def time_limits(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the time limits of a job's groups in milliseconds, 0 for none; empty when no group has one."""
    limits = [said.get("time_limit", 0) for said in spec.get("groups", ())]
    return tuple(limits) if any(limits) else ()


def over_limit(ms: float) -> str:
    """Return the reason of a task that its time limit ended as failed."""
    return f"time limit of {ms / 1000:g} s"


class Restarts(NamedTuple):
    """Restarts of a failed task: on its machine, then elsewhere.

    At most `attempts` within `interval_ms` (0: in all) on the machine, `delay_ms` after the failure, `factor` times as
    long after each further one. With `elsewhere`, a task that used them up is placed again (semantics 26).
    """

    attempts: int = 0
    delay_ms: int = 1_000
    factor: float = 2.0
    interval_ms: int = 0
    elsewhere: bool = False


OF_SERVICES = Restarts(attempts=2, delay_ms=15_000, factor=1.0, interval_ms=1_800_000, elsewhere=True)
"""Restarts of the tasks of a service."""


def restarts(kind: str, said: Mapping[str, Any] | None, *, once: bool = False) -> Restarts:
    """Return the restarts of a task group of a job's kind, as its field `restart` states them.

    `once`: its tasks are placed at most once (`requeue: never`), so they restart only as stated, and never elsewhere.
    """
    stated = said or {}
    usual = OF_SERVICES if kind == "service" and not once else Restarts()
    found = usual._replace(
        attempts=stated.get("attempts", usual.attempts),
        delay_ms=stated.get("delay", usual.delay_ms),
        factor=stated.get("factor", usual.factor),
        interval_ms=stated.get("interval", usual.interval_ms),
        elsewhere=stated.get("elsewhere", usual.elsewhere),
    )
    return found._replace(elsewhere=False) if once else found

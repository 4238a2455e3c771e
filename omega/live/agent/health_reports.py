"""Reports of the health of an agent's tasks to the store, and the grants that come back (docs/services.md, Health).

The supervisor of a task writes what the health commands found, and when an attempt failed (task_health.py). The agent
reports each change. It asks for a grant while a task is unhealthy, and passes a grant on; without the store's answer it
passes none on.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.cell import Cell
from omega.cellstate.tasks import HealthOf, HealthReport, HealthState
from omega.live.agent.kept import Kept
from omega.live.agent.lease_file import now, write
from omega.live.agent.places import PlacementKey
from omega.live.agent.task_health import ALIVE, GRANT, HEALTH, UNHEALTHY, granted_until

SPARE_MS = 60_000
"""Time of a grant beyond the end of the attempt and its first checks: a pause before a restart, a slow start."""
LASTING = (HealthState.READY, HealthState.DOWN)
"""States that are reported once; the others ask the store for something."""


@dataclass(slots=True)
class HealthReports:
    """What an agent reported of its tasks' health."""

    _told: dict[str, frozenset[HealthOf]] = field(default_factory=dict)
    """The last report about each job."""
    _checks: dict[PlacementKey, Mapping[str, Any]] = field(default_factory=dict)
    """The health settings of each task that has a health command or restarts; empty for others."""
    _cursor: int = 0

    def watched(self, kept: Iterable[Kept]) -> list[Kept]:
        """Return the tasks that have a health command or restarts."""
        return [each for each in kept if self._of(each)]

    def changed(self, kept: Iterable[Kept]) -> bool:
        """Return whether the states differ from those last reported."""
        return self._states(self.watched(kept)) != self._told

    def report(self, cell: Cell, machine: int, kept: Mapping[PlacementKey, Kept], now_ms: int) -> None:
        """Report changed states, and ask for the end of unhealthy tasks. Raises StoreError."""
        for key in self._checks.keys() - kept.keys():
            del self._checks[key]
        watched = self.watched(kept.values())
        states = self._states(watched)
        for job_id in sorted(states.keys() | self._told.keys()):
            tasks = states.get(job_id, frozenset())
            if tasks == self._told.get(job_id) and all(each.state in LASTING for each in tasks):
                continue
            mine = [each for each in watched if each.key.job == job_id]
            span_ms = max(map(self._span_ms, mine), default=0)
            most = min((self._of(each)["max_down"] for each in mine), default=1)
            report = HealthReport(job=job_id, machine=machine, tasks=sorted(tasks), max_down=most, span_ms=span_ms)
            granted, self._cursor = cell.tasks.report_health(report, now_ms, self._cursor)
            for each in mine:
                if (each.key.placement, each.key.task) in granted:
                    write(each.place / GRANT, f"{now() + span_ms / 1000}")
            self._told[job_id] = tasks
            if not tasks:
                del self._told[job_id]

    def _of(self, kept: Kept) -> Mapping[str, Any]:
        if kept.key not in self._checks:
            checks: Mapping[str, Any] = {}
            with suppress(OSError, ValueError):
                order = kept.order
                checks = order.get("checks") or {}
                has = any(checks.get(name, {}).get("command") for name in ("ready", "alive"))
                checks = checks if has or order["restart"]["attempts"] else {}
            self._checks[kept.key] = checks
        return self._checks[kept.key]

    def _span_ms(self, kept: Kept) -> int:
        """Return how long a grant for a task lasts: until the next attempt has passed or failed its first checks."""
        alive = self._of(kept)["alive"]
        return int(alive["grace_ms"] + alive["failures"] * (alive["every_ms"] + alive["timeout_ms"]) + SPARE_MS)

    def _states(self, watched: Iterable[Kept]) -> dict[str, frozenset[HealthOf]]:
        found = defaultdict[str, set[HealthOf]](set)
        for kept in watched:
            state = {}
            with suppress(OSError, ValueError):
                state = json.loads((kept.place / HEALTH).read_text())
            if (word := _word(kept, state)) is not None and not kept.leaving and not kept.unlisted:
                found[kept.key.job].add(HealthOf(kept.key.placement, kept.key.task, word))
        return {job_id: frozenset(tasks) for job_id, tasks in found.items()}


def _word(kept: Kept, state: Mapping[str, Any]) -> HealthState | None:
    """Return the state of a task to report; a task that is healthy again gives its grant back."""
    alive, down = state.get("alive"), state.get("down")
    if alive == ALIVE and not down:
        with suppress(OSError):
            (kept.place / GRANT).unlink()
    elif granted_until(kept.place) > now():
        return HealthState.ENDING
    elif down:
        return HealthState.DOWN
    elif alive == UNHEALTHY:
        return HealthState.ASKS
    return HealthState.READY if state.get("ready") else None

"""The last hour of a cell in samples: how busy each scheduler was, use of resources, placed tasks per second."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HOUR_MS = 3_600_000
STEP_MS = 5_000
"""Least time between two samples of a series."""
RATES = ("thinking", "committing", "waiting", "wait_seconds", "conflict_fraction")
NEEDED = ("busy_seconds", "seconds", "conflicts", "accepted")
MOST_SERIES = 256
"""Schedulers with a series; of those that are gone the one that is silent longest makes room."""


class Series:
    """Samples of some values, each with its time (ms since 1970), of the last hour."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._times = array("q")
        self._values = [array("d") for _ in names]

    @property
    def last_ms(self) -> int:
        """The time of the last sample, 0 without one."""
        return self._times[-1] if self._times else 0

    def add(self, at_ms: int, values: Iterable[float]) -> None:
        """Add a sample; older ones than an hour are dropped now and then."""
        self._times.append(at_ms)
        for column, value in zip(self._values, values, strict=True):
            column.append(value)
        if len(self._times) > 1.25 * HOUR_MS / STEP_MS:
            old = len(self._times) - HOUR_MS // STEP_MS
            del self._times[:old]
            for column in self._values:
                del column[:old]

    def as_json(self, since_ms: int) -> dict[str, Any]:
        """Return the samples since a time: ``at_ms`` and a list for each value; NaN is null."""
        first = next((number for number, at_ms in enumerate(self._times) if at_ms >= since_ms), len(self._times))
        columns = {
            name: [None if value != value else value for value in column[first:]]  # noqa: PLR0124 - NaN
            for name, column in zip(self.names, self._values, strict=True)
        }
        return {"at_ms": self._times[first:].tolist(), **columns}


class LastHour:
    """Series of a cell, fed at each reading."""

    def __init__(self, resources: Sequence[str]) -> None:
        self._members: dict[str, Series] = {}
        self._figures: dict[str, Mapping[str, Any]] = {}
        self._cell = Series((*resources, "placed_per_second"))
        self._placed = 0

    def add_members(self, members: Mapping[str, tuple[int, bool, Mapping[str, Any]]], now_ms: int) -> None:
        """Add the heartbeats that are new, at most one each `STEP_MS`."""
        for name, (_, alive, figures) in members.items():
            series = self._members.get(name) or self._new(name)
            before = self._figures.get(name)
            if not alive or not figures.keys() >= set(NEEDED) or now_ms - series.last_ms < STEP_MS:
                continue
            if before is None or figures["seconds"] < before["seconds"]:
                self._figures[name] = figures  # rates are those between two heartbeats of one process
            elif figures["seconds"] > before["seconds"]:
                self._figures[name] = figures
                series.add(now_ms, _rates(before, figures))

    def _new(self, name: str) -> Series:
        if len(self._members) >= MOST_SERIES:
            oldest = min(self._members, key=lambda each: self._members[each].last_ms)
            del self._members[oldest]
            self._figures.pop(oldest, None)
        series = self._members[name] = Series(RATES)
        return series

    def add_cell(self, use: Mapping[str, Mapping[str, float]], placed: int, now_ms: int) -> None:
        """Add the use of each resource; `placed` tasks were placed since the call before."""
        self._placed += placed
        lasted = now_ms - self._cell.last_ms
        if lasted >= STEP_MS:
            rate = self._placed * 1000 / lasted if self._cell.last_ms else float("nan")
            self._cell.add(now_ms, [*(each["fraction"] for each in use.values()), rate])
            self._placed = 0

    def as_json(self, now_ms: int) -> dict[str, Any]:
        """Return all series of the last hour."""
        since = now_ms - HOUR_MS
        return {
            "schedulers": {name: series.as_json(since) for name, series in sorted(self._members.items())},
            "cell": self._cell.as_json(since),
        }


def _rates(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[float]:
    lasted, busy, conflicts, accepted = (
        now[name] - before[name] for name in ("seconds", "busy_seconds", "conflicts", "accepted")
    )
    busyness = min(1.0, max(0.0, busy / lasted))
    thought = now.get("think_seconds", float("nan")) - before.get("think_seconds", 0.0)
    thinking = min(busyness, thought / lasted) if thought >= 0 else float("nan")
    wait = now.get("wait_mean", float("nan"))
    return [
        thinking, busyness - thinking, 1 - busyness, wait, conflicts / accepted if accepted > 0 else float(conflicts)
    ]  # fmt: skip

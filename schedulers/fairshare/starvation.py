"""Starvation of pools and jobs: a state machine with timeouts and tolerances (§9).

An element becomes starving when it stays below tolerance × fair share for longer than its timeout. It ceases only when
no further unit fits under its share: with the tolerance as the end as well, the rest of a share would come by ends of
tasks alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from omega.schedulers.fairshare.satisfaction import EPSILON, Vector, is_below_fair_share


class Status(IntEnum):
    """How an element stands; the larger, the more it may evict."""

    NORMAL = 0
    STARVING = 1
    AGGRESSIVELY_STARVING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvationRules:
    """When an element starves; times in seconds, an infinite one is off. Defaults: those of YTsaurus for its root."""

    tolerance: float = 0.8
    timeout: float = 30.0
    aggressive_timeout: float = float("inf")


DEFAULTS = StarvationRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """How a job or a pool stands: fair share, demand and usage, as shares, and the least unit that it wants next."""

    share: Vector
    demand: Vector
    usage: Vector
    unit: Vector
    job: bool = False


def another_fits(stand: Stand) -> bool:
    """Return whether one more unit fits under the share in every resource that it needs."""
    each = zip(stand.unit, stand.usage, stand.share, strict=True)
    fits = [has + more <= part + EPSILON for more, has, part in each if more > EPSILON]
    return bool(fits) and all(fits)


@dataclass(slots=True)
class Starvation:
    """The states of a tree's elements by name. Times compare strictly. `rules` by element, DEFAULTS for others."""

    rules: Mapping[str, StarvationRules] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict, repr=False)
    _status: dict[str, Status] = field(default_factory=dict, repr=False)

    def update(self, now: float, name: str, stand: Stand) -> None:
        """Take over how one element stands at `now` (seconds)."""
        rules = self.rules.get(name, DEFAULTS)
        starves = self._status.get(name, Status.NORMAL) > Status.NORMAL
        low = is_below_fair_share(stand.share, stand.demand, stand.usage, rules.tolerance, job=stand.job)
        if not (low or (starves and another_fits(stand))):
            self.forget(name)
            return
        since = self._since.setdefault(name, now)
        if now > since + rules.aggressive_timeout:
            self._status[name] = Status.AGGRESSIVELY_STARVING
        elif starves or now > since + rules.timeout:
            self._status[name] = max(Status.STARVING, self._status.get(name, Status.STARVING))

    def forget(self, name: str) -> None:
        """Take an element as one that is not below its share."""
        self._since.pop(name, None)
        self._status.pop(name, None)

    def status(self, name: str) -> Status:
        """How an element stands."""
        return self._status.get(name, Status.NORMAL)

    def since(self, name: str) -> float | None:
        """Since when an element is below its share (seconds); None when it is not."""
        return self._since.get(name)

    def due(self, name: str) -> float | None:
        """When an element that is below its share becomes starving (seconds); None when it is not, or starves."""
        since = self._since.get(name)
        if since is None or self.status(name) is not Status.NORMAL:
            return None
        return since + self.rules.get(name, DEFAULTS).timeout

    def followed(self) -> list[str]:
        """Return the elements that are below their shares."""
        return list(self._since)

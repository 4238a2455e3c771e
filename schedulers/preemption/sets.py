"""Sets of evictions: what their evictor wants next, what pools lose, and what is in flight."""

from collections.abc import Sequence
from typing import NamedTuple

from cellstate.fairness import leaf_of
from cellstate.residents import Resident
from cellstate.resources import Resources
from schedulers.fairshare.standings import Path
from schedulers.work import Work


def leaf_of_work(work: Work) -> str:
    """Return the leaf pool of a job."""
    return leaf_of(work.pool, work.user)


def unit_of(work: Work, need: Resources) -> Sequence[float]:
    """Return the least unit that a job wants next: a task, or all of a gang."""
    if not work.gang:
        return need
    groups = [(work.need(group), left) for group, left in enumerate(work.left)]
    return [float(sum(amounts[d] * left for amounts, left in groups)) for d in range(len(need))]


class Flight(NamedTuple):
    """Evictions whose outcome is not known.

    What leaf pools lose, tasks that go by placement, the room on machines, the victims by placement, and the pools that
    gain.
    """

    lost: Sequence[tuple[str, Resources]]
    gone: dict[int, int]
    freed: Sequence[tuple[int, Resources]]
    victims: dict[int, Resident]
    gaining: Path = ()


class Losses:
    """What the pools of victims held before a set, and the units that go (tasks, strict gangs)."""

    def __init__(self) -> None:
        self.held: dict[str, Resources] = {}
        self.units: dict[str, list[Resources]] = {}


def without_needless(chosen: Sequence[tuple[Resident, int]], missing: Sequence[int]) -> list[tuple[Resident, int]]:
    """Leave out victims that turned out not to be needed, the last chosen first; `missing` is 0 or less."""
    kept, spare = list[tuple[Resident, int]](), [-amount for amount in missing]
    for resident, count in reversed(chosen):
        fits = [left // need for left, need in zip(spare, resident.need, strict=True) if need]
        stay = min([count, *fits])
        spare = [left - need * stay for left, need in zip(spare, resident.need, strict=True)]
        if stay < count:
            kept.append((resident, count - stay))
    return kept[::-1]

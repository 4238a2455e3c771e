"""The choice of victims on one machine: the least important first, and no more than needed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omega.cellstate.residents import Resident
from omega.cellstate.resources import Resources


class Victims(NamedTuple):
    """Tasks of one run to evict."""

    resident: Resident
    number: int

    @property
    def tasks(self) -> int:
        """Number of tasks that stop: all of a strict gang when one of them does."""
        return max(self.number, self.resident.together)


def fewest(residents: Iterable[Resident], lacking: Resources) -> list[Victims] | None:
    """Return victims that free at least `lacking`; None when all together do not.

    Lowest precedence first; of equals, single tasks before strict gangs, then those that free most of the lacking
    resources, then the newest. Victims that turn out to be unnecessary stay, the most important first.
    """
    missing = list(lacking)
    chosen: list[Victims] = []
    for resident in sorted(residents, key=lambda each: _rank(each, lacking)):
        if all(amount <= 0 for amount in missing):
            break
        count = _useful(resident, missing)
        if count:
            chosen.append(Victims(resident, count))
            missing = [amount - each * count for amount, each in zip(missing, resident.need, strict=True)]
    if any(amount > 0 for amount in missing):
        return None
    return _without_needless(chosen, missing)


def _rank(resident: Resident, lacking: Resources) -> tuple[float, ...]:
    helps = sum(min(need, lack) / lack for need, lack in zip(resident.need, lacking, strict=True) if lack > 0)
    return resident.precedence, resident.together, -helps, -resident.placement


def _useful(resident: Resident, missing: Sequence[int]) -> int:
    """Return the number of its tasks that free all it can of the missing resources."""
    wanted = [-(-lack // need) for need, lack in zip(resident.need, missing, strict=True) if lack > 0 and need > 0]
    return min(resident.tasks, max(wanted, default=0))


def _without_needless(chosen: list[Victims], missing: list[int]) -> list[Victims]:
    """Drop unnecessary victims. `missing` is 0 or less: the amount freed beyond the need."""
    kept: list[Victims] = []
    for resident, count in reversed(chosen):
        spare = [-lack // need for need, lack in zip(resident.need, missing, strict=True) if need > 0]
        stay = max(0, min(count, *spare)) if spare else count
        missing = [lack + need * stay for lack, need in zip(missing, resident.need, strict=True)]
        if stay < count:
            kept.append(Victims(resident, count - stay))
    return kept[::-1]

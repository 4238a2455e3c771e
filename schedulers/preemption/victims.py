"""The choice of victims on one machine: the least important first, and no more than needed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Resident


class Victim(NamedTuple):
    """The last `number` tasks of a run, to be evicted; all tasks of the job of a strict gang."""

    resident: Resident
    number: int

    @property
    def tasks(self) -> int:
        """Number of tasks that stop: all of a strict gang when one of them does."""
        return self.resident.together or self.number

    @property
    def amounts(self) -> tuple[int, ...]:
        """Number of evicted tasks, then their amounts by resource."""
        return self.tasks, *(amount * self.tasks for amount in self.resident.need)


def fewest(residents: Iterable[Resident], lacking: Resources) -> list[Victim] | None:
    """Return victims that free at least `lacking`; None when all together do not.

    Lowest precedence first; of equals, single tasks before strict gangs, then those that free most of the lacking
    resources, then the newest. Victims that turn out to be unnecessary stay, the most important first.
    """
    missing = list(lacking)
    chosen: list[Victim] = []
    for resident in sorted(residents, key=lambda each: _rank(each, lacking)):
        if all(amount <= 0 for amount in missing):
            break
        count = _useful(resident, missing)
        if count:
            chosen.append(Victim(resident, count))
            add(missing, resident.need, -count)
    if any(amount > 0 for amount in missing):
        return None
    return without_needless(chosen, missing)


def _rank(resident: Resident, lacking: Resources) -> tuple[float, ...]:
    helps = sum(min(need, lack) / lack for need, lack in zip(resident.need, lacking, strict=True) if lack > 0)
    return resident.precedence, resident.together, -helps, -resident.placement


def _useful(resident: Resident, missing: Sequence[int]) -> int:
    """Return the number of its tasks that free all it can of the missing resources."""
    wanted = [-(-lack // need) for need, lack in zip(resident.need, missing, strict=True) if lack > 0 and need > 0]
    return min(resident.tasks, max(wanted, default=0))


def without_needless(chosen: Sequence[Victim], missing: Sequence[int]) -> list[Victim]:
    """Leave out victims that turned out not to be needed, the last chosen first; `missing` is 0 or less."""
    kept, spare = list[Victim](), [-amount for amount in missing]
    for resident, count in reversed(chosen):
        stay = min([count, *(left // need for left, need in zip(spare, resident.need, strict=True) if need)])
        add(spare, resident.need, -stay)
        if stay < count:
            kept.append(Victim(resident, count - stay))
    return kept[::-1]


def add(amounts: list[int], need: Resources, count: int) -> None:
    """Add the need of `count` tasks to amounts."""
    for d, amount in enumerate(need):
        amounts[d] += amount * count

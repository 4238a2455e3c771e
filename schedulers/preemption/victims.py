"""Victims on one machine, the least important first and no more than needed; evictions without an outcome."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from omega.cellstate.fairness import leaf_of
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Resident
from omega.cellstate.transaction import Claim
from omega.schedulers.fairshare.standings import Path
from omega.schedulers.work import Work


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


def leaf_of_work(work: Work) -> str:
    """Return the leaf pool of a job."""
    return leaf_of(work.pool, work.user)


def unit_of(work: Work, need: Resources) -> Sequence[float]:
    """Return the least unit that a job wants next: a task, or all of a gang."""
    if not work.gang:
        return need
    groups = [(work.need(group), left) for group, left in enumerate(work.left)]
    return [float(sum(amounts[d] * left for amounts, left in groups)) for d in range(len(need))]


class UnsettledEvictions(NamedTuple):
    """Evictions with an unknown outcome.

    `lost`: amounts by leaf pool; `gone`: number of tasks by placement; `freed`: amounts by machine; `victims` by
    placement; `gaining`: the pools that gain.
    """

    lost: Sequence[tuple[str, Resources]]
    gone: dict[int, int]
    freed: Sequence[tuple[int, Resources]]
    victims: dict[int, Resident]
    gaining: Path = ()


@dataclass(slots=True)
class EvictionsInFlight:
    """The evictions with an unknown outcome, by the evicting job."""

    of: dict[str, UnsettledEvictions] = field(default_factory=dict)

    def leaving(self, job: str, size: int) -> Resources:
        """Return the amounts that a job loses by them, of so many resources."""
        gone = [0] * size
        for evictions in self.of.values():
            for placement, count in evictions.gone.items():
                victim = evictions.victims[placement]
                if victim.job == job:
                    add(gone, victim.need, victim.together or count)
        return tuple(gone)

    def gone(self) -> dict[int, int]:
        """Return the number of tasks in them, by placement."""
        tasks: dict[int, int] = {}
        for evictions in self.of.values():
            for placement, count in evictions.gone.items():
                tasks[placement] = tasks.get(placement, 0) + count
        return tasks

    def gaining(self) -> set[str]:
        """The pools that they are for."""
        return {name for evictions in self.of.values() for name in evictions.gaining}

    def freed(self, machine: int) -> list[Resources]:
        """Return the amounts that they free on a machine."""
        return [amounts for evictions in self.of.values() for at, amounts in evictions.freed if at == machine]


@dataclass(slots=True)
class EvictedAmounts:
    """Amounts that the pools of victims held before a set, and the evicted units (tasks, strict gangs)."""

    held: dict[str, Resources] = field(default_factory=dict)
    units: dict[str, list[Resources]] = field(default_factory=dict)


def within_shares(runs: Iterable[Resident], due: Callable[[Resident], float | None], part: float) -> set[int]:
    """Return the placements of the oldest runs of each job, as many tasks as are `due` to it.

    Of a job with an unknown share none are. `part`: the part of the machines on which the runs are.
    """
    within, older = set[int](), dict[str, float]()
    for run in sorted(runs, key=lambda each: each.placement):
        if run.job not in older:
            tasks = due(run)
            older[run.job] = 0.0 if tasks is None else -tasks * part
        if older[run.job] < 0.0:
            within.add(run.placement)
        older[run.job] += run.tasks
    return within


def is_worth(cost: float, gone: Sequence[Resources], taken: Resources, totals: Resources) -> bool:
    """Return whether a set starts at least `cost` × the evicted amounts, each by its largest part of a resource."""
    lost = tuple(sum(unit[d] for unit in gone) for d in range(len(taken)))
    evicted, started = (
        max((amount / total for amount, total in zip(each, totals, strict=True) if total), default=0.0)
        for each in (lost, taken)
    )
    return cost * evicted <= started * (1.0 + 1e-9)


def with_victims(
    claims: Sequence[Claim], victims: Mapping[int, Sequence[tuple[int, int]]], of: Mapping[int, Resident],
    room: Mapping[int, list[int]], work: Work,
) -> list[Claim]:  # fmt: skip
    """Name the victims of each claim: of those that go on its machine, the first that make its room.

    `victims` are placements and numbers of tasks by machine; `room` is what is free there after all claims.
    """
    left = {machine: list(chosen) for machine, chosen in victims.items()}
    for claim in claims:
        if claim.machine in left:
            add(room[claim.machine], work.need(claim.group), claim.count)
    complete = []
    for claim in claims:
        if claim.machine in left:
            here = room[claim.machine]
            add(here, work.need(claim.group), -claim.count)
            claim = claim._replace(evict=_taken_from(left[claim.machine], of, here))  # noqa: PLW2901
        complete.append(claim)
    return complete


def _taken_from(
    victims: list[tuple[int, int]], of: Mapping[int, Resident], room: list[int]
) -> tuple[tuple[int, int], ...]:
    """Take out the first victims that bring the room of a machine to 0 or more."""
    taken: list[tuple[int, int]] = []
    for at, (placement, count) in enumerate(list(victims)):
        need = of[placement].need
        useful = [ceil(-free / amount) for free, amount in zip(room, need, strict=True) if free < 0 and amount]
        number = min(count, max(useful, default=0))
        victims[at] = placement, count - number
        if number:
            taken.append((placement, number))
            add(room, need, number)
    return tuple(taken)

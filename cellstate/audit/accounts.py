"""Accounts of machines, jobs, placements and needs, which a replay of the log keeps."""

from dataclasses import dataclass
from fractions import Fraction

from cellstate import ranges

Amounts = tuple[Fraction, ...]


@dataclass(slots=True)
class MachineBook:
    """A machine after its last fact; None where the remaining log does not say."""

    number: int | None = None
    version: int = 0
    block: int = 0
    amounts: tuple[int, ...] | None = None
    capacity: tuple[int, ...] | None = None
    state: int | None = None
    over: bool | None = False
    """Whether it may hold more than it has: it came back smaller and was not repaired since."""
    peak: tuple[int, ...] | None = None
    """The largest amounts after a placement while the capacity was not known."""


@dataclass(slots=True)
class JobBook:
    """Counts of a job by its facts: absolute when its submission is in the log, otherwise relative."""

    known: bool = False
    precedence: int = 0
    open: bool = True
    """Whether tasks that are put back wait again; not once the job was stopped."""
    unplaced: int = 0
    placed: int = 0
    finished: int = 0
    failed: int = 0
    stopped: int = 0
    least: int | None = None
    """The fewest and the most tasks left unplaced after a transaction that placed some."""
    most: int | None = None
    broken: int | None = None
    """The most tasks left placed after a transaction that evicted some."""


@dataclass(slots=True)
class PlacementBook:
    """What of a placement runs and what leaves. `gone`: what ended of one placed before the log begins."""

    owner: tuple[str, str, str]
    """Machine, job, group."""
    tasks: str | None
    leaving: str = ranges.EMPTY
    gone: str = ranges.EMPTY


class Needs:
    """What a task of each group takes, as far as the amounts of machines in the log show it.

    A fact of a transaction gives the amounts after the whole transaction, so a version shows the need of a group only
    on a machine where it alone changed. All tasks of a group need the same.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self._known: dict[tuple[str, str], Amounts] = {}
        self._open: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[tuple[str, str], int]]] = {}
        """Per machine: amounts before and after this version; by job and group the tasks placed less those ended."""

    def changed(
        self, machine: str, before: tuple[int, ...] | None, after: tuple[int, ...], owner: tuple[str, str], tasks: int
    ) -> None:
        """Tasks were placed on a machine, or (negative) ended there."""
        if before is not None:
            first, _, counts = self._open.get(machine, (before, after, {}))
            counts[owner] = counts.get(owner, 0) + tasks
            self._open[machine] = first, after, counts

    def close(self) -> None:
        """The version is over."""
        for before, after, counts in self._open.values():
            (owner, tasks), *others = counts.items()
            if tasks and not others:
                pairs = zip(before, after, strict=True)
                self._known[owner] = tuple(Fraction(now - was, tasks) for was, now in pairs)
        self._open.clear()

    def of(self, job: str, group: str, tasks: int) -> Amounts | None:
        """What so many tasks take together; None when the log does not show it."""
        need = self._known.get((job, group))
        return None if need is None else tuple(amount * tasks for amount in need)


def exceeds(amounts: tuple[int, ...], capacity: tuple[int, ...]) -> bool:
    """Return whether any amount is above the capacity."""
    return any(amount > most for amount, most in zip(amounts, capacity, strict=True))


def canonical(text: str) -> str:
    """Return the same set with pieces ascending and joined where they touch; callers may end ``1,2,3``."""
    return ranges.add(ranges.EMPTY, text)

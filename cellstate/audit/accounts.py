"""Accounts of machines, jobs, placements and needs, which a replay of the log keeps."""

from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction

from omega.cellstate import ranges
from omega.cellstate.model import GroupStatus

Amounts = tuple[Fraction, ...]
Need = tuple[int | Fraction, ...]
"""What tasks take; fractions where the log shows only what several of them took together."""
NONE: frozenset[int] = frozenset()
"""An empty set of one object, because a cell has many jobs."""


@dataclass(slots=True, kw_only=True)
class MachineBook:
    """A machine after its last fact; None where the remaining log has no information."""

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
    awaited: list[tuple[int, ...]] = field(default_factory=list)
    """Amounts by evictions of a transaction, which state what the whole transaction leaves."""

    def rise(self, version: int, block: int) -> None:
        """Count a placement: its number rises once in a transaction, which is a block of facts."""
        if self.number is not None and (self.version, self.block) != (version, block):
            self.number += 1
        self.version, self.block = version, block

    def hold(self, amounts: tuple[int, ...] | None) -> None:
        """Note what it holds after a fact."""
        self.amounts = amounts
        if self.awaited:
            self.awaited = [each for each in self.awaited if amounts is not None and each != amounts]
        if amounts is not None and self.over is not False and self.capacity is not None:
            self.over = exceeds(amounts, self.capacity)


@dataclass(slots=True, kw_only=True)
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
    fewest: int | None = None
    """The fewest tasks placed after a transaction that placed some and left others unplaced."""
    torn: frozenset[int] = NONE
    """Tasks left placed after each transaction that evicted some."""

    def take_back(self, how: str, count: int) -> None:
        """Take back what the fact before counted of tasks that ended in this way."""
        if how == "finished":
            self.finished -= count
        elif how == "failed":
            self.failed -= count
        elif how == "stopped" or not self.open:
            self.stopped -= count
        else:
            self.unplaced -= count


def counts_of(counted: JobBook | GroupStatus) -> tuple[int, ...]:
    """Return the tasks of a job or of a group that are unplaced, placed, finished, failed and stopped."""
    return counted.unplaced, counted.placed, counted.finished, counted.failed, counted.stopped


@dataclass(slots=True)
class PlacementBook:
    """What of a placement runs and what leaves. `gone`: what ended of one placed before the log begins."""

    owner: tuple[str, str, str]
    """Machine, job, group."""
    tasks: str | None
    leaving: str = ranges.EMPTY
    gone: str = ranges.EMPTY
    _: KW_ONLY
    placed: str | None = None
    """All its tasks; None of one placed before the log begins."""


class Needs:
    """What a task of each group takes: placements state it; ends show it where the amounts before are known."""

    def __init__(self) -> None:
        """Nothing is known."""
        self.known: dict[str, dict[str, Need]] = {}

    def forget(self, job: str) -> None:
        """Forget a job whose id is submitted again: the job of that id before was deleted."""
        self.known.pop(job, None)

    def state(self, job: str, group: str, need: Need) -> bool:
        """Note what a task takes; return whether it is what was known."""
        return self.known.setdefault(job, {}).setdefault(group, need) == need

    def learn(self, job: str, group: str, before: tuple[int, ...], after: tuple[int, ...], tasks: int) -> None:
        """Note what a task takes, as the end of some showed."""
        changes = [was - now for was, now in zip(before, after, strict=True)]
        whole = all(change % tasks == 0 for change in changes)  # whole numbers count five times as fast
        each = tuple(change // tasks if whole else Fraction(change, tasks) for change in changes)
        self.known.setdefault(job, {}).setdefault(group, each)

    def of(self, job: str, group: str, tasks: int) -> Need | None:
        """What so many tasks take together; None when the log does not show it."""
        need = self.known.get(job, {}).get(group)
        return None if need is None else tuple(amount * tasks for amount in need)


def exact(need: Need | None) -> Amounts | None:
    """Return a need for divisions."""
    return None if need is None else tuple(map(Fraction, need))


def changed_by(amounts: tuple[int, ...] | None, need: Need | None, sign: int) -> tuple[int, ...] | None:
    """Return amounts with a need added or, by the sign, taken off; None when one of them is not known."""
    if amounts is None or need is None:
        return None
    return tuple(int(amount + sign * each) for amount, each in zip(amounts, need, strict=True))


def exceeds(amounts: tuple[int, ...], capacity: tuple[int, ...]) -> bool:
    """Return whether any amount is above the capacity."""
    return any(amount > most for amount, most in zip(amounts, capacity, strict=True))


def canonical(text: str) -> str:
    """Return the same set with pieces ascending and joined where they touch; callers may end ``1,2,3``."""
    return ranges.add(ranges.EMPTY, text)

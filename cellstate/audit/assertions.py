"""Evictions between pools, checked from the log: the assertion of each transaction held at its commit (rule 33).

A fact ``assert JOB POOL…`` precedes the evictions of a transaction; the first pool is the evictor's, the others are its
victims'. A pool is "leaves;before;after;share", amounts by resource. Floors of jobs follow, "=JOB;before;after;least":
the job keeps at least that of one resource, or of all ("+JOB"); a "-" stands for no amount. The evictor may be a job.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from omega.cellstate.audit.accounts import Amounts


@dataclass(slots=True)
class AssertedPool:
    """A pool of one assertion."""

    leaves: str
    before: Amounts
    after: Amounts
    share: Amounts

    @property
    def exchanged(self) -> Amounts:
        """Amounts that change hands, by resource."""
        return tuple(abs(now - was) for now, was in zip(self.after, self.before, strict=True))

    def reaches(self, amounts: Amounts) -> bool:
        """Return whether amounts reach the pool's share in a resource that changes hands."""
        return any(more and has >= part for has, part, more in zip(amounts, self.share, self.exchanged, strict=True))

    def exceeds(self, amounts: Amounts) -> bool:
        """Return whether amounts exceed the pool's share in a resource that changes hands."""
        return any(more and has > part for has, part, more in zip(amounts, self.share, self.exchanged, strict=True))


@dataclass(slots=True)
class AssertedFloor:
    """A job of one assertion that loses tasks, and what it keeps at least; None: no amount of the resource suffices."""

    job: str
    before: Amounts
    after: Amounts
    least: tuple[Fraction | None, ...]
    every: bool

    def holds(self) -> bool:
        """Return whether the job keeps its floor."""
        kept = [most is not None and now >= most for now, most in zip(self.after, self.least, strict=True)]
        return all(kept) if self.every else any(kept)


@dataclass(slots=True)
class AssertedSet:
    """One transaction with an assertion: its pools, and the evictions by victim from the facts that follow."""

    job: str
    pools: list[AssertedPool]
    floors: list[AssertedFloor] = field(default_factory=list)
    units: dict[str, Amounts] = field(default_factory=dict)
    """The largest evicted task of each job, by resource."""
    sums: dict[str, Amounts] = field(default_factory=dict)
    known: bool = True
    """Whether the log has the amounts of every evicted task."""

    def evicted(self, victim: str, tasks: int, freed: Amounts | None) -> None:
        """Enter tasks that were evicted together; `freed` None: not known."""
        if freed is None or not tasks:
            self.known = False
            return
        size = len(freed)
        unit = tuple(amount / tasks for amount in freed)
        most, total = self.units.get(victim, (Fraction(0),) * size), self.sums.get(victim, (Fraction(0),) * size)
        self.units[victim] = tuple(map(max, most, unit))
        self.sums[victim] = tuple(was + amount for was, amount in zip(total, freed, strict=True))

    def problems(self, emptied: Collection[str]) -> Iterator[str]:
        """Yield contradictions to the thresholds. `emptied`: victims without placed tasks afterwards."""
        evictor, victims = self.pools[0], self.pools[1:]
        if evictor.reaches(evictor.before):
            yield f"its pool ({evictor.leaves}) did not stand below its share before it evicted"
        for victim in victims:
            if any(now > was for now, was in zip(victim.after, victim.before, strict=True)):
                yield f"the pool of a victim ({victim.leaves}) holds more afterwards"
            if not any(victim.exchanged):
                continue
            if self.known and not self._keeps(victim, emptied):
                yield f"the pool of a victim ({victim.leaves}) ends a unit or more below its share"
        for floor in self.floors:
            if not floor.holds():
                yield f"job {floor.job} lost tasks that its floor keeps"
            lost = tuple(was - now for was, now in zip(floor.before, floor.after, strict=True))
            if self.known and self.sums.get(floor.job, lost) != lost:
                yield f"job {floor.job} lost other amounts than were counted for its floor"
        if self.known and self.sums:
            freed = [sum(each[d] for each in self.sums.values()) for d in range(len(evictor.share))]
            gone = [sum(victim.exchanged[d] for victim in victims) for d in range(len(evictor.share))]
            # Evictions within the evictor's own pool are in no victim's threshold.
            if any(less > more for less, more in zip(gone, freed, strict=True)):
                yield "the pools of its victims lost more than was evicted"

    def _keeps(self, victim: AssertedPool, emptied: Collection[str]) -> bool:
        """Return whether one more unit would have put the pool above its share; a whole evicted job may be a gang."""
        units = [*self.units.values(), *(each for job, each in self.sums.items() if job in emptied)]
        return any(
            victim.exceeds(tuple(now + amount for now, amount in zip(victim.after, unit, strict=True)))
            for unit in units
        )


def read(words: tuple[str, ...]) -> AssertedSet:
    """Read a fact. Raises ValueError for an invalid one."""
    _, job, *texts = words
    asserted = AssertedSet(job, [])
    for text in texts:
        name, before, after, share = text.split(";")
        if asserted.pools and name[:1] in ("=", "+"):
            least = tuple(None if word == "-" else Fraction(float(word)) for word in share.split(","))
            asserted.floors.append(AssertedFloor(name[1:], _amounts(before), _amounts(after), least, name[0] == "+"))
        else:
            asserted.pools.append(AssertedPool(name, _amounts(before), _amounts(after), _amounts(share)))
    sizes = {len(each) for pool in asserted.pools for each in (pool.before, pool.after, pool.share)}
    sizes |= {len(each) for floor in asserted.floors for each in (floor.before, floor.after, floor.least)}
    if len(sizes) != 1:
        raise ValueError(" ".join(words))
    return asserted


def _amounts(text: str) -> Amounts:
    return tuple(Fraction(float(word)) for word in text.split(","))


class Assertions:
    """The transactions with assertions of a log, one at a time; `say(what, where)` reports a violation."""

    def __init__(self, say: Callable[[str, str], None], emptied: Callable[[str], bool]) -> None:
        """Create; `emptied` returns whether a job may have no placed tasks any more."""
        self._say, self._emptied = say, emptied
        self._open: AssertedSet | None = None

    def begin(self, words: tuple[str, ...]) -> None:
        """Begin a transaction with an assertion."""
        self.close()
        self._open = read(words)

    def evicted(self, placement: str, victim: str, evictor: str, tasks: int, freed: Amounts | None) -> None:
        """Tasks were evicted for the share of another job's pool."""
        if self._open is None or self._open.job != evictor:
            self._say(f"evicted for the share of {evictor}, which asserted nothing", f"placement {placement}")
        else:
            self._open.evicted(victim, tasks, freed)

    def close(self) -> None:
        """End the transaction."""
        ended, self._open = self._open, None
        if ended is not None:
            for problem in ended.problems({job for job in ended.sums if self._emptied(job)}):
                self._say(problem, f"job {ended.job}")

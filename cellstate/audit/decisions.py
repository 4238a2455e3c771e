"""Evictions between pools, checked on the copy of the cell that they were decided on (rule 33).

The store compares the shares that a transaction states with what pools hold at the commit (`shares` checks that). Here
the same is checked for what the scheduler saw when it decided: the cell at the version `since` that the log has of the
call, with the scheduler's own transactions after it, which were in flight. What a pool held there is what the store
found before the transaction (the fact ``assert``), less what others changed in between. Pools and needs of jobs come
from the cell. Not checked are sets of jobs that are no longer kept, sets that were decided before the log begins, and
what floors of jobs admit: a snapshot does not have what single jobs hold.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from urllib.parse import quote

from omega.cellstate import ranges
from omega.cellstate.audit.register import ENDS, Amounts
from omega.cellstate.model import Gang, Job
from omega.cellstate.replies import Fact
from omega.cellstate.transaction import Verdict

# Evictions between pools, checked from the log: the assertion of each transaction held at its commit (rule 33).
#
# A fact ``assert JOB POOL…`` precedes the evictions of a transaction; the first pool is the evictor's, the others are
# its
# victims'. A pool is "leaves;before;after;share", amounts by resource. Floors of jobs follow,
# "=JOB;before;after;least":
# the job keeps at least that of one resource, or of all ("+JOB"); a "-" stands for no amount. The evictor may be a job.


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


KEPT = 4_096
"""Versions whose changes are kept: a decision on an older version is not checked."""
_CONFLICTS = (str(int(Verdict.MOVED)), str(int(Verdict.FULL)))
Group = tuple[str, int]
"""A job and the number of its group."""


@dataclass(slots=True)
class ChangedTasks:
    """What one version changed: tasks placed less those ended by group, and tasks of a commit that met a conflict."""

    version: int
    by: str
    commits: bool
    changes: Counter[Group] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class StartedTasks:
    """Tasks that one claim started, and those that it evicted, in order."""

    group: int
    started: int
    evicted: list[tuple[Group, int]]


@dataclass(slots=True)
class DecidedSet:
    """The evictions of one transaction, and what happened between its decision and its commit."""

    version: int
    since: int
    job: str
    pools: list[AssertedPool]
    others: Counter[Group]
    """What others changed meanwhile."""
    refused: Counter[str]
    """Tasks of the scheduler's own transactions in flight that were refused in the end: its copy counted them."""
    claims: list[StartedTasks] = field(default_factory=list)
    evicted: list[tuple[Group, int]] = field(default_factory=list)
    """Tasks that are evicted and of no claim yet: those of the next one, in the end the rest of gangs."""


class Decisions:
    """The eviction sets of a log."""

    def __init__(self, start: int) -> None:
        """Begin with the facts of version `start`."""
        self.sets: list[DecidedSet] = []
        self.number = self.checked = 0
        """Sets between pools in the log, and those of them that could be checked on the copy."""
        self._entries: deque[ChangedTasks] = deque(maxlen=KEPT)
        self._open: DecidedSet | None = None
        self._start = start

    def enter(self, fact: Fact) -> None:
        """Enter a fact, in the order of the log. Raises ValueError or IndexError for an invalid one."""
        if not self._entries or self._entries[-1].version != fact.version:
            self._open = None
            self._entries.append(ChangedTasks(fact.version, fact.by, fact.basis is not None))
        entry, words = self._entries[-1], fact.words
        if words[0] == "again":
            self._open = None
        elif words[0] == "assert":
            self._begin(fact, read(words))
        elif words[0] == "place":
            group, count = (words[3], int(words[4])), ranges.count(words[5])
            entry.changes[group] += count
            if self._open is not None and self._open.job == group[0]:
                self._open.claims.append(StartedTasks(group[1], count, self._open.evicted))
                self._open.evicted = []
        elif words[0] in ENDS:
            group, count = (words[3], int(words[4])), ranges.count(words[5])
            entry.changes[group] -= count
            if self._open is not None and words[0] == "evicted" and words[-1] == f"fair-share:{self._open.job}":
                self._open.evicted.append((group, count))
        elif words[0] == "conflict" and words[3] in _CONFLICTS:
            entry.refused[words[1]] += int(words[4])

    def _begin(self, fact: Fact, book: AssertedSet) -> None:
        self._open = None
        if book.floors or book.pools[0].leaves[:1] in ("=", "+"):
            return
        self.number += 1
        first = self._entries[0].version if len(self._entries) == KEPT else self._start
        # A scheduler may know versions that the store lost, in a failover for example.
        since = fact.basis.since if fact.basis else None
        if since is None or not first <= since + 1 <= fact.version:
            return
        self._open = DecidedSet(fact.version, since, book.job, book.pools, Counter(), Counter())
        for entry in reversed(self._entries):
            if entry.version <= since:
                break
            if entry.commits and entry.by == fact.by:
                self._open.refused += entry.refused
            else:
                self._open.others.update(entry.changes)
        self.sets.append(self._open)

    def check(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, str]]:
        """Check the sets whose jobs are all known; yields what is wrong, and the job of the set."""
        self.checked = 0
        for each in self.sets:
            if not _are_known(each, jobs) or _tears_a_minimum(each, jobs):
                continue
            self.checked += 1
            if problem := _DecisionCheck(each, jobs).problem():
                what = (
                    f"on version {each.since}, which its evictions were decided on, {problem} (version {each.version})"
                )
                yield what, f"job {each.job}"


def _are_known(decided: DecidedSet, jobs: Mapping[str, Job]) -> bool:
    evicted = chain(decided.evicted, *(claim.evicted for claim in decided.claims))
    groups = [*(group for group, _ in evicted), *decided.others]
    return all(name in jobs for name in (decided.job, *decided.refused, *(job for job, _ in groups)))


def _tears_a_minimum(decided: DecidedSet, jobs: Mapping[str, Job]) -> bool:
    """Return whether a strict gang with a minimum lost tasks: the log does not show with which its rest went."""
    evicted = chain(decided.evicted, *(claim.evicted for claim in decided.claims))
    return any(jobs[job].gang is Gang.STRICT and jobs[job].gang_min for (job, _), _ in evicted)


def _leaf(job: Job) -> str:
    """Return the leaf pool of a job, as assertions name it."""
    pool, user = (word if isinstance(word := job.spec.get(name), str) else "" for name in ("pool", "user"))
    return quote(pool or user, safe="")


class _PoolUse:
    """A pool on a copy: its leaves, its share, what it holds, and the units that the set at hand takes from it."""

    def __init__(self, book: AssertedPool, held: list[Fraction]) -> None:
        self.leaves, self.share = set(book.leaves.split(",")[:-1]), book.share
        self.held, self.before, self.units = held, tuple(held), list[Amounts]()

    def add(self, amounts: Amounts, sign: int = 1) -> None:
        self.held = [has + sign * amount for has, amount in zip(self.held, amounts, strict=True)]

    def load(self, held: Amounts, passing: Amounts) -> tuple[bool, Fraction]:
        """Return the largest usage ÷ share of what moves; without a share what is held counts, and more than any."""
        pairs = [(has, part) for has, part, more in zip(held, self.share, passing, strict=True) if more > 0 and has > 0]
        bare = [has for has, part in pairs if part <= 0]
        return (True, max(bare)) if bare else (False, max((has / part for has, part in pairs), default=Fraction(0)))

    def close(self) -> None:
        self.before, self.units = tuple(self.held), []


class _DecisionCheck:
    """A set on the copy that it was decided on."""

    def __init__(self, decided: DecidedSet, jobs: Mapping[str, Job]) -> None:
        self.decided, self.jobs = decided, jobs

    def problem(self) -> str:
        """Return what makes the set illegal; "" when it is legal.

        The log does not show which victims of a claim made room for which of its tasks, nor always what refused
        transactions in flight had counted on the copy: the set is illegal when it is so however that was.
        """
        flights = {0, int(bool(self.decided.refused))}
        job = self.jobs[self.decided.job]
        # Beyond the minimum of a gang each claim is a set of its own.
        forms = {job.gang is not Gang.NO, job.whole}
        ways = [
            sets for together in forms for sets in (self._tasks(together=together), self._claims(together=together))
        ]
        problems = [self._problem(sets, flight) for flight in flights for sets in ways]
        return "" if "" in problems else problems[-1]

    def _problem(self, sets: list[list[StartedTasks]], flight: int) -> str:
        stocks = [_PoolUse(book, list(book.before)) for book in self.decided.pools]
        self._rewind(stocks, flight)
        gone = set[str]()
        for steps in sets:
            for claim in steps:
                self._count(claim, stocks, gone)
            if problem := _problem_of(stocks[0], stocks[1:]):
                return problem
            for stock in stocks:
                stock.close()
        return ""

    def _rewind(self, stocks: list[_PoolUse], flight: int) -> None:
        """Bring pools back to the copy; `flight`: how often refused transactions in flight count."""
        for (name, group), count in self.decided.others.items():
            self._add(stocks, name, self._need(name, group, count), -1)
        for name, count in self.decided.refused.items():
            self._add(stocks, name, self._need(name, 0, count), flight)
        for stock in stocks:
            stock.close()

    def _claims(self, *, together: bool) -> list[list[StartedTasks]]:
        """Return the sets: each claim, or all claims together."""
        decided = self.decided
        claims = [StartedTasks(claim.group, claim.started, list(claim.evicted)) for claim in decided.claims]
        if claims:
            claims[-1].evicted += decided.evicted
        return [claims] if together else [[claim] for claim in claims]

    def _tasks(self, *, together: bool) -> list[list[StartedTasks]]:
        """Return the sets with claims divided into tasks, where each task has as many victims."""
        divided = list[list[StartedTasks]]()
        for steps in self._claims(together=together):
            claim, units = steps[0], [group for group, count in steps[0].evicted for _ in range(count)]
            if len(steps) > 1 or not claim.started or len(units) % claim.started:
                divided.append(steps)
                continue
            size = len(units) // claim.started
            for at in range(claim.started):
                victims = [(group, 1) for group in units[at * size : (at + 1) * size]]
                divided.append([StartedTasks(claim.group, 1, victims)])
        return divided

    def _count(self, claim: StartedTasks, stocks: list[_PoolUse], gone: set[str]) -> None:
        stocks[0].add(self._need(self.decided.job, claim.group, claim.started))
        for (name, group), count in claim.evicted:
            units = [self._need(name, group, 1)] * count
            if self.jobs[name].gang is Gang.STRICT:
                units = [] if name in gone else [self._whole(name)]
                gone.add(name)
            for unit in units:
                self._add(stocks, name, unit, -1)
                for stock in stocks[1:]:
                    if _leaf(self.jobs[name]) in stock.leaves:
                        stock.units.append(unit)

    def _whole(self, name: str) -> Amounts:
        """Return what all tasks of a strict gang that go in this transaction hold together."""
        tasks = Counter[int]()
        for (job, group), count in chain(self.decided.evicted, *(claim.evicted for claim in self.decided.claims)):
            tasks[group] += count if job == name else 0
        each = [self._need(name, group, count) for group, count in tasks.items()]
        return tuple(sum(amounts, Fraction(0)) for amounts in zip(*each, strict=True))

    def _add(self, stocks: list[_PoolUse], name: str, amounts: Amounts, sign: int) -> None:
        for stock in stocks:
            if _leaf(self.jobs[name]) in stock.leaves:
                stock.add(amounts, sign)

    def _need(self, name: str, group: int, count: int) -> Amounts:
        return tuple(Fraction(amount * count) for amount in self.jobs[name].groups[group].need)


def _problem_of(evictor: _PoolUse, victims: list[_PoolUse]) -> str:
    """Return why one set is illegal; "" when it is legal."""
    taken = tuple(now - was for now, was in zip(evictor.held, evictor.before, strict=True))
    if any(more > 0 and has >= part for more, has, part in zip(taken, evictor.before, evictor.share, strict=True)):
        return "its pool did not stand below its share"
    for victim in victims:
        if not victim.units:
            continue
        if not any(
            amount > 0 and has + amount > part
            for unit in victim.units
            for amount, has, part in zip(unit, victim.held, victim.share, strict=True)
        ):
            return "the pool of a victim ended a unit or more below its share"
        exchanged = tuple(was - now for was, now in zip(victim.before, victim.held, strict=True))
        before = max(evictor.load(evictor.before, taken), victim.load(victim.before, exchanged))
        after = max(evictor.load(tuple(evictor.held), taken), victim.load(tuple(victim.held), exchanged))
        if not after < before:
            return "the larger usage ÷ share of its pool and a victim's did not become smaller"
    return ""

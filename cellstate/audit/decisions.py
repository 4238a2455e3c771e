"""Evictions between pools, checked on the copy of the cell that they were decided on (rule 33).

The store compares the shares that a transaction states with what pools hold at the commit (`shares` checks that). Here
the same is checked for what the scheduler saw when it decided: the cell at the version `since` that the log has of the
call, with the scheduler's own transactions after it, which were in flight. What a pool held there is what the store
found before the transaction (the fact ``assert``), less what others changed in between. Pools and needs of jobs come
from the cell. Not checked are sets of jobs that are no longer kept, sets that were decided before the log begins, and
what floors of jobs admit: a snapshot does not have what single jobs hold.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from urllib.parse import quote

from omega.cellstate import ranges
from omega.cellstate.audit.accounts import Amounts
from omega.cellstate.audit.assertions import AssertedPool, AssertedSet, read
from omega.cellstate.audit.losses import ENDS
from omega.cellstate.events import Fact
from omega.cellstate.model import Gang, Job
from omega.cellstate.transaction import Verdict

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
        entry, words = self._entries[-1], fact.event
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

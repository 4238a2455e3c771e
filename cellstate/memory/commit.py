"""Validation of transactions in memory: ``lua/commit.lua`` and ``parts/shares.lua``."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat, zip_longest
from math import isinf
from typing import TypeAlias
from urllib.parse import quote

from omega.cellstate import rules
from omega.cellstate.errors import Fenced
from omega.cellstate.executors import simulates
from omega.cellstate.fairness import Assertion, Floor, PoolLoss, Threshold, is_below, is_legal
from omega.cellstate.memory.pools import admitted, chain_of, is_bounded, tree_of
from omega.cellstate.memory.state import Block, Book, GroupRow, JobRow, MachineRow, State, job_of
from omega.cellstate.memory.tasks import (
    book,
    evict_gangs,
    occupy,
    place,
    place_block,
    place_whole,
    publish,
    take_off,
)
from omega.cellstate.model import Gang, JobState, MachineState, bucket_of
from omega.cellstate.ranges import NONE, span_count, span_split, span_tail, span_take
from omega.cellstate.replies import CommitRequest, PendingJob, Reply
from omega.cellstate.resources import LARGEST, Resources
from omega.cellstate.tasks import EndKind
from omega.cellstate.transaction import (
    Basis,
    Claim,
    ClaimColumns,
    Detection,
    Intake,
    Mode,
    Outcome,
    Placed,
    Position,
    Transaction,
    Verdict,
    all_placed,
    forms_of,
    placed_runs,
)

Unit: TypeAlias = tuple[int, GroupRow]
"""A single task that may be evicted: its placement and group."""
NOTED = frozenset({Verdict.PLACED, Verdict.MOVED, Verdict.FULL, Verdict.ABORTED})
"""Verdicts of which the log names the claims."""
_ACTIVE, _GANG, _COARSE, _PLACED = JobState.ACTIVE, Mode.GANG, Detection.COARSE, Verdict.PLACED
"""Members that are compared for each transaction; reading one from its class costs as much as a call."""


class Validation:
    """A transaction during its validation.

    Per group the tasks claimed, per placement and per job those evicted, per book the jobs that lose all tasks; per
    claim the tasks placed, the verdict and the victims.
    """

    __slots__ = ("claimed", "claims", "coarse", "evicted", "gang", "gone", "id", "incomplete", "job", "placed",
                 "placing", "stocks", "taken", "tree", "vacated", "verdicts")  # fmt: skip

    def __init__(self, c: State, transaction: Transaction, job: JobRow | None) -> None:
        """Start the validation."""
        asserted = transaction.assertion
        self.id, self.claims, self.job = transaction.job, transaction.claims, job
        self.gang, self.coarse = transaction.mode == _GANG, transaction.detection == _COARSE
        self.claimed: dict[int, int] = {}
        self.evicted: dict[int, int] = {}
        self.gone: dict[str, int] = {}
        self.vacated: dict[Book, int] = {}
        self.placed: list[int] = []
        self.verdicts: list[Verdict] = []
        self.taken: list[list[Unit]] = []
        self.stocks = Stocks(asserted, c, job) if job is not None and asserted is not None else None
        self.tree = None if job is None else tree_of(c, job)
        self.incomplete = job is not None and job.gang > 0 and not self.covers(job)
        self.placing = False

    def covers(self, j: JobRow) -> bool:
        """Return whether the claims cover all unplaced required tasks of a gang job as a gang (semantics 8).

        Of a gang with a minimum they must cover as many as that lacks.
        """
        sums: dict[int, int] = {}
        for claim in self.claims:
            sums[claim.group] = sums.get(claim.group, 0) + claim.count
        if j.gang_min:
            lacks = rules.lacks(j.gang_min, j.placed, j.unplaced + j.delayed)
            return not lacks or (self.gang and sum(sums.values()) >= lacks)
        return self.gang and not j.delayed and all(g.optional or sums.get(g.number, 0) >= g.unplaced for g in j.groups)


# Victims, limits and room of one claim


def _victims_of(c: State, t: Validation, j: JobRow, claim: Claim, m: MachineRow) -> list[Unit] | Verdict:
    """Return single tasks that may be evicted for a claim, in the given order, without those already gone.

    Returns a verdict when one of them is not of strictly lower precedence, and no assertion covers its pool or job:
    ``share`` if pools refuse any of them, whatever their order. Optional tasks have precedence 0, unless a strict gang
    goes with them.
    """
    units: list[Unit] = []
    if not claim.evict:
        return units
    if j.groups[claim.group].copies:
        return Verdict.PRECEDENCE  # a copy evicts nothing
    refused, listed = set[Verdict](), dict[int, int]()
    for placement, wanted in claim.evict:
        run = m.runs.get(placement) if placement > 0 else None
        if run:
            g, tasks = run
            lowly = g.optional and g.job.gang is not Gang.STRICT
            if (verdict := _refusal(c, t, j, g.job, 0 if lowly else g.job.precedence)) is not None:
                refused.add(verdict)
            n = min(wanted, span_count(tasks) - t.evicted.get(placement, 0) - listed.get(placement, 0))
            listed[placement] = listed.get(placement, 0) + n
            units += [(placement, g)] * n
    if refused:
        return Verdict.SHARE if Verdict.SHARE in refused else Verdict.PRECEDENCE
    return units


def _refusal(c: State, t: Validation, j: JobRow, victim: JobRow, rank: int) -> Verdict | None:
    """Return the verdict that refuses a victim, by pools and precedence (`rank`)."""
    if t.stocks is not None and t.stocks.covers(victim, rank):
        return None
    least = c.pool_settings.operators_from  # in the operators' band precedence decides across pools
    if c.pools_state and victim.lane.leaf != j.lane.leaf and not (least is not None and j.precedence >= least):
        return Verdict.SHARE
    return None if rank < j.precedence else Verdict.PRECEDENCE


def _admitted(c: State, t: Validation, j: JobRow, g: GroupRow) -> int:
    return admitted(c, j, g, t.vacated, fresh=j.placed == 0 and not t.placing)


def _evict(c: State, t: Validation, m: MachineRow, units: Sequence[Unit], sign: int) -> None:
    """Free the room of these tasks, or (-1) take it again."""
    for placement, g in units:
        job = g.job
        occupy(m, g, -sign)
        book(c, g, -sign)
        t.evicted[placement] = t.evicted.get(placement, 0) + sign
        before = t.gone.get(job.id, 0)
        t.gone[job.id] = before + sign
        if max(before, before + sign) == job.placed:
            for each in (job.kind, *chain_of(c, job)):
                t.vacated[each] = t.vacated.get(each, 0) + sign


def _fit(
    c: State, t: Validation, j: JobRow, m: MachineRow, g: GroupRow, want: int, units: list[Unit]
) -> tuple[int, Verdict]:
    """Place as many of `want` as fit, evicting one task after another and only while that helps.

    A task that does not fit in the end evicts nothing (semantics 7). Returns the number and the verdict of the
    others.
    """
    n = taken = tried = 0
    verdict = _PLACED
    while True:
        fits, limit = rules.fits(m.room, g.amounts, want), _admitted(c, t, j, g)
        possible = min(fits, limit)
        if possible > n:
            n, taken = possible, tried
        if n >= want:
            break
        verdict = Verdict.LIMIT if limit <= n else Verdict.FULL
        if tried == len(units) or (limit <= n and fits > n):
            break
        tried += 1
        _evict(c, t, m, units[tried - 1 : tried], 1)
    _evict(c, t, m, units[taken:tried], -1)
    t.taken[-1] = units[:taken]
    return n, _PLACED if n >= want else verdict


def _fit_by_share(
    c: State, t: Validation, j: JobRow, m: MachineRow, g: GroupRow, want: int, units: list[Unit], stocks: "Stocks"
) -> tuple[int, Verdict]:
    """As `_fit`, task by task: each with the victims that it needs, while that is legal between pools (rule 33).

    The claims of a gang are one set, which is validated when all of them fit.
    """
    n, taken, verdict = 0, 0, _PLACED
    while n < want and verdict is _PLACED:
        tried = taken
        while True:
            fits, limit = rules.fits(m.room, g.amounts), _admitted(c, t, j, g)
            if limit > n and not stocks.below(g):
                verdict = Verdict.SHARE
            if (fits > n and limit > n) or verdict is Verdict.SHARE:
                break
            if tried == len(units) or (limit <= n and fits > n):
                verdict = Verdict.LIMIT if limit <= n else Verdict.FULL
                break
            tried += 1
            _evict(c, t, m, units[tried - 1 : tried], 1)
        if verdict is _PLACED:
            undo = stocks.count(g, [group for _, group in units[taken:tried]])
            if not t.gang and not stocks.legal():
                undo()
                verdict = Verdict.SHARE
        if verdict is not _PLACED:
            _evict(c, t, m, units[taken:tried], -1)
            break
        n, taken = n + 1, tried
        if not t.gang:
            stocks.close()
    t.taken[-1] = units[:taken]
    return n, verdict


def _apart(g: GroupRow, m: MachineRow, claimed: int, count: int) -> int:
    """Return how many of the next copies of a group come before the first whose original is on this machine."""
    following = span_take(span_take(g.waiting, claimed)[1], count)[0]
    for loss in g.losses:
        if loss.retried.machine == m.index and span_split(following, loss.tasks)[0]:
            following = span_split(following, (0, loss.tasks[0] - 1))[0] if loss.tasks[0] else NONE
    return span_count(following)


def _validate(c: State, t: Validation, claim: Claim) -> tuple[int, Verdict]:
    """Validate one claim against the working state. Returns the number of accepted tasks and the others' verdict.

    A run of identical tasks shares the verdict of the first that failed.
    """
    j, m = t.job, c.M.get(claim.machine)
    g = j.groups[claim.group] if j and 0 <= claim.group < len(j.groups) else None
    lives = j is not None and j.state is _ACTIVE and m is not None and m.state is not MachineState.GONE
    if j is None or g is None or m is None or claim.count < 0 or not lives:
        return 0, Verdict.UNKNOWN
    takes = m.state is MachineState.UP and not (j.commands and simulates(m.executor))
    if not takes or m.free & c.guards != c.guards:  # without its guard an amount is over the capacity
        return 0, Verdict.DOWN
    claimed = t.claimed.get(claim.group, 0)
    left = g.unplaced - claimed
    if left <= 0:
        return 0, Verdict.DUPLICATE
    if t.incomplete:
        return 0, Verdict.INCOMPLETE
    if t.tree is not None and m.tree != t.tree:
        return 0, Verdict.LIMIT if _admitted(c, t, j, g) <= 0 else Verdict.TREE
    units = _victims_of(c, t, j, claim, m)
    if t.stocks is not None and not t.stocks.below(g):
        units = Verdict.SHARE
    # Own earlier transactions of this call are no interference: only changes by others count as a move.
    moved = t.coarse and (c.diverged or claim.seen != (m.number if m.stamp < c.base else m.before))
    if isinstance(units, Verdict) or moved:
        if _admitted(c, t, j, g) <= 0:
            return 0, Verdict.LIMIT
        return 0, units if isinstance(units, Verdict) else Verdict.MOVED
    want = min(claim.count, left)
    rest = Verdict.DUPLICATE
    if g.copies and (before := _apart(g, m, claimed, want)) < want:
        if not before:
            return 0, Verdict.FULL
        want, rest = before, Verdict.FULL
    if t.stocks is not None:
        n, verdict = _fit_by_share(c, t, j, m, g, want, units, t.stocks)
    else:
        n, verdict = _fit(c, t, j, m, g, want, units)
    if n > 0:
        occupy(m, g, n)
        book(c, g, n)
        t.claimed[claim.group] = claimed + n
        t.placing = True
    if verdict is _PLACED and claim.count > want:
        verdict = rest
    return n, verdict


# A transaction


def _abort(c: State, t: Validation) -> None:
    """Abort a failed gang: its accepted claims are undone in the working state."""
    for i, (claim, n, units) in enumerate(zip(t.claims, t.placed, t.taken, strict=True)):
        if n > 0 and t.job is not None:
            m, g = c.M[claim.machine], t.job.groups[claim.group]
            occupy(m, g, -n)
            book(c, g, -n)
            _evict(c, t, m, units, -1)
        t.placed[i] = 0
        if t.verdicts[i] is _PLACED:
            t.verdicts[i] = Verdict.ABORTED


def _apply(c: State, t: Validation, j: JobRow) -> None:
    """Write the accepted claims; the victims of a claim are the last tasks of their runs."""
    c.transaction = stamp = c.stamp
    if _is_block(c, t, j):
        accepted = [(claim.machine, n) for claim, n in zip(t.claims, t.placed, strict=True) if n]
        for machine, _ in accepted:
            c.touch(c.M[machine], stamp)
        machines, counts = map(list, zip(*accepted, strict=True))
        place_block(c, j.groups[t.claims[0].group], machines, counts if max(counts) > 1 else None, alone=False)
        c.touch_job(j)
        return
    c.unfold()
    reason = f"precedence:{t.id}" if t.stocks is None else f"fair-share:{t.id}"
    if t.stocks is not None and any(t.taken):
        c.fact(*t.stocks.fact(t.id))
    for claim, n, units in zip(t.claims, t.placed, t.taken, strict=True):
        if n > 0:
            m, lost = c.M[claim.machine], dict[int, int]()
            c.touch(m, stamp)
            for placement, _ in units:
                lost[placement] = lost.get(placement, 0) + 1
            for placement, count in lost.items():
                part, _ = span_tail(m.runs[placement][1], count)
                take_off(c, m, placement, part, EndKind.EVICTED, reason)
            place(c, j.groups[claim.group], m, n)
    evict_gangs(c, reason, stamp)


def _is_block(c: State, t: Validation, j: JobRow) -> bool:
    """Return whether accepted claims are of one group, evict nothing, and take tasks that follow each other."""
    first = t.claims[0].group
    if not c.quiet or any(t.taken) or any(claim.group != first for claim in t.claims):
        return False
    return len(j.groups[first].waiting) == 2 and not c.copied


def _note(c: State, t: Validation) -> None:
    """Write the claims that did not stand: conflicts, those that a failed gang aborted, the number of the others.

    "!" is an aborted claim that would have evicted.
    """
    for claim, n, verdict in zip(t.claims, t.placed, t.verdicts, strict=True):
        if verdict is Verdict.MOVED or verdict is Verdict.FULL:
            seen = (claim.seen,) if verdict is Verdict.MOVED else ()
            c.fact("conflict", t.id, claim.machine, int(verdict), claim.count - n, claim.group, *seen)
    failed = [
        f"{claim.machine}:{claim.group}:{claim.count}{'!' if units else ''}"
        for claim, verdict, units in zip(t.claims, t.verdicts, t.taken, strict=True)
        if verdict is Verdict.ABORTED
    ]
    if failed:
        c.fact("aborted", t.id, *failed)
    if others := sum(verdict not in NOTED for verdict in t.verdicts):
        c.fact("rejected", t.id, others)


def decide(c: State, transaction: Transaction) -> Outcome:
    """Validate a transaction and apply its accepted claims."""
    if any(claim.evict for claim in transaction.claims):
        c.unfold()
    c.stamp += 1
    j = c.J.get(transaction.job)
    t = Validation(c, transaction, j)
    for claim in t.claims:
        t.taken.append([])
        n, verdict = _validate(c, t, claim)
        t.placed.append(n)
        t.verdicts.append(verdict)
    stands = all(verdict is _PLACED for verdict in t.verdicts)
    if t.stocks is not None and t.gang and stands and not t.stocks.legal():
        t.verdicts, stands = [Verdict.SHARE] * len(t.verdicts), False
    if t.gang and not stands:
        _abort(c, t)
    if c.logs:
        _note(c, t)
    if j is not None and any(t.placed):
        c.transactions += 1
        if c.gained and c.gained[-1] is j:
            c.fact("again", j.id)  # parts two transactions of a job that follow one another in a call, for the audit
        c.gained.append(j)
        _apply(c, t, j)
    return Outcome(tuple(zip(t.placed, t.verdicts, strict=True)))


def commit(c: State, request: CommitRequest) -> Reply:
    """Carry out the transactions of a call, or return the outcomes of a repeated one. Raises Fenced."""
    member = c.scheduler_members.get(request.membership.member)
    name, incarnation = request.membership
    if member is None or not member.lives or member.incarnation != incarnation or request.number < member.last:
        raise Fenced(f"scheduler {name}: incarnation {incarnation} may no longer commit; register again")
    since = request.since
    if request.number > member.last:
        c.open()
        c.diverged = c.has_diverged(since)
        member.outcomes = [decide(c, transaction) for transaction in request.transactions]
        member.last = request.number
        basis = request.basis or Basis(since.version, request.at_ms)
        if c.logs and (forms := forms_of(request.transactions)):
            basis = basis._replace(forms=forms)
        publish(c, request.at_ms, name, basis)
    reply = sync(c, since, request.intake)
    reply.outcomes = list(member.outcomes)
    return reply


def sync(c: State, since: Position, intake: Intake | None = None) -> Reply:
    """Return the machines changed since a position; with `intake` also the next jobs of a scheduler."""
    full, rows = c.delta(since)
    reply = Reply(c.position, full, rows, lanes=c.lanes_since(since.version, full=full))
    if intake is None or not intake.most:
        return reply
    reply.arrivals = c.arrivals
    jobs = list[PendingJob]()
    for number, after, most in intake.lanes:
        want = min(most, intake.most - len(jobs))
        if want <= 0:
            reply.counts.append(None)
            continue
        lane, before = c.L.get(number), len(jobs)
        for j in lane.queued(after) if lane is not None and lane.lane.kind == intake.kind else ():
            if intake.owned[bucket_of(j.id)] == "1":
                jobs.append(PendingJob(j.arrival, job_of(j, runs=False)))
                if len(jobs) - before == want:
                    break
        reply.counts.append(len(jobs) - before)
    reply.read_jobs = jobs.copy
    return reply


# One transaction in a call of its own, as simulations commit

Decided: TypeAlias = tuple[Sequence[int], int, Sequence[int]]
"""Claims of a task each that fit: their machines, the packed need of a task, and what is left of every machine."""


def carry_out(
    c: State, transaction: Transaction, at_ms: int, by: str, decided: Decided | None = None
) -> tuple[Outcome, Sequence[Placed]]:
    """Commit a transaction of a scheduler whose right to commit is assumed; also return its placements.

    `decided` are claims that the caller decided on all that this cell has now, if there were no others.
    """
    claims = transaction.claims
    if type(claims) is ClaimColumns and (j := _plain_job(c, transaction, claims)) is not None:
        machines, counts = claims.machines, claims.counts
        if (
            j.made is None
            and j.need >= 0
            and j.unplaced == len(machines)
            and not (counts or claims.group or c.counted or c.pools_state)
        ):
            if _take_room(c, machines, j.need, None, decided):
                place_whole(c, j, machines)
                c.announce(at_ms, by)
                return all_placed(len(machines)), (j,)
        elif (g := _plain_group(c, j, transaction, claims)) is not None and _take_room(
            c, machines, g.need, counts, decided
        ):
            placed = (place_block(c, g, machines, counts),)
            c.announce(at_ms, by)
            if counts is None:
                return all_placed(len(machines)), placed
            return Outcome(tuple([(count, _PLACED) for count in counts])), placed
    c.open()
    first = c.placements + 1
    outcome = decide(c, transaction)
    publish(c, at_ms, by)
    return outcome, placed_runs(transaction, outcome, first)


def _plain_job(c: State, transaction: Transaction, claims: ClaimColumns) -> JobRow | None:
    """Return the job of claims that nothing but room, or its groups, can refuse; else None.

    So are most transactions of a simulated day. They are placed as a block, if there is room for all.
    """
    job_id, _, mode, detection, assertion = transaction
    j = c.J.get(job_id)
    if j is None or j.state is not _ACTIVE or not j.kind.unrestricted or c.logs or c.mailboxes:
        return None
    if c.copied or c.blocked or assertion is not None or (c.pools_state and is_bounded(c, j)):
        return None
    machines = claims.machines
    if c.shut and not c.shut.isdisjoint(machines):
        return None
    if detection is _COARSE:
        numbers = c.numbers
        if (claims.seen or [0] * len(machines)) != [numbers[machine] for machine in machines]:
            return None
    return None if j.sent.gang and mode is not _GANG else j


def _plain_group(c: State, j: JobRow, transaction: Transaction, claims: ClaimColumns) -> GroupRow | None:
    """Return the group of the claims of a plain job; None when more than room may refuse them."""
    machines, counts, groups, number = claims.machines, claims.counts, j.made or j.groups, claims.group
    g = groups[number] if 0 <= number < len(groups) else None
    if (
        g is None
        or j.commands
        or len(g.waiting) != 2
        or (len(machines) if counts is None else sum(counts)) > g.unplaced
    ):
        return None
    if counts is not None and not 0 < min(counts) <= max(counts) <= LARGEST // max(1, *g.amounts):
        return None
    if j.sent.gang and not Validation(c, transaction, j).covers(j):
        return None
    return g


def _take_room(
    c: State, machines: Sequence[int], need: int, counts: Sequence[int] | None, decided: Decided | None
) -> bool:
    """Deduct room for tasks (packed amounts) on all of these machines, one on each without `counts`, or on none."""
    free = c.free
    if decided is not None and counts is None and decided[1] == need and decided[0] == machines:
        rest = decided[2]  # the same numbers as in the copy: half the memory, and no arithmetic
        for machine in machines:
            free[machine] = rest[machine]
        return True
    fit = guards = c.guards
    if counts is None:
        for machine in machines:
            free[machine] = left = free[machine] - need
            fit &= left
    else:
        for machine, count in zip(machines, counts, strict=True):
            free[machine] = left = free[machine] - need * count
            fit &= left
    if fit == guards:
        return True
    for machine, count in zip(machines, counts or repeat(1), strict=False):
        free[machine] += need * count
    return False


def place_unchecked(c: State, g: GroupRow, machines: Sequence[int]) -> Block:
    """Place a task on each of these machines, even if one ends up with more than it has: residents of a simulation."""
    for machine in machines:
        c.free[machine] -= g.need
    block = place_block(c, g, machines)
    c.announce(0, "")
    return block


# Evictions between pools (semantics 33)


class Stock:
    """Use of the pool of one threshold: when the transaction began, before the open set, and now."""

    __slots__ = ("before", "first", "job", "leaves", "names", "now", "share", "units")

    def __init__(self, threshold: Threshold, held: Resources) -> None:
        """Create before the first set."""
        self.names, self.leaves, self.share = threshold.leaves, frozenset(threshold.leaves), threshold.share
        self.job = threshold.job
        self.first = self.before = self.now = held
        self.units: list[Resources] = []

    def add(self, amounts: Resources, sign: int = 1) -> None:
        """Add or subtract use."""
        self.now = tuple(has + sign * amount for has, amount in zip(self.now, amounts, strict=True))

    @property
    def words(self) -> str:
        """What the fact says of it: its leaves, its use before and after, its share."""
        leaves = f"={self.job}" if self.job else "".join(f"{quote(name, safe='')}," for name in self.names)
        return ";".join((leaves, *map(_amounts, (self.first, self.now, self.share))))


class FloorStock:
    """Use of a job with a floor: when the transaction began, and now."""

    __slots__ = ("first", "floor", "now")

    def __init__(self, floor: Floor, held: Resources) -> None:
        """Create before the first set."""
        self.floor, self.first, self.now = floor, held, held

    def add(self, amounts: Resources, sign: int = 1) -> None:
        """Add or subtract use."""
        self.now = tuple(has + sign * amount for has, amount in zip(self.now, amounts, strict=True))

    def keeps(self) -> bool:
        """Return whether the job lost nothing, or keeps its floor."""
        return self.now == self.first or self.floor.holds(self.now)

    @property
    def words(self) -> str:
        """What the fact says of it."""
        leaves = f"{'+' if self.floor.every else '='}{self.floor.job}"
        return ";".join((leaves, *map(_amounts, (self.first, self.now, self.floor.amounts))))


class Stocks:
    """The assertion of one transaction during its validation; `own`: the job belongs to the evictor's pool."""

    def __init__(self, assertion: Assertion, c: State, job: JobRow) -> None:
        """Read the use of every named pool."""
        evictor, self.job = assertion.evictor, job
        self.evictor = Stock(evictor, _held(c, evictor.leaves) if not evictor.job else _held_by(c, evictor.job))
        self.own = job.id == evictor.job if evictor.job else job.lane.leaf in self.evictor.leaves
        self.victims = [Stock(each, _held(c, each.leaves)) for each in assertion.victims]
        self.floors = [FloorStock(each, _held_by(c, each.job)) for each in assertion.floors]
        self.gone = set[str]()
        self.away: dict[str, list[GroupRow]] = {}
        """The tasks counted of each strict gang, by their group."""

    def covers(self, victim: JobRow, rank: int) -> bool:
        """Return whether there is a floor for the victim's job, or a threshold for its pool.

        Within a pool a floor covers no task of a higher precedence (`rank`); a pool that is part of the evictor's is
        not covered.
        """
        name = victim.lane.leaf
        within = name == self.job.lane.leaf
        protected = victim is self.job or (within and rank > self.job.precedence)
        if not protected and any(each.floor.job == victim.id for each in self.floors):
            return True
        return name not in self.evictor.leaves and any(name in each.leaves for each in self.victims)

    def below(self, g: GroupRow) -> bool:
        """Return whether the evictor's pool is below its share in every resource that a task of the group needs."""
        return self.own and is_below(self.evictor.before, self.evictor.share, g.amounts)

    def legal(self) -> bool:
        """Return whether the use counted since the last set is legal as one set."""
        e = self.evictor
        taken = tuple(now - before for now, before in zip(e.now, e.before, strict=True))
        losses = [PoolLoss(each.before, each.share, each.units) for each in self.victims if each.units]
        kept = all(each.keeps() for each in self.floors)
        return self.own and kept and is_legal(e.before, e.share, taken, losses)

    def close(self) -> None:
        """Close the set; the next one begins."""
        for each in (self.evictor, *self.victims):
            each.before, each.units = each.now, []

    def count(self, g: GroupRow, groups: Iterable[GroupRow]) -> Callable[[], None]:
        """Count a task of the evictor and its victims; return a function that undoes it.

        What goes with a task of a strict gang is one unit with it.
        """
        gone, away = set(self.gone), {job: list(lost) for job, lost in self.away.items()}
        was = [(each, each.now, len(each.units)) for each in (self.evictor, *self.victims)]
        floors = [(each, each.now) for each in self.floors]

        def undo() -> None:
            self.gone, self.away = gone, away
            for each_floor, amounts in floors:
                each_floor.now = amounts
            for each, now, units in was:
                each.now = now
                del each.units[units:]

        self.evictor.add(g.amounts)
        for job, unit in ((group.job, self._unit(group)) for group in groups if group.job.id not in self.gone):
            leaf = job.lane.leaf
            if leaf in self.evictor.leaves:
                self.evictor.add(unit, -1)
            for each in self.victims:
                if leaf in each.leaves:
                    each.add(unit, -1)
                    each.units.append(unit)
            for each_floor in self.floors:
                if each_floor.floor.job == job.id:
                    each_floor.add(unit, -1)
        return undo

    def _unit(self, group: GroupRow) -> Resources:
        """Return what the eviction of a task counts: of a strict gang that it leaves with too few, all the rest."""
        job = group.job
        if job.gang is not Gang.STRICT:
            return group.amounts
        before = self.away.setdefault(job.id, [])
        before.append(group)
        if not job.breaks(job.placed - len(before)):
            return group.amounts
        self.gone.add(job.id)
        lost = (sum(column) for column in zip(*(each.amounts for each in before[:-1]), strict=True))
        return tuple(whole - gone for whole, gone in zip_longest(job.held, lost, fillvalue=0))

    def fact(self, job_id: str) -> tuple[str, ...]:
        """Return the fact for the audit: for each pool its leaves, its use before and after, its share; so for jobs."""
        pools = (each.words for each in (self.evictor, *self.victims))
        return "assert", job_id, *pools, *(each.words for each in self.floors if each.now != each.first)


def _held(c: State, leaves: Sequence[str]) -> Resources:
    """Return the pools' use: their lanes before this call, and its changes."""
    names, sums = frozenset(leaves), [0] * len(c.dimensions)
    for lane in c.L.values():
        if lane.leaf in names:
            sums = [has + more for has, more in zip(sums, c.spread(lane.held), strict=True)]
    for job in c.changed_jobs:
        for group in job.groups if job.lane.leaf in names else ():
            more = group.placed - group.held
            sums = [has + need * more for has, need in zip(sums, group.amounts, strict=True)]
    return tuple(sums)


def _held_by(c: State, name: str) -> Resources:
    """Return what a job holds now; nothing for an unknown one."""
    job = c.J.get(name)
    return (0,) * len(c.dimensions) if job is None else job.held


def _amounts(vector: Sequence[float]) -> str:
    """Return amounts as a fact has them: "-" for one that is infinite."""
    return ",".join("-" if isinf(amount) else f"{amount:.17g}" for amount in vector)

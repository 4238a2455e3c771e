"""Validation of transactions in the twin: ``lua/commit.lua``, function by function."""

from collections.abc import Sequence

from omega.cellstate.errors import Fenced
from omega.cellstate.executors import simulates
from omega.cellstate.memory.copies import apart
from omega.cellstate.memory.delta import has_diverged
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.pools import admits, chain_of, tree_of
from omega.cellstate.memory.publish import publish
from omega.cellstate.memory.ranges import span_count, span_tail
from omega.cellstate.memory.records import GroupRow, JobRow, KindRow, MachineRow, room
from omega.cellstate.memory.shares import Stocks, leaf
from omega.cellstate.memory.sync import sync
from omega.cellstate.memory.tasks import book, evict_gangs, note_again, occupy, place, take_off
from omega.cellstate.model import Gang, JobState, MachineState
from omega.cellstate.replies import CommitRequest, Reply
from omega.cellstate.tasks import EndKind
from omega.cellstate.transaction import Basis, Claim, Detection, Mode, Outcome, Transaction, Verdict, forms_of

Unit = tuple[int, KindRow, GroupRow]
"""A single task that may be evicted: its placement, kind and group."""


NOTED = frozenset({Verdict.PLACED, Verdict.MOVED, Verdict.FULL, Verdict.ABORTED})
"""Verdicts of which the log names the claims."""


class Validation:
    """A transaction during its validation.

    Per group the tasks claimed, per placement and per job those evicted, per kind (by name) and pool (by number) the
    jobs that lose all tasks; per claim the tasks placed, the verdict and the victims.
    """

    __slots__ = ("claimed", "claims", "coarse", "evicted", "gang", "gone", "id", "incomplete", "job", "placed",
                 "placing", "stocks", "taken", "tree", "vacated", "verdicts")  # fmt: skip

    def __init__(self, transaction: Transaction, job: JobRow | None) -> None:
        """Start the validation."""
        self.id, self.claims, self.job = transaction.job, transaction.claims, job
        self.gang, self.coarse = transaction.mode == Mode.GANG, transaction.detection == Detection.COARSE
        self.claimed: dict[int, int] = {}
        self.evicted: dict[int, int] = {}
        self.gone: dict[str, int] = {}
        self.vacated: dict[object, int] = {}
        self.placed: list[int] = []
        self.verdicts: list[Verdict] = []
        self.taken: list[list[Unit]] = []
        self.stocks: Stocks | None = None
        self.tree: int | None = None
        self.incomplete = self.placing = False


def victims_of(ledger: Ledger, t: Validation, j: JobRow, c: Claim, m: MachineRow) -> list[Unit] | Verdict:
    """Return single tasks that may be evicted for a claim, in the given order, without those already gone.

    Returns a verdict when one of them is not of strictly lower precedence, and no assertion covers its pool or job:
    ``share`` if pools refuse any of them, whatever their order. Optional tasks have precedence 0, unless a strict gang
    goes with them.
    """
    refused = set[Verdict]()
    units: list[Unit] = []
    listed: dict[int, int] = {}
    if c.evict and j.groups[c.group].copies:
        return Verdict.PRECEDENCE  # a copy evicts nothing
    for placement, wanted in c.evict:
        run = m.runs.get(placement) if placement > 0 else None
        if run:
            g, tasks = run
            lowly = g.optional and g.job.gang is not Gang.STRICT
            rank = 0 if lowly else g.job.precedence
            if (verdict := refusal(ledger, t, j, g.job, rank)) is not None:
                refused.add(verdict)
            left = span_count(tasks) - t.evicted.get(placement, 0) - listed.get(placement, 0)
            n = min(wanted, left)
            listed[placement] = listed.get(placement, 0) + n
            units += [(placement, g.job.kind, g)] * n
    if refused:
        return Verdict.SHARE if Verdict.SHARE in refused else Verdict.PRECEDENCE
    return units


def refusal(ledger: Ledger, t: Validation, j: JobRow, victim: JobRow, rank: int) -> Verdict | None:
    """Return the verdict that refuses a victim, by pools and precedence (`rank`)."""
    if t.stocks is not None and t.stocks.covers(victim, rank):
        return None
    if ledger.pools_state and leaf(victim) != leaf(j) and not operates(ledger, j):
        return Verdict.SHARE
    return None if rank < j.precedence else Verdict.PRECEDENCE


def operates(ledger: Ledger, j: JobRow) -> bool:
    """Return whether a job is in the operators' band: then precedence decides across pools."""
    least = ledger.pool_settings.operators_from
    return least is not None and j.precedence >= least


def admitted(ledger: Ledger, t: Validation, j: JobRow, g: GroupRow) -> int:
    """Return the number of tasks that the limits of the job's kind and of its pools still admit (semantics 9)."""
    k, most = j.kind, admits(ledger, j, g, t.vacated, fresh=j.placed == 0 and not t.placing)
    if k.lowest is not None and k.highest is not None and not k.lowest <= j.precedence <= k.highest:
        return 0
    fresh = k.max_jobs is not None and j.placed == 0 and not t.placing
    if fresh and k.jobs - t.vacated.get(k.name, 0) >= (k.max_jobs or 0):
        return 0
    if not k.limited:
        return most
    for limit, used, need in zip(k.limit, ledger.spread(k.used), g.amounts, strict=True):
        if limit is not None and need > 0:
            most = min(most, max(0, (limit - used) // need))
    return most


def evict(ledger: Ledger, t: Validation, m: MachineRow, units: Sequence[Unit], sign: int) -> None:
    """Free the room of these tasks, or (-1) take it again."""
    for placement, k, g in units:
        occupy(m, g, -sign)
        book(ledger, k, g, -sign)
        t.evicted[placement] = t.evicted.get(placement, 0) + sign
        before = t.gone.get(g.job.id, 0)
        t.gone[g.job.id] = before + sign
        if max(before, before + sign) == g.job.placed:
            whose = [k.name, *(each.number for each in chain_of(ledger, g.job))] if ledger.pool_books else [k.name]
            for each in whose:
                t.vacated[each] = t.vacated.get(each, 0) + sign


def fit(
    ledger: Ledger, t: Validation, j: JobRow, m: MachineRow, g: GroupRow, want: int, units: list[Unit]
) -> tuple[int, Verdict]:
    """Place as many of `want` as fit, evicting one task after another and only while that helps.

    A task that does not fit in the end evicts nothing (semantics 7). Returns the number and the verdict of the
    others.
    """
    n = taken = tried = 0
    verdict = Verdict.PLACED
    while True:
        fits, limit = min(want, room(m, g)), admitted(ledger, t, j, g)
        possible = min(fits, limit)
        if possible > n:
            n, taken = possible, tried
        if n >= want:
            break
        verdict = Verdict.LIMIT if limit <= n else Verdict.FULL
        if tried == len(units) or (limit <= n and fits > n):
            break
        tried += 1
        evict(ledger, t, m, units[tried - 1 : tried], 1)
    evict(ledger, t, m, units[taken:tried], -1)
    t.taken[-1] = units[:taken]
    return n, Verdict.PLACED if n >= want else verdict


def fit_by_share(
    ledger: Ledger, t: Validation, j: JobRow, m: MachineRow, g: GroupRow, want: int, units: list[Unit], stocks: Stocks
) -> tuple[int, Verdict]:
    """As `fit`, task by task: each with the victims that it needs, while that is legal between pools (rule 33).

    The claims of a gang are one set, which is validated when all of them fit.
    """
    n, taken, verdict = 0, 0, Verdict.PLACED
    while n < want and verdict is Verdict.PLACED:
        tried = taken
        while True:
            fits, limit = room(m, g), admitted(ledger, t, j, g)
            if limit > n and not stocks.below(g):
                verdict = Verdict.SHARE
            if (fits > n and limit > n) or verdict is Verdict.SHARE:
                break
            if tried == len(units) or (limit <= n and fits > n):
                verdict = Verdict.LIMIT if limit <= n else Verdict.FULL
                break
            tried += 1
            evict(ledger, t, m, units[tried - 1 : tried], 1)
        if verdict is Verdict.PLACED:
            undo = stocks.count(g, [group for _, _, group in units[taken:tried]])
            if not t.gang and not stocks.legal():
                undo()
                verdict = Verdict.SHARE
        if verdict is not Verdict.PLACED:
            evict(ledger, t, m, units[taken:tried], -1)
            break
        n, taken = n + 1, tried
        if not t.gang:
            stocks.close()
    t.taken[-1] = units[:taken]
    return n, verdict


def validate(ledger: Ledger, t: Validation, c: Claim) -> tuple[int, Verdict]:
    """Validate one claim against the working state. Returns the number of accepted tasks and the others' verdict.

    A run of identical tasks shares the verdict of the first that failed.
    """
    j, m = t.job, ledger.M.get(c.machine)
    g = j.groups[c.group] if j and 0 <= c.group < len(j.groups) else None
    lives = j is not None and j.state is JobState.ACTIVE and m is not None and m.state is not MachineState.GONE
    if j is None or g is None or m is None or c.count < 0 or not lives:
        return 0, Verdict.UNKNOWN
    takes = m.state is MachineState.UP and not (j.commands and simulates(m.executor))
    if not takes or ledger.over(m):
        return 0, Verdict.DOWN
    left = g.unplaced - t.claimed.get(c.group, 0)
    if left <= 0:
        return 0, Verdict.DUPLICATE
    if t.incomplete:
        return 0, Verdict.INCOMPLETE
    if t.tree is not None and m.tree != t.tree:
        return 0, Verdict.LIMIT if admitted(ledger, t, j, g) <= 0 else Verdict.TREE
    units = victims_of(ledger, t, j, c, m)
    if t.stocks is not None and not t.stocks.below(g):
        units = Verdict.SHARE
    # Own earlier transactions of this call are no interference: only changes by others count as a move.
    moved = t.coarse and (ledger.diverged or c.seen != (m.number if m.stamp < ledger.base else m.before))
    if isinstance(units, Verdict) or moved:
        if admitted(ledger, t, j, g) <= 0:
            return 0, Verdict.LIMIT
        return 0, units if isinstance(units, Verdict) else Verdict.MOVED
    want = min(c.count, left)
    rest = Verdict.DUPLICATE
    if g.copies and (before := apart(g, m, t.claimed.get(c.group, 0), want)) < want:
        if not before:
            return 0, Verdict.FULL
        want, rest = before, Verdict.FULL
    if t.stocks is not None:
        n, verdict = fit_by_share(ledger, t, j, m, g, want, units, t.stocks)
    else:
        n, verdict = fit(ledger, t, j, m, g, want, units)
    if n > 0:
        occupy(m, g, n)
        book(ledger, j.kind, g, n)
        t.claimed[c.group] = t.claimed.get(c.group, 0) + n
        t.placing = True
    if verdict is Verdict.PLACED and c.count > want:
        verdict = rest
    return n, verdict


def covers(t: Validation, j: JobRow) -> bool:
    """Return whether a transaction covers all unplaced required tasks of a gang job as a gang (semantics 8).

    Of a gang with a minimum it must cover as many as that lacks.
    """
    if j.gang_min:
        lacks = min(j.gang_min - j.placed, j.unplaced + j.delayed)
        return lacks <= 0 or (t.gang and sum(c.count for c in t.claims) >= lacks)
    sums: dict[int, int] = {}
    for c in t.claims:
        sums[c.group] = sums.get(c.group, 0) + c.count
    return t.gang and not j.delayed and all(g.optional or sums.get(g.number, 0) >= g.unplaced for g in j.groups)


def abort(ledger: Ledger, t: Validation) -> None:
    """Abort a failed gang: its accepted claims are undone in the working state."""
    for i, (c, n, units) in enumerate(zip(t.claims, t.placed, t.taken, strict=True)):
        if n > 0 and t.job is not None:
            m, g = ledger.M[c.machine], t.job.groups[c.group]
            occupy(m, g, -n)
            book(ledger, t.job.kind, g, -n)
            evict(ledger, t, m, units, -1)
        t.placed[i] = 0
        if t.verdicts[i] is Verdict.PLACED:
            t.verdicts[i] = Verdict.ABORTED


def apply_evictions(ledger: Ledger, units: list[Unit], m: MachineRow, reason: str) -> None:
    """Evict the victims of a claim: the last tasks of each victim's run."""
    counts: dict[int, int] = {}
    for placement, _, _ in units:
        counts[placement] = counts.get(placement, 0) + 1
    for placement, count in counts.items():
        part, _ = span_tail(m.runs[placement][1], count)
        take_off(ledger, m, placement, part, EndKind.EVICTED, reason)


def apply(ledger: Ledger, t: Validation, j: JobRow, stamp: int) -> None:
    """Write the accepted claims."""
    ledger.transaction = stamp
    reason = f"precedence:{t.id}" if t.stocks is None else f"fair-share:{t.id}"
    if t.stocks is not None and any(t.taken):
        ledger.fact(*t.stocks.fact(t.id))
    for c, n, units in zip(t.claims, t.placed, t.taken, strict=True):
        if n > 0:
            m = ledger.M[c.machine]
            ledger.touch(m, stamp)
            if units:
                apply_evictions(ledger, units, m, reason)
            place(ledger, j, c.group, m, n)
    evict_gangs(ledger, reason, stamp)


def note_others(ledger: Ledger, t: Validation) -> None:
    """Write the claims that a failed gang aborted ("!": it would have evicted), and the number of other verdicts."""
    failed = [
        f"{c.machine}:{c.group}:{c.count}{'!' if units else ''}"
        for c, v, units in zip(t.claims, t.verdicts, t.taken, strict=True)
        if v is Verdict.ABORTED
    ]
    if failed:
        ledger.fact("aborted", t.id, *failed)
    if others := sum(v not in NOTED for v in t.verdicts):
        ledger.fact("rejected", t.id, others)


def decide(ledger: Ledger, transaction: Transaction) -> Outcome:
    """Validate a transaction and apply its accepted claims."""
    ledger.unfold()
    ledger.stamp = stamp = ledger.stamp + 1
    j = ledger.J.get(transaction.job)
    asserts = transaction.assertion
    t = Validation(transaction, j)
    t.incomplete = j is not None and j.gang > 0 and not covers(t, j)
    t.tree = None if j is None else tree_of(ledger, j)
    t.stocks = Stocks(asserts, ledger, j) if j is not None and asserts is not None else None
    for c in t.claims:
        t.taken.append([])
        n, verdict = validate(ledger, t, c)
        t.placed.append(n)
        t.verdicts.append(verdict)
    stands = all(verdict is Verdict.PLACED for verdict in t.verdicts)
    if t.stocks is not None and t.gang and stands and not t.stocks.legal():
        t.verdicts = [Verdict.SHARE] * len(t.verdicts)
    if t.gang and any(verdict is not Verdict.PLACED for verdict in t.verdicts):
        abort(ledger, t)
    for c, n, v in zip(t.claims, t.placed, t.verdicts, strict=True):
        if v is Verdict.MOVED or v is Verdict.FULL:
            seen = (c.seen,) if v is Verdict.MOVED else ()
            ledger.fact("conflict", t.id, c.machine, int(v), c.count - n, c.group, *seen)
    if ledger.log:
        note_others(ledger, t)
    if j is not None and any(t.placed):
        ledger.transactions += 1
        note_again(ledger, j)
        ledger.gained.append(j)
        apply(ledger, t, j, stamp)
    return Outcome(tuple(zip(t.placed, t.verdicts, strict=True)))


def commit(ledger: Ledger, request: CommitRequest) -> Reply:
    """Carry out the transactions of a call, or return the outcomes of a repeated one. Raises Fenced."""
    member = ledger.schedulers.get(request.membership.member)
    name, incarnation = request.membership
    if member is None or not member.lives or member.incarnation != incarnation or request.number < member.last:
        raise Fenced(f"scheduler {name}: incarnation {incarnation} may no longer commit; register again")
    since = request.since
    if request.number > member.last:
        ledger.open()
        ledger.lost_at = 0
        ledger.diverged = has_diverged(ledger, since)
        member.outcomes = [decide(ledger, transaction) for transaction in request.transactions]
        member.last = request.number
        basis = request.basis or Basis(since.version, request.at_ms)
        if ledger.log and (forms := forms_of(request.transactions)):
            basis = basis._replace(forms=forms)
        publish(ledger, request.at_ms, name, basis)
    reply = sync(ledger, since, request.intake)
    reply.outcomes = list(member.outcomes)
    return reply

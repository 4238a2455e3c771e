"""The complete twin: transactions, members, limits; its parts mirror the other scripts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cellstate.cell import Awaited, Membership, PendingJob, Reply
from cellstate.errors import BadInput, Duplicate, Fenced
from cellstate.memory import shards
from cellstate.memory.agents import MemoryAgents
from cellstate.memory.commit import MemoryCommit
from cellstate.memory.housekeeping import MemoryHousekeeping
from cellstate.memory.jobs import plain
from cellstate.memory.publish import Member
from cellstate.memory.ranges import span_count, span_split
from cellstate.memory.tasks import part_of
from cellstate.memory.updates import MemoryUpdates
from cellstate.memory.words import MachineRow
from cellstate.model import MOST_CLAIMS, MOST_PRECEDENCE, Limits, check_author, check_kind, check_member, check_nonce
from cellstate.packing import packed
from cellstate.resources import Dimensions
from cellstate.shards import Errand, Progress, ShardDurations, Worker
from cellstate.transaction import Ending, How, Intake, Position, Transaction

Flight = tuple[Membership, int, Sequence[Transaction], Position, int, Intake | None]


class MemoryCell(MemoryCommit, MemoryAgents, MemoryUpdates, MemoryHousekeeping):
    """A cell in memory; see `Cell` for the methods of the port.

    Finished jobs are kept as in the store. Only `expire` ends a lease. Without `log` it keeps no facts, without
    `mailboxes` no messages (the simulator reads none). With `release_moves_number` False ended tasks do not change
    a machine's sequence number, as in the authors' simulator; only for comparisons with it. `tag` returns the tag of
    each version; a count by default.
    """

    def __init__(
        self, name: str = "memory", dimensions: Dimensions | None = None, *, keep_jobs: int = 10_000,
        keep_ms: int = 24 * 3600 * 1000, log: bool = True, mailboxes: bool = True, release_moves_number: bool = True,
        tag: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        """Create an empty cell."""
        super().__init__(name, dimensions or Dimensions(), keep_jobs, keep_ms, log, mailboxes, tag)
        self.release_moves_number = release_moves_number
        self._flight: Flight | None = None
        self._answer: Reply | Fenced | None = None

    # Transactions

    def begin(
        self, membership: Membership, number: int, transactions: Sequence[Transaction], since: Position, at_ms: int,
        intake: Intake | None = None, executors: Iterable[int] = (),
    ) -> None:  # fmt: skip
        """Commit, and keep the reply for `finish`."""
        self._flight = membership, number, transactions, since, at_ms, intake
        for transaction in transactions:
            if not 0 < len(transaction.claims) <= MOST_CLAIMS:
                raise BadInput(
                    f"job {transaction.job}: a transaction of {len(transaction.claims)} claims; want 1 to {MOST_CLAIMS}"
                )
        self.resend()

    def resend(self) -> None:
        """Send the commit in flight again; it has no second effect (semantics 14)."""
        if self._flight is None:
            raise RuntimeError("no commit in flight")
        try:
            self._answer = self._commit(*self._flight)
        except Fenced as error:
            self._answer = error

    def finish(self) -> Reply:
        """Return the reply of the commit in flight."""
        answer, self._answer, self._flight = self._answer, None, None
        if answer is None:
            raise RuntimeError("no commit in flight")
        if isinstance(answer, Fenced):
            raise answer
        return answer

    def commit(
        self, membership: Membership, number: int, transactions: Sequence[Transaction], since: Position, at_ms: int,
        intake: Intake | None = None, executors: Iterable[int] = (),
    ) -> Reply:  # fmt: skip
        """See Cell.commit."""
        self.begin(membership, number, transactions, since, at_ms, intake)
        return self.finish()

    def _commit(
        self, membership: Membership, number: int, transactions: Sequence[Transaction], since: Position, at_ms: int,
        intake: Intake | None,
    ) -> Reply:  # fmt: skip
        member = self.schedulers.get(membership.member)
        if member is None or not member.lives or member.incarnation != membership.incarnation or number < member.last:
            name, incarnation = membership
            raise Fenced(f"scheduler {name}: incarnation {incarnation} may no longer commit; register again")
        if number > member.last:
            self.open()
            self.diverged = self.has_diverged(since)
            member.outcomes = [self.decide(transaction) for transaction in transactions]
            member.last = number
            self.publish(at_ms, membership.member)
        reply = self.sync(since, intake)
        reply.outcomes = list(member.outcomes)
        return reply

    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        """See Cell.sync."""
        full, rows = self.delta(since)
        reply = Reply(self.latest(), full, rows, lanes=self.lanes_since(since.version, full=full))
        if intake is not None and intake.most:
            reply.arrivals = self.arrivals
            reply.counts, found = self.intake(intake)
            reply.jobs = [PendingJob(j.arrival, self.job_of(j, runs=False)) for j in found]
        return reply

    # Tasks

    def end(self, endings: Sequence[Ending], at_ms: int, by: str) -> list[int]:
        """See Cell.end."""
        self.unfold()
        self.open()
        self.lost_at = at_ms
        if self.shortcut and all(e.how is How.FINISHED and e.tasks == "*" and not (e.reason or e.job) for e in endings):
            counts = self.finish_all(endings, moves=self.release_moves_number)
        else:
            counts = self.end_each(endings)
        if any(counts):
            self.transactions += 1
            self.publish(at_ms, by)
        return counts

    def end_each(self, endings: Sequence[Ending]) -> list[int]:
        """End tasks in any way."""
        counts = []
        for machine, placement, how, tasks, reason, job_id in endings:
            m, n = self.M.get(machine), 0
            if m and how is How.LEFT:
                n = self.acknowledge(m, placement, part_of(tasks))
                if n:
                    self._trail.append(m.index)
            elif m:
                why = reason or "-"
                moves = self.release_moves_number
                n = self.end_tasks(m, placement, part_of(tasks), how, why, self.stamp, moves=moves)
                if self.strict:
                    n += self.evict_gangs(why, self.stamp)
            j = self.J.get(job_id)
            if n == 0 and j is not None and how in (How.FINISHED, How.FAILED):
                n = self.end_late(j, machine, placement, part_of(tasks), how)
            counts.append(n)
        return counts

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        """Return for (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""
        self.unfold()
        return [self._may_start(self.M.get(machine), placement) for machine, placement in asked]

    def _may_start(self, m: MachineRow | None, placement: int) -> str:
        if m is None or placement < 0 or placement not in m.runs:
            return "gone"
        g, tasks = m.runs[placement]
        if m.leaving:
            held = sum(packed(other.amounts) * span_count(part) for other, part in m.runs.values())
            if (packed(m.capacity) + self.guards - held) & self.guards != self.guards:
                return "wait"
        elsewhere = (self.M[index].runs[run][1] for run, index in g.runs.items() if run < 0)
        return "wait" if any(span_split(tasks, leaving)[0] for leaving in elsewhere) else "go"

    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Return messages for an executor, oldest first, without waiting. See ExecutorStore.receive for their form."""
        mailbox = self._mailboxes.get(executor, [])
        taken, self._mailboxes[executor] = mailbox[:most], mailbox[most:]
        return [self.write([line]) for line in taken]

    # Members

    def register_scheduler(self, member: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """See Cell.register_scheduler."""
        check_nonce(nonce)
        known = self.schedulers.get(check_member(member))
        if known and known.nonce == nonce:
            known.lives = True
            return Membership(member, known.incarnation)
        if known and known.lives:
            raise Duplicate(f"scheduler {member}: another one runs under this name; choose another or stop it")
        self.open()
        self.incarnations += 1
        self.schedulers[member] = Member(self.incarnations, nonce)
        self.fact("enlist", member, self.incarnations)
        self.announce(at_ms, member)
        return Membership(member, self.incarnations)

    def renew_scheduler(self, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
        """Renew the lease and store `figures`; return the live members. Fenced when it expired."""
        known = self.schedulers.get(membership.member)
        if known is None or not known.lives or known.incarnation != membership.incarnation:
            raise Fenced(f"scheduler {membership.member}: its lease lapsed; register again")
        self.stats[membership.member] = plain(dict(figures))
        return sorted(name for name, member in self.schedulers.items() if member.lives)

    def expire(self, member: str) -> None:
        """End the lease of a scheduler or an agent, as the server does in time."""
        holder = self.agents_known.get(member) or self.schedulers[member]
        holder.lives = False

    def deregister_scheduler(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        """See Cell.deregister_scheduler."""
        name, incarnation = membership
        known = self.schedulers.get(name)
        if known is None or known.incarnation != incarnation or (reaped and known.lives):
            return False
        self.open()
        del self.schedulers[name]
        self.fact("lapse" if reaped else "leave", name, incarnation)
        self.announce(at_ms, name)
        return True

    def wait_for_work(self, member: str, seconds: float) -> bool:
        """Return whether there is work for this scheduler; takes the token and never waits."""
        found = member in self.wakes
        self.wakes.discard(member)
        return found

    def set_blocked(self, member: str, *, blocked: bool, awaited: Awaited = ()) -> None:
        """See Cell.set_blocked."""
        if blocked:
            self.blocked[member] = awaited
        else:
            self.blocked.pop(member, None)

    # Shards of MapReduce jobs

    def claim_shard(self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int) -> Errand:
        """See Cell.claim_shard."""
        return shards.claim_shard(self, job_id, worker, maps, reduces, at_ms)

    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None,
    ) -> bool:  # fmt: skip
        """See Cell.end_shard."""
        return shards.end_shard(self, job_id, name, worker, phase, shard, milliseconds, failed_ms=failed_ms)

    def progress(self, job_id: str) -> Progress | None:
        """See Cell.progress."""
        return shards.progress(self, job_id)

    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        """See Cell.finishers."""
        return shards.finishers(self, job_id, phase, count)

    def durations(self, name: str) -> ShardDurations | None:
        """See Cell.durations."""
        return shards.durations(self, name)

    # Limits

    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        """See Cell.set_limits."""
        check_author(by)
        check_kind(kind)
        if len(limits.resources) != len(self.dimensions):
            names = ", ".join(self.dimensions.names)
            raise BadInput(f"kind {kind}: {len(limits.resources)} limits; want one for each of {names}")
        k = self.kind(kind)
        if k.kept and self.limits(k) == limits:
            return
        self.open()
        k.max_jobs, k.limit, k.kept = limits.jobs, tuple(limits.resources), True
        k.lowest, k.highest = (None, None) if limits.precedence == (0, MOST_PRECEDENCE) else limits.precedence
        k.limited = any(amount is not None for amount in k.limit)
        k.plain = not k.limited and k.max_jobs is None and k.lowest is None
        words = [k.max_jobs, k.lowest, k.highest, *k.limit]
        self.fact("limit", kind, *("-" if word is None else word for word in words))
        self.wake(kind)
        self.announce(at_ms, by)

    def close(self) -> None:
        """Do nothing: there is no connection."""

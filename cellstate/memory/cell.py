"""The complete twin: the calls of the ports, each carried out on the ledger by the function of its script."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omega.cellstate.errors import BadInput, Fenced
from omega.cellstate.memory.agents import keep_tails, register_agent, renew_executor
from omega.cellstate.memory.commit import commit
from omega.cellstate.memory.done import retire
from omega.cellstate.memory.end import end
from omega.cellstate.memory.executors import deregister_executor, register_executor
from omega.cellstate.memory.housekeeping import housekeep
from omega.cellstate.memory.jobs import hold, note_attempts, release, resize, stop, submit
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.limits import set_limits
from omega.cellstate.memory.log_entries import write
from omega.cellstate.memory.machines import join, set_machine_attributes, set_machine_capacity, set_machine_state
from omega.cellstate.memory.pools import publish_epoch, set_pools
from omega.cellstate.memory.schedulers import deregister_scheduler, register_scheduler, renew_scheduler
from omega.cellstate.memory.session import MemorySession
from omega.cellstate.memory.shards import claim_shard, end_shard
from omega.cellstate.memory.sync import sync
from omega.cellstate.memory.updates import settle, update
from omega.cellstate.model import MOST_CLAIMS, Job, JobSpec, JobState, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.override import override
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.replies import Awaited, CommitRequest, Heartbeat, Housekept, Membership, Reply, Submitted
from omega.cellstate.resources import Dimensions, Resources
from omega.cellstate.shards import Errand, Worker
from omega.cellstate.task_ends import TaskEnd
from omega.cellstate.transaction import Intake, Position


class MemoryCell(MemorySession):
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
        ledger = Ledger(
            name, dimensions or Dimensions(), keep_jobs=keep_jobs, keep_ms=keep_ms, log=log, mailboxes=mailboxes,
            release_moves_number=release_moves_number, tag=tag,
        )  # fmt: skip
        super().__init__(ledger)
        self.name, self.dimensions = self.ledger.name, self.ledger.dimensions
        self._sent: CommitRequest | None = None
        self._answer: Reply | Fenced | None = None

    # Transactions

    def begin(self, request: CommitRequest) -> None:
        """Commit, and keep the reply for `finish`."""
        self._sent = request
        for transaction in request.transactions:
            if not 0 < len(transaction.claims) <= MOST_CLAIMS:
                raise BadInput(
                    f"job {transaction.job}: a transaction of {len(transaction.claims)} claims; want 1 to {MOST_CLAIMS}"
                )
        self.resend()

    def resend(self) -> None:
        """Send the commit in flight again; it has no second effect (semantics 14)."""
        if self._sent is None:
            raise RuntimeError("no commit in flight")
        try:
            self._answer = commit(self.ledger, self._sent)
        except Fenced as error:
            self._answer = error

    def finish(self) -> Reply:
        """Return the reply of the commit in flight."""
        answer, self._answer, self._sent = self._answer, None, None
        if answer is None:
            raise RuntimeError("no commit in flight")
        if isinstance(answer, Fenced):
            raise answer
        return answer

    @override
    def commit(self, request: CommitRequest) -> Reply:
        self.begin(request)
        return self.finish()

    @override
    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        return sync(self.ledger, since, intake)

    # Tasks

    @override
    def end(self, endings: Sequence[TaskEnd], at_ms: int, by: str) -> list[int]:
        return end(self.ledger, endings, at_ms, by)

    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Return messages for an executor, oldest first, without waiting. See ExecutorStore.receive for their form."""
        mailbox = self.ledger.messages.get(executor, [])
        taken, self.ledger.messages[executor] = mailbox[:most], mailbox[most:]
        return [write([line]) for lines in taken for line in lines]

    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Return messages for an executor, a line each, without waiting. See ExecutorStore.receive_lines."""
        found = (message.split(" ") for message in self.receive(executor, most, wait_seconds))
        return [
            f"+ {words[3]} {words[4]} {words[6]} {words[7]} {words[1]} {words[2]} {words[5]}"
            if words[0] == "+"
            else " ".join(words)
            for words in found
        ]

    # Schedulers

    @override
    def register_scheduler(self, member: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        return register_scheduler(self.ledger, member, nonce, at_ms)

    @override
    def renew_scheduler(self, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
        return renew_scheduler(self.ledger, membership, figures)

    @override
    def deregister_scheduler(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        return deregister_scheduler(self.ledger, membership, at_ms, reaped=reaped)

    def wait_for_work(self, member: str, seconds: float) -> bool:
        """Return whether there is work for this scheduler; takes the token and never waits."""
        found = member in self.ledger.wakes
        self.ledger.wakes.discard(member)
        return found

    @override
    def set_blocked(self, member: str, *, blocked: bool, awaited: Awaited = ()) -> None:
        if blocked:
            self.ledger.blocked[member] = awaited
        else:
            self.ledger.blocked.pop(member, None)

    # Machines and their executors

    @override
    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        return join(self.ledger, executor, machines, at_ms)

    @override
    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        return set_machine_state(self.ledger, index, state, at_ms, by)

    @override
    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        set_machine_attributes(self.ledger, index, changes, at_ms, by)

    @override
    def set_machine_capacity(
        self, index: int, capacity: Resources, at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        return set_machine_capacity(self.ledger, index, capacity, at_ms, by, evict)

    @override
    def register_executor(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        return register_executor(self.ledger, executor, nonce, lease_ms, at_ms)

    @override
    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        return register_agent(self.ledger, agent, nonce, lease_ms, at_ms)

    @override
    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        return renew_executor(self.ledger, membership, machine)

    @override
    def deregister_executor(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        return deregister_executor(self.ledger, membership, at_ms, by, reaped=reaped)

    @override
    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        keep_tails(self.ledger, tails)

    # Jobs

    @override
    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        return submit(self.ledger, jobs, at_ms, by, held=held)

    @override
    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        return stop(self.ledger, job_id, at_ms, by, state, check, keep=keep)

    @override
    def note_attempts(self, jobs: Sequence[str], at_ms: int, by: str) -> int:
        return note_attempts(self.ledger, jobs, at_ms, by)

    @override
    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        return hold(self.ledger, job_id, at_ms, by, check)

    @override
    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        return release(self.ledger, job_id, at_ms, by, check)

    @override
    def resize(
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
        seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
    ) -> Job:  # fmt: skip
        return resize(self.ledger, job_id, totals, at_ms, by, check, seen, placed)

    @override
    def update(
        self, job_id: str, groups: Sequence[TaskGroup], extra: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        return update(self.ledger, job_id, groups, extra, at_ms, by, check)

    @override
    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        return settle(self.ledger, job_id, reason, at_ms, by)

    @override
    def claim_shard(self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int) -> Errand:
        return claim_shard(self.ledger, job_id, worker, maps, reduces, at_ms)

    @override
    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None,
    ) -> bool:  # fmt: skip
        return end_shard(self.ledger, job_id, name, worker, phase, shard, milliseconds, failed_ms=failed_ms)

    # Limits and pools

    @override
    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        set_limits(self.ledger, kind, limits, at_ms, by)

    @override
    def set_pools(self, pools: Pools, check: int, at_ms: int, by: str) -> Pools:
        return set_pools(self.ledger, pools, check, at_ms, by)

    @override
    def publish_epoch(self, epoch: Epoch, period_ms: int, at_ms: int) -> int:
        return publish_epoch(self.ledger, epoch, period_ms, at_ms)

    # Time

    @override
    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        # `at_ms` stands for the server's time.
        return housekeep(self.ledger, at_ms, by, most)

    @override
    def retire(self, now_ms: int, most: int = 1_000) -> int:
        return retire(self.ledger, now_ms, most)

    def close(self) -> None:
        """Do nothing: there is no connection."""

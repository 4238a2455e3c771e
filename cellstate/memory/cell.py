"""The complete twin: the calls of the ports, each carried out on the ledger by the function of its script."""

from collections.abc import Callable, Iterable

from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput, Fenced
from omega.cellstate.memory.commit import commit
from omega.cellstate.memory.cuts import report_cut
from omega.cellstate.memory.digest import digest
from omega.cellstate.memory.done import retire
from omega.cellstate.memory.end import end
from omega.cellstate.memory.executors import (
    answer_output,
    deregister_executor,
    executor_records,
    keep_tails,
    register_agent,
    register_executor,
    renew_executor,
    report_fitness,
    report_progress,
    request_output,
)
from omega.cellstate.memory.health import report_health
from omega.cellstate.memory.housekeeping import housekeep
from omega.cellstate.memory.jobs import claim_jobs, gate, hold, note_attempts, release, resize, stop, submit
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.limits import set_limits
from omega.cellstate.memory.log_entries import write
from omega.cellstate.memory.machines import join, set_machine_attributes, set_machine_capacity, set_machine_state
from omega.cellstate.memory.pools import next_epoch, publish_epoch
from omega.cellstate.memory.queries import MemoryQueries, over_ledger
from omega.cellstate.memory.schedulers import deregister_scheduler, register_scheduler, renew_scheduler
from omega.cellstate.memory.shards import claim_directory, claim_shard, end_shard
from omega.cellstate.memory.speculate import speculate
from omega.cellstate.memory.sync import sync
from omega.cellstate.memory.trees import assign_trees, set_pools
from omega.cellstate.memory.updates import settle, update
from omega.cellstate.model import MOST_CLAIMS
from omega.cellstate.override import override
from omega.cellstate.replies import Awaited, CommitRequest, Membership, Reply
from omega.cellstate.resources import Dimensions


class MemoryCell(MemoryQueries):
    """A cell in memory; see `Cell` for the methods of the port.

    Finished jobs are kept as in the store. No lease ends by itself. Without `log` it keeps no facts, without
    `mailboxes` no messages (the simulator reads none). With `release_moves_number` False ended tasks do not change
    a machine's sequence number, as in the authors' simulator; only for comparisons with it. `tag` returns the tag of
    each version; a count by default.
    """

    url = ""

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
        self.durability, self.unchecked, self.dry = Durability(), False, False
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

    sync = over_ledger(sync)

    report_cut = over_ledger(report_cut)

    # Tasks

    end = over_ledger(end)

    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Return messages for an executor, oldest first, without waiting. See ExecutorStore.receive for their form."""
        mailbox = self.ledger.messages.get(executor, [])
        taken, self.ledger.messages[executor] = mailbox[:most], mailbox[most:]
        return [write([line]) for lines in taken for line in lines]

    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Return messages for an executor, a line each, without waiting. See ExecutorStore.receive_lines."""
        order = 0, 3, 4, 6, 7, 1, 2, 5
        parts = (message.split(" ") for message in self.receive(executor, most, wait_seconds))
        return [" ".join(part[i] for i in order) if part[0] == "+" else " ".join(part) for part in parts]

    # Schedulers

    register_scheduler = over_ledger(register_scheduler)
    renew_scheduler = over_ledger(renew_scheduler)
    deregister_scheduler = over_ledger(deregister_scheduler)

    def wait_for_work(self, member: str, seconds: float) -> bool:
        """Return whether there is work for this scheduler; takes the token and never waits."""
        woken = member in self.ledger.wakes
        self.ledger.wakes.discard(member)
        return woken

    @override
    def set_blocked(self, member: str, *, blocked: bool, awaited: Awaited = ()) -> None:
        if blocked:
            self.ledger.blocked[member] = awaited
        else:
            self.ledger.blocked.pop(member, None)

    # Machines and their executors

    join = over_ledger(join)
    set_machine_state = over_ledger(set_machine_state)
    set_machine_attributes = over_ledger(set_machine_attributes)
    set_machine_capacity = over_ledger(set_machine_capacity)
    register_executor = over_ledger(register_executor)
    register_agent = over_ledger(register_agent)
    renew_executor = over_ledger(renew_executor)
    report_fitness = over_ledger(report_fitness)
    deregister_executor = over_ledger(deregister_executor)
    keep_tails = over_ledger(keep_tails)
    request_output = over_ledger(request_output)
    answer_output = over_ledger(answer_output)
    report_progress = over_ledger(report_progress)
    report_health = over_ledger(report_health)

    # Jobs

    submit = over_ledger(submit)
    claim_jobs = over_ledger(claim_jobs)
    stop = over_ledger(stop)
    note_attempts = over_ledger(note_attempts)
    hold = over_ledger(hold)
    gate = over_ledger(gate)
    release = over_ledger(release)
    resize = over_ledger(resize)
    update = over_ledger(update)
    settle = over_ledger(settle)
    speculate = over_ledger(speculate)
    claim_directory = over_ledger(claim_directory)
    claim_shard = over_ledger(claim_shard)
    end_shard = over_ledger(end_shard)

    # Limits and pools

    set_limits = over_ledger(set_limits)
    set_pools = over_ledger(set_pools)
    assign_trees = over_ledger(assign_trees)
    publish_epoch = over_ledger(publish_epoch)
    next_epoch = over_ledger(next_epoch)

    # Time, and the connection, which is always there

    housekeep = over_ledger(housekeep)
    retire = over_ledger(retire)
    digest = over_ledger(digest)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    @override
    def account(self) -> str:
        # No user is verified here.
        return ""

    @override
    def check_exists(self, *, any_schema: bool = False) -> str:
        return ",".join(self.ledger.dimensions.names)

    @override
    def set_durability(self, durability: Durability) -> None:
        self.durability = durability

    def await_replicas(self) -> None:
        """Do nothing: there are none."""

    def check_there(self) -> None:
        """Do nothing: the cell is always there."""

    @override
    def store_ms(self) -> int:
        return self.ledger.now_ms

    @override
    def store_run(self) -> str:
        # There is one run.
        return "memory"

    @override
    def store_older_than(self, milliseconds: int) -> bool:
        return True

    def confirm_runs(self, executor: str) -> None:
        """Do nothing: no task waits for that here."""

    def may_wake(self, members: Iterable[str]) -> None:
        """Do nothing: every scheduler is known here."""

    def read_live_schedulers(self) -> None:
        """Do nothing: every scheduler is known here."""

    @override
    def rouse(self, member: str) -> None:
        self.ledger.wakes.add(member)

    @override
    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        self.ledger.drains.pop(machine, None)
        if milliseconds is not None:
            self.ledger.drains[machine] = self.ledger.now_ms + milliseconds

    @override
    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        return [
            name for name, record in executor_records(self.ledger).items()
            if deregister_executor(self.ledger, Membership(name, record.incarnation), at_ms, by)
        ]  # fmt: skip

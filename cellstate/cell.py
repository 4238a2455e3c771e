"""The port of a cell, which the store (`RedisCell`) and its twin (`MemoryCell`) implement."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from cellstate.executors import ExecutorRecord
from cellstate.model import (
    Described,
    Job,
    JobSpec,
    JobState,
    Limits,
    Machine,
    MachineSpec,
    MachineState,
    Run,
    TaskGroup,
)
from cellstate.pages import JobHead, JobPage, Keep
from cellstate.pool_port import PoolPort
from cellstate.resources import Dimensions, Resources
from cellstate.shards import Errand, Progress, ShardDurations, Worker
from cellstate.transaction import Ending, Intake, Outcome, Position, Transaction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cellstate.lanes import Lane

Rows: TypeAlias = "NDArray[np.int64]"
"""Machine records: one row a machine; columns index, number, state, executor, capacity × R,
allocated × R, in the smallest units of the cell's dimensions."""


class PendingJob(NamedTuple):
    """A pending job as a scheduler receives it, without its runs; `arrival` is the order of becoming pending."""

    arrival: int
    job: Job


@dataclass(slots=True)
class Reply:
    """The answer to a sync or a commit.

    `rows` are the changed machines, or all of them when `full`; apply them in order. `lanes` are rows of lanes,
    likewise: index (lanes.BASE + number), serial, jobs pending, last arrival, wanted × R, held × R. `outcomes` belong
    to the committed transactions, in their order. `counts` is the number of `jobs` from each requested lane (None: not
    requested), and `arrivals` the last arrival in the cell at that time.
    """

    position: Position
    full: bool
    rows: Rows
    outcomes: list[Outcome] = field(default_factory=list)
    arrivals: int = 0
    counts: list[int | None] = field(default_factory=list)
    jobs: list[PendingJob] = field(default_factory=list)
    lanes: "Rows | None" = None


class Membership(NamedTuple):
    """A scheduler's right to commit: its name and incarnation."""

    member: str
    incarnation: int


class Heartbeat(NamedTuple):
    """The answer to a renewal by an agent: the number of agents, its machine's state, the machine's runs."""

    agents: int
    state: MachineState | None
    runs: list[Run]


class AgentRecord(NamedTuple):
    """A registered agent: its incarnation, whether its lease holds, and the length of a lease."""

    incarnation: int
    lives: bool
    lease_ms: int


def executor_of(agent: str) -> str:
    """Return the name of an agent's executor and member, given its machine."""
    return f"agent/{agent}"


class Fact(NamedTuple):
    """One entry of the log: version, time (ms, the client's clock), author, words."""

    version: int
    at_ms: int
    by: str
    words: tuple[str, ...]


class KindUse(NamedTuple):
    """Use of the jobs of a kind, and the kind's limits."""

    limits: Limits
    jobs: int
    used: Resources


class Housekept(NamedTuple):
    """Result of a call of housekeeping: tasks ended, lost tasks queued again, and whether more is due now."""

    ended: int
    queued: int
    more: bool


class Submitted(NamedTuple):
    """Result of a submission: ``new``, ``same`` (already stored), ``id`` or ``name`` (taken, by `holder`).

    ``pool``: pools are configured, and `holder` is no leaf of them. ``after``: it depends on `holder`, which does not
    exist; ``never``: which did not finish and never will. `modified` is the job's modify index, 0 when it was refused.
    """

    id: str
    status: str
    holder: str = ""
    modified: int = 0


class Cell(PoolPort, Protocol):
    """All operations on a cell for schedulers, executors and people.

    Times are milliseconds of the caller's clock; a cell has no clock except for the expiry of leases.
    """

    name: str
    dimensions: Dimensions

    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        """Add machines, or bring them back; returns their indices.

        They are up when their executor lives, else offline. Refused while one has tasks of another executor.
        """

    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        """Change a machine's state; returns the number of requeued tasks.

        When a machine is set down or removed, its tasks are pending again at once. While its executor lives they are
        also leaving, until it acknowledges their end or its lease expires (semantics 23). Setting a machine up makes it
        offline while its executor does not live. BadInput for `OFFLINE`.
        """

    def set_machine_capacity(
        self, index: int, capacity: Resources, at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Change a machine's capacity, with the evictions it needs; Refused when it would be over."""

    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        """Change attributes of a machine; None removes one. Refused when there is no such machine."""

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        """Submit jobs; a job already stored under its id changes nothing.

        The store holds a job that waits for others (`JobSpec.after`). The call that ends the last of them releases it,
        or stops it when one did not end as required, and so on along the chain.
        """

    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        """Stop or abandon a job: unplaced tasks end now, running ones by `housekeep`; Refused for an unknown job.

        With `keep` the running tasks of an abandoned job continue until it is stopped.

        `check`, here and below, is the modify index the caller read: Overtaken when it changed since. A change that is
        already in effect changes nothing, whatever the index.
        """

    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Stop new placements of a job; running tasks continue. Refused when it has ended."""

    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Undo `hold`; a job that waits for others keeps waiting. Refused when it has ended."""

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

        Any live scheduler calls it, repeatedly while more is due.
        """

    def placed_by(self) -> Sequence[tuple[int, int]]:
        """Return the last placement id by the minute, as (ms of the server's clock, id), newest first.

        `housekeep` records them, as ages of placements. Of those older than 16 minutes one is kept per eighth of its
        age, up to a week.
        """

    def resize(
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
        seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
    ) -> Job:  # fmt: skip
        """Set the totals of task groups by position, 0 or more (semantics 4); returns the job afterwards.

        Added tasks are pending, with the next indices, which no task of the group had before. Pending tasks are removed
        first, highest index first, then running ones, newest index first: they are stopped (their executor receives
        ``-``), stay as leaving until their end is acknowledged, and are no longer counted. Totals are absolute, so
        repeating the call changes nothing; several groups in one call move tasks between them atomically. The store
        drops tasks of an optional group (`TaskGroup.optional`) when they are evicted, lost or failed: its total falls
        and nothing becomes pending; call `resize` to add more. Only `total` and `unplaced` of the result, not `placed`,
        give the new size; a job with only empty groups is done. Refused when the job or a group does not exist, the job
        has ended, or more tasks have ended than `totals` allows.

        Programs pass `seen`, the totals by group that they decided on: Overtaken when one of them changed. The job's
        modify index, which marks changes by people, then stays. With `placed`, the placed tasks by group that they
        decided on, it is Overtaken when these changed as well.
        """

    def update(
        self, job_id: str, groups: Sequence[TaskGroup], extra: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        """Begin an update: add `groups`, empty, whatever their count; `extra` replaces the job's.

        ``groups`` in `extra` lists the extras of all groups, including old ones. The update is ``rolling`` until
        `settle`: meanwhile `resize` moves tasks from old groups to new ones (schedulers/rolling.py). Refused when the
        job does not exist, has ended, or has too many groups. the job is not there, has ended, or has too many groups.
        """

    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        """End a rolling update as done, or as stalled with a `reason`. Returns whether there was one.

        A stalled one is deleted with its job.
        """

    def retire(self, now_ms: int, most: int = 1_000) -> int:
        """Delete finished jobs older than the cell keeps them, at most `most`; returns their number.

        `now_ms` is the server's clock (`RedisCell.store_ms`), never a client's (semantics 30).
        """

    def updates(self) -> Mapping[str, str]:
        """Return unfinished updates by job id: ``rolling``, or ``stalled`` and the reason."""

    def commit(
        self,
        membership: Membership,
        number: int,
        transactions: Sequence[Transaction],
        since: Position,
        at_ms: int,
        intake: Intake | None = None,
        executors: Iterable[int] = (),
    ) -> Reply:
        """Validate transactions in order and apply accepted claims. Fenced when the caller may not commit."""

    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        """Return the changes since a position."""

    def end(self, endings: Sequence[Ending], at_ms: int, by: str) -> list[int]:
        """End tasks; returns for each ending the number of tasks it ended."""

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        """Return for (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""

    def register_scheduler(self, member: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register a scheduler's name; Duplicate when a live one has it."""

    def deregister_scheduler(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        """Deregister, or remove a member with an expired lease."""

    def set_blocked(self, member: str, *, blocked: bool) -> None:
        """Set whether a scheduler has blocked jobs: if so, freed room and changed machines notify it.

        Clients that free room must know the live members (`may_wake`).
        """

    def register_executor(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register a simulated executor, and bring its offline machines up; Duplicate while another lives.

        A successor takes over the runs on its machines. `renew_executor` renews the lease; `deregister_executor` gives
        up the name and the machines.
        """

    def executor_records(self) -> Mapping[str, ExecutorRecord]:
        """Return every live executor, agents (``agent/NAME``) included, by its name."""

    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register an agent for its machine; Duplicate while another lives, Refused for a machine of another executor.

        An agent presenting the recorded nonce continues its incarnation and its tasks.
        """

    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        """Renew an executor's lease and return its machine's runs; Fenced when the lease expired."""

    def deregister_executor(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        """Requeue the tasks of an executor with an expired lease, or, not `reaped`, of one that leaves; idempotent.

        The machines become offline unless they are drained or down; the machine of an agent that leaves becomes gone.
        """

    def agents(self) -> Mapping[str, AgentRecord]:
        """Return every registered agent by its name."""

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        """Store the last output of tasks, by job, group, task and stream; its size is bounded, and it expires."""

    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        """Return the last output of a task, if there is any."""

    def claim_shard(self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int) -> Errand:
        """Return the next errand of a MapReduce worker; the same one until `end_shard`.

        `maps` and `reduces` are the numbers of shards, from the job's first worker; `at_ms` is the time of the store's
        clock. Failed shards come last, after a delay (`RETRY_MS`), and on another machine if there is one.
        """

    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None,
    ) -> bool:  # fmt: skip
        """Record that a worker finished its shard, or failed on it; False when the shard is no longer its own.

        `failed_ms`: time of the failure, by the store's clock. When all shards are done, their mean durations are
        stored under the job's `name`.
        """

    def progress(self, job_id: str) -> Progress | None:
        """Return the progress of a MapReduce job; None before its first worker."""

    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        """Return the marks of the workers that finished the first `count` shards of a phase (`Worker.mark`)."""

    def durations(self, name: str) -> ShardDurations | None:
        """Return the stored durations of MapReduce jobs of this name; None before one finished."""

    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        """Set the limits on all jobs of a kind together."""

    def kinds(self) -> Mapping[str, KindUse]:
        """Return limits and use by kind."""

    def machines(self) -> list[Machine]:
        """Return every machine that is not gone, by index."""

    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        """Return the machines of these indices, in their order, without those that are gone or never existed."""

    def described(self, indices: Sequence[int]) -> list[Described]:
        """Return names and attributes of the given machines, also of gone ones; empty for those that never existed."""

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """Return the runs on the given machines."""

    def job(self, job_id: str) -> Job | None:
        """Return a job, or None."""

    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        """Return those of some jobs that are stored, without the parts that only schedulers and executors read."""

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """Return the ids of live jobs by name, for those of `names` that exist."""

    def job_id(self, name: str) -> str | None:
        """Return the id of the live job of a name, or None."""

    def jobs(self) -> list[Job]:
        """Return every stored job, in order of submission."""

    def job_heads(self) -> list[JobHead]:
        """Return a summary of every stored job, in no order."""

    def job_page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        """Return the `most` newest jobs (None: all) before the `before`-th submission, in order of submission.

        Only jobs that `keep` accepts and that `user` submitted. The page's `before` begins the next page.
        """

    def pending(self, most: int | None = None) -> Mapping[str, list[str]]:
        """Return ids of pending jobs by kind, in the order of becoming pending; at most `most` of each kind."""

    def lanes(self, numbers: Sequence[int] | None = None) -> "Mapping[int, tuple[int, Lane]]":
        """Return the serials and names of existing lanes (None: all)."""

    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        """Return the facts of at most `most` versions after `since`; with `kinds` only those with such a first word."""


class StaleSnapshot(Exception):
    """A delta does not begin at the snapshot's position."""


Opaque = Mapping[str, Any]

"""The ports of a cell, one for each kind of caller; the store and the same in memory implement all of them.

Times are milliseconds of the caller's clock; a cell has no clock except for the expiry of leases.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from omega.cellstate.cuts import LooksBack
from omega.cellstate.digest.hours import Owner
from omega.cellstate.digest.values import DigestStep, Undigested
from omega.cellstate.durability import Durability
from omega.cellstate.events import Fact, LogEntry
from omega.cellstate.executors import ExecutorRecord
from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.model import (
    Described,
    Job,
    JobSpec,
    JobState,
    Limits,
    Machine,
    MachineSettings,
    MachineSpec,
    MachineState,
    Run,
    TakeOver,
    TaskGroup,
)
from omega.cellstate.pages import CellSums, JobHead, JobPage, Keep
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.refused_writes import StoreState
from omega.cellstate.replies import (
    Awaited,
    Budget,
    ChangedRecords,
    CommitRequest,
    EpochMark,
    Heartbeat,
    Housekept,
    KindUse,
    Membership,
    NewestFacts,
    Original,
    Reply,
    Submitted,
)
from omega.cellstate.resources import Dimensions
from omega.cellstate.shards import Errand, Progress, ShardDurations, Worker
from omega.cellstate.tasks import HealthAnswer, HealthReport, OutputPart, OutputRequest, TaskEnd, TaskProgress
from omega.cellstate.transaction import Intake, Position

if TYPE_CHECKING:
    from omega.cellstate.primary import Damage, Reading  # numpy, which most commands do not need

# The connection of a process to a cell, and reads of the cell. Every caller may read.


class Session(LooksBack, Protocol):
    """The connection of a process to one cell: whether the cell exists or lost versions, and its store's clock."""

    name: str
    dimensions: Dimensions
    url: str
    """Where its store is; "" for a cell in memory."""
    durability: Durability
    """What a change needs before it is acknowledged, as read when the cell was opened."""
    unchecked: bool
    """Whether the durability requires settings of the server that this user may not read."""
    dry: bool
    """Whether changes are only checked and answered: what is read afterwards is as before."""

    def account(self) -> str:
        """Return the connection's user of the server when it is one person's; "" for the default and for roles."""

    def close(self) -> None:
        """Close the connections."""

    def check_exists(self, *, any_schema: bool = False) -> str:
        """Return the names of its resources; Refused when there is no such cell (any more), Unsuitable as in `open`."""

    def check_there(self) -> None:
        """Raise CellGone, which a process at work waits for, when there is no such cell now, or not one like it."""

    def store_ms(self) -> int:
        """Return the server's clock, the one that all agents share, in milliseconds since 1970."""

    def store_run(self) -> str:
        """Return the id of the server's run; another run may have less data (semantics 16)."""

    def store_older_than(self, milliseconds: int) -> bool:
        """Return whether the server has been up for so long, and the cell was not restored recently."""


class MachineQueries(Protocol):
    """Reads of machines, of the runs on them and of executors."""

    def machines(self) -> list[Machine]:
        """Return every machine that is not gone, by index."""

    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        """Return the machines of these indices, in their order, without those that are gone or never existed."""

    def machine_index(self, name: str) -> int | None:
        """Return the index of a machine by its name."""

    def machine_indices(self, names: Sequence[str]) -> dict[str, int]:
        """Return the indices of machines by name, also of gone ones; unknown names are left out."""

    def indices_of_prefix(self, prefix: str, most: int) -> list[int]:
        """Return the indices of at most `most` machines whose names begin so, also of gone ones; scans all names."""

    def machines_of(self, executor: str) -> list[tuple[int, MachineState]]:
        """Index and state of every machine of an executor, gone ones included, by index."""

    def machine_count(self) -> int:
        """How many machines ever joined."""

    def settings_of(self, indices: Sequence[int]) -> list[MachineSettings]:
        """Return what operators set of machines."""

    def described(self, indices: Sequence[int]) -> list[Described]:
        """Return names and attributes of the given machines, also of gone ones; empty for those that never existed."""

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """Return the runs on the given machines."""

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        """Return for (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""

    def refuses_writes(self) -> str:
        """Return why the server refuses writes, with the remedy; empty when it does not."""

    def store_state(self) -> StoreState:
        """Return the replicas and the memory of the server, and why it refuses writes."""

    def placed_by(self) -> Sequence[tuple[int, int]]:
        """Return the last placement id by the minute, as (ms of the server's clock, id), newest first.

        `housekeep` records them, as ages of placements. Of those older than 16 minutes one is kept per eighth of its
        age, up to a week.
        """

    def deadlines(self) -> dict[int, int]:
        """Return the drained machines with a deadline for their tasks, and milliseconds until it; below 0 when past."""

    def agents(self) -> Mapping[str, ExecutorRecord]:
        """Return every registered agent by its name."""

    def executor_records(self) -> Mapping[str, ExecutorRecord]:
        """Return every live executor, agents (``agent/NAME``) included, by its name."""

    def executor_number(self, executor: str) -> int:
        """Return the number of an executor's mailbox; Refused when it never joined a machine."""


class JobQueries(Protocol):
    """Reads of jobs, of the queue and of the output of tasks."""

    def job(self, job_id: str) -> Job | None:
        """Return a job, or None."""

    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        """Return those of some jobs that are stored, without the parts that only schedulers and executors read."""

    def running(self, ids: Sequence[str]) -> dict[str, list[int]]:
        """Return how many tasks of each group run, of those of some jobs that are stored; their runs are not read."""

    def tasks_by_machine(self, job_id: str) -> dict[int, int]:
        """Return how many tasks of a job run on each machine, without those that are leaving; empty if not stored."""

    def specs(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the fields of jobs that only schedulers and executors read; empty for a job that is not stored."""

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """Return the id of the newest job of each of some names, live or ended, where one is kept."""

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

    def newest_ids(self, most: int) -> list[str]:
        """Return the ids of the `most` jobs that were submitted last, the newest first."""

    def job_count(self) -> int:
        """How many jobs are kept."""

    def live_job_count(self) -> int:
        """How many jobs have not ended."""

    def job_ids(self) -> list[str]:
        """Ids of every job that is kept, in no order."""

    def job_names(self) -> dict[str, str]:
        """Return the names of jobs, and the id of the newest of each; read a few thousand at a time."""

    def pending(self, most: int | None = None) -> Mapping[str, list[str]]:
        """Return ids of pending jobs by kind, in the order of becoming pending; at most `most` of each kind."""

    def queue_depths(self) -> dict[str, int]:
        """How many jobs of each kind are pending."""

    def lanes(self, numbers: Sequence[int] | None = None) -> Mapping[int, tuple[int, Lane]]:
        """Return the serials and names of existing lanes (None: all)."""

    def copied_jobs(self, kind: str) -> Sequence[str]:
        """Return the jobs of a kind whose tasks may have copies, and some that ended (`speculate`)."""

    def updates(self) -> Mapping[str, str]:
        """Return unfinished updates by job id: ``rolling``, or ``stalled`` and the reason."""

    def update_state(self, job_id: str) -> str:
        """Return the state of the update of a job as `updates` has it, "" without an unfinished one."""

    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        """Return the last output of a task, if there is any."""

    def ready(self, job_id: str) -> frozenset[tuple[int, int]]:
        """Return the tasks of a job, (placement, index), whose readiness command passed (`report_health`)."""

    def unsteady(self, job_id: str) -> frozenset[tuple[int, int]]:
        """Return the tasks of a job, (placement, index), that are down, or whose end was granted (`report_health`)."""

    def reported_progress(self, job_id: str, machines: Sequence[int]) -> Mapping[int, Sequence[TaskProgress]]:
        """Return how far the tasks of a job on some machines have come, by machine, as far as they report it."""

    def measured(self, job: str) -> list[bytes]:
        """Return what agents measured of a job's ended tasks, a record for each group and machine (`measured`)."""

    def progress(self, job_id: str) -> Progress | None:
        """Return the progress of a MapReduce job; None before its first worker."""

    def durations(self, name: str) -> ShardDurations | None:
        """Return the stored durations of MapReduce jobs of this name; None before one finished."""

    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        """Return the marks of the workers that finished the first `count` shards of a phase (`Worker.mark`)."""


class RecordQueries(Protocol):
    """Reads of the records that outlive the log (cellstate/digest)."""

    def histories(self, ids: Sequence[str]) -> Mapping[str, bytes]:
        """Return the records of the histories of those jobs that have one."""

    def job_history(self, job_id: str) -> tuple[bytes, bytes]:
        """Return the record of the digest's position, and of the history of a job at that position; empty: none."""

    def newest_facts(self, since: int, text: str = "") -> NewestFacts:
        """Return the facts after version `since` in lines of the log that have a text (empty: all).

        At most the newest `MOST_VERSIONS` entries are read, and no more of them once these are of `MOST_BYTES`
        (cellstate/digest/values.py). A line of placements has the id of its job.
        """

    def result_records(self, fields: Sequence[str]) -> Mapping[str, bytes]:
        """Return records of results: of an id the list of the job's chunks, of ``id group chunk`` the chunk."""

    def usage_hour(self, hour: int) -> bytes:
        """Return the record of the use in an hour (hours since 1970); empty when there is none."""

    def usage_hours(self, hours: Iterable[int]) -> Mapping[int, bytes]:
        """Return the records of those of some hours that have one."""

    def digest_position(self) -> bytes:
        """Return the record of the position that the digest of the log has reached; empty before the first step."""


class Audited(Session, MachineQueries, JobQueries, RecordQueries, Protocol):
    """A cell that can be audited. All methods only read, and raise StoreError.

    A live cell changes while it is read. Every change writes a fact that names the machines and jobs it changed, so a
    reading in chunks becomes exact once all records named meanwhile are read again in one call (semantics 18).
    """

    unreadable: dict[tuple[str, str], str]
    """Records that could not be read and were left out: (key, field) → reason."""

    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        """Return the machines changed since a position; with `intake` also the next jobs of a scheduler."""

    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        """Return the facts of at most `most` versions after `since`; with `kinds` only those with such a first word."""

    def log_entries(self, since: int = 0, most: int = 1000) -> list[LogEntry]:
        """Return at most `most` entries of the log after version `since`, as they are stored."""

    def counters(self) -> dict[str, int]:
        """Return the cell's version, floor and other counters; a missing one is 0."""

    def unusable(self) -> "list[Damage]":
        """Return keys of another type than a cell's, and counters that are no numbers: scripts fail on them."""

    def read_records(self, told: Callable[[str], object] = str) -> "Reading | None":
        """Read the primary records of the cell at one version and its indexes; None if it changes too fast.

        `told` is called with what was read so far.
        """

    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        """Read the records that the facts after version `since` name, in one call.

        Facts are read up to `most` machines and jobs; with 0 only the counters are read.
        """


class Queries(Audited, Protocol):
    """All reads of a cell."""

    def kinds(self) -> Mapping[str, KindUse]:
        """Return limits and use of each kind that has limits or placed tasks."""

    def limited_kinds(self) -> Mapping[str, KindUse]:
        """Return limits and use of each kind that has limits."""

    def pools(self) -> Pools:
        """Return the pools that operators configured."""

    def demands(self, since: Position) -> tuple[Reply, list[JobDemand]]:
        """Return what all live jobs hold and want, and machines changed since a position: both at one version."""

    def epoch(self) -> Epoch | None:
        """Return the published fair shares, if there are any (semantics 34)."""

    def epoch_mark(self) -> EpochMark:
        """Return number, time and versions of the last epoch, to detect a new or a due one."""

    def pool_use(self) -> Mapping[str, PoolUse]:
        """Return the use of pools that carry limits, by name."""

    def log_length(self) -> int:
        """How many versions are in the log."""

    def sums(self) -> CellSums:
        """Return sums over all machines and jobs, of one version; the store keeps them."""

    def chores(self) -> dict[str, int]:
        """Jobs that housekeeping has to act on: from when, in ms of the server's clock."""

    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        """Return every scheduler on record: incarnation, whether its lease holds, its last figures."""

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the last figures of every scheduler, also of those that left."""


# Operations that several callers have.


class EndTasks(Protocol):
    """Ends of tasks, reported by executors, or caused by operators and housekeeping."""

    def end(self, endings: Sequence[TaskEnd], at_ms: int, by: str) -> list[int]:
        """End tasks; returns for each ending the number of tasks it ended."""


class ClaimDirectories(Protocol):
    """Output directories of MapReduce jobs, claimed at submission and by the first worker."""

    def claim_directory(self, path: str, job_id: str, *, expire_ms: int) -> str | None:
        """Claim a directory for a job for `expire_ms`, or give it up with 0; return the id of the live job that has it.

        A job has a directory with all that is in it. None: it is the job's now. A job that has ended has none. The
        claim of a job that is not stored holds for `UNSENT_MS`, the time that its submission may take.
        """

    def directories(self) -> dict[str, str]:
        """Return the claimed directories and the ids of their jobs, which may have ended."""


class ClaimJobs(Protocol):
    """Jobs that may go to one of several cells: one of these cells holds the decision about each."""

    def claim_jobs(self, ids: Sequence[str], name: str, *, expire_ms: int) -> list[str]:
        """Decide that jobs go to the cell `name`; return the cell of each, another one if that was decided before.

        A decision ends after `expire_ms` milliseconds by the server's clock.
        """


class JoinMachines(Protocol):
    """Machines enter a cell: with their executor, or added by an operator."""

    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        """Add machines, or bring them back; returns their indices.

        They are up when their executor lives, else offline. Refused while one has tasks of another executor. A machine
        that came back with other attributes may be in another pool tree, as after `set_machine_attributes`.
        What operators set of a machine stays: its state, amounts and attributes (semantics 36).
        """


class StopJobs(Protocol):
    """Jobs are stopped by users, and abandoned by schedulers."""

    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        """Stop or abandon a job: unplaced tasks end now, running ones by `housekeep`; Refused for an unknown job.

        With `keep` the running tasks of an abandoned job continue until it is stopped.

        `check`, here and below, is the modify index the caller read: Overtaken when it changed since. A change that is
        already in effect changes nothing, whatever the index.
        """


class ChangeTotals(Protocol):
    """Totals of task groups change: by users, by steps of an update, by elastic jobs."""

    def resize(  # noqa: PLR0913, PLR0917 - what it was decided on, and what it changes
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
        seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
        spec: Mapping[str, Any] | None = None, takes: Mapping[int, TakeOver] | None = None,
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
        decided on, it is Overtaken when these changed as well, also those of groups that are not in `totals`. `spec`
        replaces the job's in the same call. `takes`: groups whose added tasks are not the next ones, see `TakeOver`.
        """


class NotifySchedulers(Protocol):
    """Notification of schedulers: of room that is freed and of work that is added."""

    def may_wake(self, members: Iterable[str]) -> None:
        """Set the live schedulers, which later calls notify."""

    def read_live_schedulers(self) -> None:
        """Read the live schedulers, which later calls notify."""

    def rouse(self, member: str) -> None:
        """Notify a waiting scheduler without new work."""


class SetLimits(Protocol):
    """Limits on jobs: set by operators, with commands or from Python."""

    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        """Set the limits on all jobs of a kind together."""


class DrainDeadlines(Protocol):
    """Deadlines of drained machines: set by operators, forgotten by housekeeping."""

    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        """Set the time (ms from now) at which a drained machine's tasks are evicted; None removes it."""


class SetPools(Protocol):
    """Changing pools."""

    def set_pools(self, pools: Pools, check: int | None, at_ms: int, by: str) -> Pools:
        """Replace the pools of the cell; returns them with their numbers and their version.

        With `check` None whatever their version is, and also when the record cannot be read.

        `check` is the version of the pools that the caller read: Overtaken when they were modified since. Refused when
        a pool with live jobs would be removed or get pools below it; BadInput for pools that break a rule of
        pools/rules.py. A pool that moves takes its running tasks along: its use counts below its new ancestors at once,
        and an ancestor above its limit takes nothing until the limit is met again. Equal pools change nothing.

        Tasks on machines of another tree than that of their pool are evicted (`AssignTrees`).
        """


class AssignTrees(Protocol):
    """The pool trees of machines, where trees divide them."""

    def assign_trees(self, at_ms: int, by: str) -> int:
        """Assign the machines that are in no tree yet, and evict tasks of other trees; returns their number.

        A machine without an assigned tree takes no tasks. `join`, `set_machine_attributes` and `set_pools` leave
        machines so, then call this; a live process of the cell calls it for a caller that died in between.
        """


class Housekeeping(Queries, EndTasks, DrainDeadlines, AssignTrees, NotifySchedulers, Protocol):
    """What any live scheduler or agent does for the whole cell."""

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

        Any live scheduler calls it, repeatedly while more is due.
        """

    def undigested(self, most: int) -> Undigested:
        """Return the position of the digest and the next entries of the log, at most `most` (cellstate/digest)."""

    def digest(self, step: DigestStep) -> bool:
        """Write a step of the digest; returns False, with nothing changed, if it is not the next one any more."""

    def owners(self, ids: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """Return user and pool of those of some jobs that have a specification."""

    def held(self) -> tuple[int, Mapping[Owner, tuple[int, ...]]]:
        """Return the version of the cell, and what the placed tasks of each account hold at that version."""

    def retire(self, now_ms: int, most: int = 1_000) -> int:
        """Delete finished jobs older than the cell keeps them, at most `most`; returns their number.

        `now_ms` is the server's clock (`Session.store_ms`), never a client's (semantics 30).
        """

    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        """Requeue the tasks of executors with expired leases; return their names. Any process may call it.

        Not within one lease of a start of the store: after an outage every lease has expired (semantics 17).
        """


# Calls of scheduler processes.


class SchedulerStore(Housekeeping, StopJobs, ChangeTotals, Protocol):
    """The port of schedulers: lease, transactions, wake-up, updates, housekeeping."""

    def register_scheduler(
        self, member: str, nonce: str, lease_ms: int, at_ms: int, settings: Mapping[str, Any] | None = None
    ) -> Membership:  # fmt: skip
        """Register a scheduler's name; Duplicate when a live one has it. `settings`: of the scheduler, for the log."""

    def renew_scheduler(self, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
        """Renew the lease and leave `figures`; returns the live members. Fenced when it lapsed."""

    def deregister_scheduler(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        """Deregister, or remove a member with an expired lease."""

    def commit(self, request: CommitRequest) -> Reply:
        """Validate transactions in order and apply accepted claims. Fenced when the caller may not commit."""

    def begin(self, request: CommitRequest) -> None:
        """Send a commit without waiting; `finish` returns its reply. One may be in flight."""

    def resend(self) -> None:
        """Send the commit in flight once more, on a new connection (semantics 14)."""

    def finish(self) -> Reply:
        """Wait for the commit in flight. After StoreError, `resend` sends it again without harm."""

    def set_blocked(self, member: str, *, blocked: bool, awaited: Awaited = ()) -> None:
        """Set whether a scheduler has blocked jobs: if so, freed room and changed machines notify it.

        Placements of the jobs `awaited`, by name, notify it as well. Clients that free room must know the live members
        (`may_wake`).
        """

    def wait_for_work(self, member: str, seconds: float) -> bool:
        """Wait for work for this scheduler, at most `seconds`; sync afterwards.

        The token is read before it is removed, so a lost reply does not lose it (semantics 25).
        """

    def gate(self, job_id: str, reason: str, at_ms: int, by: str) -> Job:
        """Hold a job for a reason of its scheduler's gate, or release it from that (reason ""); returns the job.

        A job that a person released from its gate stays released. Refused when it has ended.
        """

    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        """End a rolling update as done, or as stalled with a `reason`. Returns whether there was one.

        A stalled one is deleted with its job.
        """

    def note_attempts(self, jobs: Sequence[str], at_ms: int, by: str) -> int:
        """Record that the first attempt of these jobs placed nothing: their wait is over. Returns how many are new.

        A job of which something was placed since then stays unchanged.
        """

    def speculate(
        self, job_id: str, originals: Sequence[Original], budget: Budget, at_ms: int, by: str
    ) -> list[Original]:
        """Add copies of running tasks to the group for copies behind theirs, within a budget; returns these tasks.

        They wait like other tasks, are placed on another machine than their original, and evict nothing. What ends one
        of the two ends or promotes the other (semantics 41). A task that no longer runs so, or has a copy, is left out.
        A job that ended leaves `copied_jobs`.
        """

    def next_epoch(self) -> int:
        """Return the number of the next epoch, also when the record of the last one cannot be read."""

    def publish_epoch(self, epoch: Epoch, period_ms: int, at_ms: int) -> int:
        """Publish an epoch: the first of its number wins; returns the cell's version then, 0 when it is not taken.

        Nor is it within `period_ms` of the epoch before, or when the pools were changed since it was computed.
        """


# Calls of executors and of MapReduce workers.


class ShardStore(Queries, ClaimDirectories, Protocol):
    """The port of MapReduce workers."""

    def claim_shard(
        self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int, near: Sequence[str] = ()
    ) -> Errand:  # fmt: skip
        """Return the next errand of a MapReduce worker; the same one until `end_shard`.

        `maps` and `reduces` are the numbers of shards, from the job's first worker; `at_ms` is the time of the store's
        clock. Failed shards come last, after a delay (`RETRY_MS`), and on another machine if there is one. `near`:
        disjoint sets of maps (ranges) that the worker takes, best first; without any, it takes all.
        """

    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None, level: int | None = None,
    ) -> bool:  # fmt: skip
        """Record that a worker finished its shard, or failed on it; False when the shard is no longer its own.

        `failed_ms`: time of the failure, by the store's clock. `level`: the level of a map's locality for the worker's
        machine, None for a map without one. When all shards are done, their mean durations are
        stored under the job's `name`.
        """


class ExecutorStore(Housekeeping, JoinMachines, Protocol):
    """The port of agents and simulated executors: lease, messages, ends of tasks."""

    def register_executor(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register a simulated executor, and bring its offline machines up; Duplicate while another lives.

        A successor takes over the runs on its machines. `renew_executor` renews the lease; `deregister_executor` gives
        up the name and the machines.
        """

    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register an agent for its machine; Duplicate while another lives, Refused for a machine of another executor.

        An agent presenting the recorded nonce continues its incarnation and its tasks.
        """

    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        """Renew an executor's lease and return its machine's runs; Fenced when the lease expired.

        HistoryCut, here and from `end`, `may_start` and `receive`, once the store is found to have lost versions that
        this object saw: what the executor runs may be other tasks of the cell. Register again.
        """

    def report_fitness(self, membership: Membership, machines: Sequence[int], reason: str, at_ms: int) -> None:
        """Record why an executor cannot start tasks, or that it can again (""); Fenced when its lease expired.

        Those of its machines that are up are unfit meanwhile: they take no claims and keep their tasks.
        """

    def confirm_runs(self, executor: str) -> None:
        """Record that an executor runs only tasks that the cell lists; after a cut new tasks wait for that."""

    def deregister_executor(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        """Requeue the tasks of an executor with an expired lease, or, not `reaped`, of one that leaves; idempotent.

        The machines become offline unless they are drained or down; the machine of an agent that leaves becomes gone.
        """

    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Read messages for an executor, oldest first; waits up to `wait_seconds` for the first one.

        A message stays in the store until this object calls again, which acknowledges the previous result. So a lost
        reply, and a reader that ends, lose nothing (semantics 25); another object reads unacknowledged messages again.

        ``+ placement machine job group tasks duration_ms hold`` starts tasks, ``- placement machine tasks`` ends them,
        ``!`` marks dropped messages: read everything; ``? …`` asks for output (cellstate/tasks.py). `most` is the
        number of calls whose messages are read, which come together.
        """

    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Read messages as `receive` does; placements of a job that follow one another may share a line.

        ``+ job group duration_ms hold placement`` is followed by machine and tasks of each. The first has
        this placement id, each further one the next. The last message of all may have more words behind ``!``.
        """

    def report_health(self, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
        """Keep what the health checks of a job's tasks on a machine found; grant the end of unhealthy ones.

        `now_ms` is the time of the store's clock. `cursor` is that of the answer before: each call removes some records
        of jobs that are no longer kept.
        """

    def report_progress(self, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
        """Keep how far the tasks of a job on a machine have come, in place of its report before; it expires."""

    def answer_output(self, name: str, part: OutputPart) -> None:
        """Answer a request for output (``? …`` in the mailbox) for the client that waits for it; it expires."""

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        """Store the last output of tasks, by job, group, task and stream; its size is bounded, and it expires."""


# Calls of clients: changes of jobs by users, changes of machines by operators.


class RequestOutput(Queries, Protocol):
    """The port of clients that read the output of tasks where agents keep it."""

    def request_output(self, executor: int, request: OutputRequest) -> bool:
        """Ask an agent, by the number of its mailbox, for output of a task; `output_part` returns the answer.

        Returns False when its mailbox has too many messages: the agent does not read it, or has enough to do.
        """

    def output_part(self, name: str) -> OutputPart | None:
        """Return the answer to the request of this name; None while there is none, or when it expired."""


class JobStore(
    RequestOutput, EndTasks, StopJobs, ChangeTotals, ClaimDirectories, ClaimJobs, SetLimits, SetPools, Protocol
):
    """The port of clients and commands that change jobs, their limits and pools."""

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        """Submit jobs; a job already stored under its id changes nothing.

        The store holds a job that waits for others (`JobSpec.after`). The call that ends the last of them releases it,
        or stops it when one did not end as required, and so on along the chain.
        """

    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Stop new placements of a job; running tasks continue. Refused when it has ended."""

    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Undo `hold`; a job that waits for others keeps waiting. Refused when it has ended."""

    def update(
        self, job_id: str, groups: Sequence[TaskGroup], spec: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        """Begin an update: add `groups`, empty, whatever their count; `spec` replaces the job's.

        ``groups`` in `spec` lists the specs of all groups, including old ones. The update is ``rolling`` until
        `settle`: meanwhile `resize` moves tasks from old groups to new ones (schedulers/rolling.py). Refused when the
        job does not exist, has ended, or has too many groups.
        """


class OperatorStore(Queries, EndTasks, DrainDeadlines, JoinMachines, SetLimits, SetPools, Protocol):
    """The port of commands that change machines, limits and pools."""

    def set_durability(self, durability: Durability) -> None:
        """Change what a change needs before it is acknowledged; processes that have the cell open keep the old one.

        Raises Refused when too few replicas are connected, Unsuitable when the server does not sync as required.
        """

    def await_replicas(self) -> None:
        """Wait until replicas have all changes so far, where the cell requires it, also those of other clients.

        For a command that finds its change made. Raises NotReplicated.
        """

    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        """Change a machine's state; returns the number of requeued tasks.

        When a machine is set down or removed, its tasks are pending again at once. While its executor lives they are
        also leaving, until it acknowledges their end or its lease expires (semantics 23). Setting a machine up makes it
        offline while its executor does not live. BadInput for `OFFLINE`.
        """

    def set_machine_capacity(
        self, index: int, capacity: Sequence[int | None], at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Change a machine's capacity, with the evictions it needs; Refused when it would be over.

        None leaves an amount unchanged. The amounts given outlive the machine's executor (semantics 36).
        """

    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        """Change attributes of a machine; None removes one. Refused when there is no such machine.

        The change outlives the machine's executor (semantics 36).

        Where this moves the machine to another pool tree, the tasks of other trees on it are evicted.
        """


class Cell(SchedulerStore, ExecutorStore, ShardStore, JobStore, OperatorStore, Protocol):
    """All operations on a cell."""


class StoredCell(Cell, Protocol):
    """A cell on a server."""

    client: Any
    """The client of the server (redis.Redis), for backups, which read keys as they are."""

    def dry_run(self) -> AbstractContextManager[None]:
        """Let the changes of a block be refused and answered as ever, and change nothing."""

    def delete(self) -> None:
        """Remove the cell and everything in it, a few hundred keys at a time."""

    def upgrade(self) -> int:
        """Give the cell the rules of this Omega once no member lives; return the number that it had."""

"""The port: what a cell answers, whoever keeps it (`RedisCell`, `MemoryCell`)."""

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
    """A pending job as a scheduler receives it, without its runs; `arrival` orders how jobs became pending."""

    arrival: int
    job: Job


@dataclass(slots=True)
class Reply:
    """The answer to a sync or a commit.

    `rows` are the changed machines, or all of them when `full`; apply them in order. `lanes` are rows of lanes,
    likewise: index (lanes.BASE + number), serial, jobs pending, last arrival, wanted × R, held × R. `outcomes`
    belong to the committed transactions, in their order. `counts` says how many of `jobs` each lane gave that was
    asked (None: it was not), and `arrivals` the last arrival in the cell by then.
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
    """What an agent learns when it renews its lease: how many agents there are, its machine's state, what is on it."""

    agents: int
    state: MachineState | None
    runs: list[Run]


class AgentRecord(NamedTuple):
    """An agent on record: its incarnation, whether its lease holds, and how long a lease is."""

    incarnation: int
    lives: bool
    lease_ms: int


def executor_of(agent: str) -> str:
    """The executor, and the member's name, of the agent of a machine."""
    return f"agent/{agent}"


class Fact(NamedTuple):
    """One line of the log: under which version, when (ms, the client's clock), by whom, what."""

    version: int
    at_ms: int
    by: str
    words: tuple[str, ...]


class KindUse(NamedTuple):
    """What the jobs of a kind hold together, beside its limits."""

    limits: Limits
    jobs: int
    used: Resources


class Housekept(NamedTuple):
    """What a call of housekeeping did: tasks ended, lost tasks queued again, and whether more is due now."""

    ended: int
    queued: int
    more: bool


class Submitted(NamedTuple):
    """What became of a submission: ``new``, ``same`` (already there), ``id`` or ``name`` (taken, by `holder`).

    ``pool``: pools are configured, and `holder` is no leaf of them. ``after``: it would wait for `holder`, which is not
    there; ``never``: which did not finish and never will.
    `modified` is the job's modify index, 0 when it was refused.
    """

    id: str
    status: str
    holder: str = ""
    modified: int = 0


class Cell(PoolPort, Protocol):
    """Everything a scheduler, an executor or a person may ask of a cell.

    Times are milliseconds of the caller's clock; nothing in a cell has a clock of its own but the
    expiry of leases.
    """

    name: str
    dimensions: Dimensions

    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        """Add machines, or bring them back; returns their indices.

        They are up when their executor lives, else offline. Refused while tasks of another executor are still on one.
        """

    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        """Change a machine's state; returns the tasks put back.

        The tasks of a machine that is set down or removed are pending again at once. While its executor lives they
        are also leaving, until it acknowledges their end or its lease ends (semantics 23). A machine that is to be up
        is offline when its executor does not live. BadInput for `OFFLINE`.
        """

    def set_machine_capacity(
        self, index: int, capacity: Resources, at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Change a machine's capacity, with the evictions it needs; Refused when it would be over."""

    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        """Give a machine other attributes: those named, None takes one away. Refused when there is no such machine."""

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        """Submit jobs; one that is already there under its id changes nothing.

        One that waits for others (`JobSpec.after`) is held by the store until the call that ends the last of
        them, which releases it; or stops it when one ended otherwise than it should, and so on along the chain.
        """

    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        """Stop or abandon a job: what is unplaced ends now, running tasks by `housekeep`; Refused for an unknown job.

        With `keep` the running tasks of an abandoned job run on, until somebody stops it.

        `check`, here and below, is the modify index the caller read: Overtaken when it moved since. What is
        so already changes nothing, whatever the index.
        """

    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Give a job no new placements from now on; what runs of it runs on. Refused when it has ended."""

    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Undo `hold`; a job that waits for others goes on waiting. Refused when it has ended."""

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

        Any live scheduler does it, again while more is due.
        """

    def placed_by(self) -> Sequence[tuple[int, int]]:
        """The last placement id by the minute, as (ms of the server's clock, id), newest first: ages of placements.

        `housekeep` records them. Of those older than 16 minutes one is kept per eighth of its age, up to a week.
        """

    def resize(
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
        seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
    ) -> Job:  # fmt: skip
        """Give task groups, by their position, other totals, 0 or more (semantics 4); returns the job afterwards.

        Added tasks wait, with the next indices, which no task of the group had before. Taken away are first
        waiting tasks, those of the highest index, and then running ones, newest index first: they are stopped
        (an executor gets ``-`` for them), stay as leaving until their end is acknowledged, and count nowhere
        any more. Totals are absolute, so asking again changes nothing; with several groups in one call tasks
        move from one to the other at once. Of an optional group (`TaskGroup.optional`) the store drops tasks
        by itself when they are evicted, lost or failed: its total falls and nothing of it becomes pending;
        ask for more with `resize` again. Never `placed`, only `total` and `unplaced` of the answer say what
        the job is to have; a job whose groups are all empty is done. Refused when the job or a group is not
        there, has ended, or more tasks have ended already than `totals` says.

        A process, which resizes on nobody's word, says so with `seen`, the totals it decided on by group: Overtaken
        when one of them is another now, and the job's modify index stays, which tells what people changed. With
        `placed`, the placed tasks it decided on by group, it is Overtaken when these changed as well.
        """

    def update(
        self, job_id: str, groups: Sequence[TaskGroup], extra: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        """Begin an update: `groups` are added, empty, whatever their count says; `extra` is the job's from now on.

        Its ``groups`` lists the extras of all groups, old ones too. The update is ``rolling`` until `settle`:
        meanwhile tasks are moved from old groups to new ones with `resize` (schedulers/rolling.py). Refused when
        the job is not there, has ended, or has too many groups.
        """

    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        """End an update that is rolling: it is done, or with a `reason` stalled. Whether there was one.

        A stalled one is forgotten once its job is no longer kept.
        """

    def retire(self, now_ms: int, most: int = 1_000) -> int:
        """Forget finished jobs that are older than the cell keeps them, at most so many; returns how many.

        `now_ms` is the server's clock (`RedisCell.store_ms`), never a client's (semantics 30).
        """

    def updates(self) -> Mapping[str, str]:
        """Updates that are not done, by job id: ``rolling``, or ``stalled`` and why."""

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
        """Judge the transactions in order and apply what stands; Fenced when not entitled."""

    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        """Return what changed since a position."""

    def end(self, endings: Sequence[Ending], at_ms: int, by: str) -> list[int]:
        """End tasks; returns how many each ending took effect on."""

    def may_start(self, asked: Sequence[tuple[int, int]]) -> list[str]:
        """For (machine, placement) pairs: ``go``, ``wait`` or ``gone`` (semantics 2)."""

    def register_scheduler(self, member: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Take a scheduler's name; Duplicate when a live one has it."""

    def deregister_scheduler(self, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
        """Give the name up, or remove a member whose lease lapsed."""

    def set_blocked(self, member: str, *, blocked: bool) -> None:
        """Say whether a scheduler has jobs that fit nowhere: if so, freed room and machines that change wake it.

        Those who free room must know that it lives (`may_wake`).
        """

    def register_executor(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Take the name of a simulated executor, and bring its offline machines up; Duplicate while another lives.

        A successor takes over the runs on its machines. `renew_executor` renews the lease; `deregister_executor` gives
        up the name and the machines.
        """

    def executor_records(self) -> Mapping[str, ExecutorRecord]:
        """Every live executor on record, agents (``agent/NAME``) included, by its name."""

    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Take the name of an agent and of its machine; Duplicate while another lives, Refused when it is no agent's.

        With the nonce of an agent that is on record its incarnation goes on, and so do its tasks.
        """

    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        """Renew an agent's lease and learn what its machine is to run; Fenced when it lapsed."""

    def deregister_executor(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        """Put back what ran on the machines of an executor that lapsed, or, not `reaped`, that leaves; once.

        The machines are offline afterwards, unless somebody drained them or set them down; that of an agent that
        leaves is gone with it.
        """

    def agents(self) -> Mapping[str, AgentRecord]:
        """Every agent on record, by its name."""

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        """Keep the last words of tasks, by job, group, task and stream; they are bounded and expire."""

    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        """The last words of a task, when there are any."""

    def claim_shard(self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int) -> Errand:
        """Ask what a MapReduce worker is to do; again, and it is the same until `end_shard`.

        `maps` and `reduces` are the shards of each phase, as the job's first worker says; `at_ms` is the time by the
        store's clock. Shards that failed come last, after a while (`RETRY_MS`), and on another machine if there is one.
        """

    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None,
    ) -> bool:  # fmt: skip
        """A worker is done with its shard, or failed on it, after so long; False when it is not its own any more.

        `failed_ms`: when it failed, by the store's clock.
        How long activities take is remembered under the job's `name` once all are done.
        """

    def progress(self, job_id: str) -> Progress | None:
        """How far a MapReduce job is; None before its first worker asked for a shard."""

    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        """The marks of the workers that finished the first `count` shards of a phase (`Worker.mark`)."""

    def durations(self, name: str) -> ShardDurations | None:
        """How long the activities of MapReduce jobs of this name took, if one ran to its end."""

    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        """Set what all jobs of a kind may hold together."""

    def kinds(self) -> Mapping[str, KindUse]:
        """Limits and use by kind."""

    def machines(self) -> list[Machine]:
        """Every machine that is not gone, by index."""

    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        """The machines of these indices, in their order, without those that are gone or were never there."""

    def described(self, indices: Sequence[int]) -> list[Described]:
        """Names and attributes of the given machines, gone ones included; empty for those never there."""

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """The runs on the given machines."""

    def job(self, job_id: str) -> Job | None:
        """One job, or None."""

    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        """Those of some jobs that are kept, without what only schedulers and executors read."""

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """The ids of the live jobs among those of some names."""

    def job_id(self, name: str) -> str | None:
        """The id of the live job of a name, or None."""

    def jobs(self) -> list[Job]:
        """Every job that is kept, in order of submission."""

    def job_heads(self) -> list[JobHead]:
        """Every job that is kept, in short, in no order."""

    def job_page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        """The `most` newest jobs (None: all) submitted before the `before`-th submission, in order of submission.

        Only those that `keep` accepts and that `user` submitted. The page's `before` begins the next one.
        """

    def pending(self, most: int | None = None) -> Mapping[str, list[str]]:
        """Ids of the pending jobs by kind, in the order they became pending; at most so many of each kind."""

    def lanes(self, numbers: Sequence[int] | None = None) -> "Mapping[int, tuple[int, Lane]]":
        """The serials and names of some lanes (None: of all) that are there."""

    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        """Return the facts of at most `most` versions after `since`; with `kinds` only those with such a first word."""


class StaleSnapshot(Exception):
    """A delta was applied to a copy that does not stand where the delta begins."""


Opaque = Mapping[str, Any]

"""The connection of a process to a cell, and reads of the cell. Every caller may read."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from omega.cellstate.cuts import LooksBack
from omega.cellstate.durability import Durability
from omega.cellstate.events import Fact, LogEntry
from omega.cellstate.executors import ExecutorRecord
from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.machine_settings import MachineSettings
from omega.cellstate.model import Described, Job, Machine, MachineState, Run
from omega.cellstate.pages import JobHead, JobPage, Keep
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.refused_writes import StoreState
from omega.cellstate.replies import ChangedRecords, EpochMark, KindUse, NewestFacts, Reply
from omega.cellstate.resources import Dimensions
from omega.cellstate.shards import Progress, ShardDurations
from omega.cellstate.sums import CellSums
from omega.cellstate.task_progress import TaskProgress
from omega.cellstate.transaction import Intake, Position

if TYPE_CHECKING:
    from omega.cellstate.primary import Damage, Reading  # numpy, which most commands do not need


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

"""Replies of a cell, and values of the requests to it; the calls themselves are in `omega.cellstate.redis`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from operator import ge
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from omega.cellstate.events import Fact
from omega.cellstate.model import Job, Limits, MachineState, Run
from omega.cellstate.resources import Resources
from omega.cellstate.transaction import Basis, Intake, Outcome, Position, Transaction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rows: TypeAlias = "NDArray[np.int64]"
"""Machine records: one row a machine; columns index, number, state, executor, capacity × R,
allocated × R, in the smallest units of the cell's dimensions."""


ANY_JOB = "*"
MOST_AWAITED = 64
"""Names of jobs of which a scheduler awaits placements; one that awaits more is notified of the placements of any."""
Awaited: TypeAlias = tuple[str, ...]
"""Names of jobs whose placements may let blocked jobs be placed, or ANY_JOB."""


def awaited_of(names: Iterable[str]) -> Awaited:
    """Return the stored form of some names: all of them, or ANY_JOB for too many."""
    listed = tuple(sorted(names))
    return listed if len(listed) <= MOST_AWAITED else (ANY_JOB,)


class Waits(NamedTuple):
    """What the blocked jobs of a scheduler wait for, besides freed room: placements of the jobs `awaited`, by name.

    `least`: what each of their tasks needs at least, in the cell's smallest units; without it, all freed room notifies
    the scheduler. `lanes`: further lanes whose jobs this scheduler alone decides; room that these leave is told to it.
    """

    awaited: Awaited = ()
    least: Resources = ()
    lanes: tuple[int, ...] = ()


ALONE = "alone"
"""The token of a scheduler that alone was told of freed room."""


def may_hold(room: Iterable[Resources], least: Resources) -> bool:
    """Return whether some machine with this room may hold a task that needs so much at least."""
    return any(all(map(ge, has, least)) for has in room)


class PendingJob(NamedTuple):
    """A pending job as a scheduler receives it, without its runs; `arrival` is the order of becoming pending."""

    arrival: int
    job: Job


class PendingJobs(Sequence[PendingJob]):
    """Pending jobs in columns: the jobs, and their arrivals as the store writes them."""

    __slots__ = ("arrivals", "jobs")

    def __init__(self, arrivals: Sequence[bytes], jobs: Sequence[Job]) -> None:
        """Create from columns of one length."""
        self.arrivals, self.jobs = arrivals, jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[PendingJob]:
        return map(PendingJob, map(int, self.arrivals), self.jobs)

    @overload
    def __getitem__(self, index: int) -> PendingJob: ...

    @overload
    def __getitem__(self, index: slice) -> "PendingJobs": ...

    def __getitem__(self, index: int | slice) -> "PendingJob | PendingJobs":
        """Return a job, or some of them."""
        if isinstance(index, slice):
            return PendingJobs(self.arrivals[index], self.jobs[index])
        return PendingJob(int(self.arrivals[index]), self.jobs[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def jobs_of(pending: Sequence[PendingJob]) -> Sequence[Job]:
    """Return the jobs alone."""
    return pending.jobs if type(pending) is PendingJobs else [job for _, job in pending]


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
    lanes: "Rows | None" = None
    read_jobs: Callable[[], Sequence[PendingJob]] = list
    """Reads `jobs`; called when they are first used."""
    _jobs: Sequence[PendingJob] | None = None

    @property
    def jobs(self) -> Sequence[PendingJob]:
        """The requested jobs."""
        if self._jobs is None:
            self._jobs = self.read_jobs()
        return self._jobs


class Membership(NamedTuple):
    """A scheduler's right to commit: its name and incarnation."""

    member: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Transactions of a scheduler: the `number` of the call and the position of its snapshot, from which it reads on.

    `executors` are those of the machines claimed, as far as the scheduler knows them. `basis` is for the log; without
    it, `since` and `at_ms` are.
    """

    membership: Membership
    number: int
    transactions: Sequence[Transaction]
    since: Position
    at_ms: int
    _: KW_ONLY
    intake: Intake | None = None
    executors: Iterable[int] = ()
    basis: Basis | None = None

    @property
    def asks(self) -> bool:
        """Whether the reply may bring jobs."""
        return self.intake is not None and self.intake.most > 0


class Heartbeat(NamedTuple):
    """The answer to a renewal by an agent: the number of agents, its machine's state, the machine's runs.

    `unsettled`: whether the agent is to confirm that it runs only these (`RedisExecutors.confirm_runs`).
    """

    agents: int
    state: MachineState | None
    runs: list[Run]
    unsettled: bool = False


def executor_of(agent: str) -> str:
    """Return the name of an agent's executor and member, given its machine."""
    return f"agent/{agent}"


class NewestFacts(NamedTuple):
    """The end of the log: its oldest version, and facts of those above `after` up to `newest`, oldest first."""

    first: int
    after: int
    newest: int
    facts: list[Fact]


class KindUse(NamedTuple):
    """Use of the jobs of a kind, and the kind's limits."""

    limits: Limits
    jobs: int
    used: Resources

    @classmethod
    def none(cls, dimensions: int) -> "KindUse":
        """Return the use of a kind that has neither limits nor jobs with placed tasks."""
        return cls(Limits((None,) * dimensions), 0, (0,) * dimensions)


@dataclass(slots=True, kw_only=True)
class ChangedRecords:
    """Machines, jobs and counters of a cell, all at `version`.

    It has at least everything that the facts after the requested version, up to the version `seen`, name; the reading
    is complete when `seen` is `version`. `first` is the oldest version in the log (`version` + 1 when it is empty),
    `length` the number of versions in it, `placements` the last placement id.
    """

    version: int
    seen: int
    first: int
    length: int
    placements: int
    rows: Rows
    runs: list[Run]
    """The runs on the machines in `rows`."""
    jobs: list[Job]
    """Without the parts that only schedulers and executors read."""
    queued: frozenset[str]
    """Those of the jobs that are in the queue of their kind."""
    holders: Mapping[str, str]
    """The names of the jobs, and the id of the live job that has each; "" when none has."""
    absent: frozenset[str]
    """Ids in facts that are no longer kept."""
    kinds: Mapping[str, KindUse]
    """Those with limits."""


class Housekept(NamedTuple):
    """Result of a call of housekeeping: tasks ended, lost tasks queued again, and whether more is due now."""

    ended: int
    queued: int
    more: bool


class Submitted(NamedTuple):
    """Result of a submission: ``new``, ``same`` (already stored), ``id`` or ``name`` (taken, by `holder`).

    ``pool``: pools are configured, and `holder` is no leaf of them; ``user``: its user may not submit to the pool
    `holder`. ``after``: it depends on `holder`, which does not exist.
    `modified` is the job's modify index, 0 when it was refused.
    """

    id: str
    status: str
    holder: str = ""
    modified: int = 0


class Original(NamedTuple):
    """A running task that is to get a copy (semantics 41): its machine, placement and index."""

    machine: int
    placement: int
    task: int


class Budget(NamedTuple):
    """Maximum number of copies of one job, and of all jobs of the cell."""

    job: int
    cell: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMark:
    """Number, server's time (ms) and version of publication of the epoch, 0 without one; versions of cell and pools,
    whether pools are configured, and the server's time now (ms). `read`: the version of the cell that it was computed
    from. `readable`: whether the epoch's numbers could be read.
    """

    number: int
    at_ms: int
    read: int
    published: int
    version: int
    pools_version: int
    configured: bool
    now_ms: int
    readable: bool = True


class StaleSnapshot(Exception):
    """A delta does not begin at the snapshot's position."""


# What the processes of a scheduler's name counted together: each carries the counts of those before it on.

COUNTED = ("transactions", "accepted", "conflicts")
EARLIER = "earlier"
"""Field of the figures with the counts of the processes before, up to the last heartbeat of each."""


def figure_totals(figures: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of a scheduler's figures, with those of the processes before."""
    earlier = figures.get(EARLIER, {})
    return {name: figures.get(name, 0) + earlier.get(name, 0) for name in COUNTED}

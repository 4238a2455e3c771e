"""A cell at one moment, as `omega.queries.mirror.overviews` makes it for a live view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omega.cellstate.model import Job, Machine, MachineState
from omega.cellstate.pools import PoolShare
from omega.cellstate.resources import Dimensions
from omega.queries.job_state import job_counts, restarts, state
from omega.queries.job_times import NOT_KNOWN, JobTimes
from omega.queries.machines import state_word

if TYPE_CHECKING:
    from omega.queries.events import Event

FULL = 0.95
"""Share in use of any one resource from which on a machine counts as full."""


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job, its position in a list, the reason why it is pending (empty: none), and when it started."""

    position: int
    job: Job
    reason: str
    times: JobTimes = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class SchedulerRates:
    """A scheduler: its figures as in `omega scheduler list`, and its rates between the last two heartbeats."""

    figures: Mapping[str, Any]
    busyness: float | None
    """Share of the time between heartbeats spent deciding and committing; since its start before the second one."""
    conflict_fraction: float | None
    past: Sequence[float]
    """Its busyness at the heartbeats before, oldest first."""

    @property
    def name(self) -> str:
        """Its kind and instance: ``batch/0``."""
        return str(self.figures["member"])


@dataclass(frozen=True, slots=True)
class VersionEvents:
    """The events of one version of the cell, with their text."""

    events: "Sequence[Event]"
    text: str

    @property
    def first(self) -> "Event":
        """The first event: version, time, author."""
        return self.events[0]


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates per second since the last read."""

    placed: float
    """Tasks."""
    conflict_fraction: float
    evicted: float
    """Tasks evicted or lost."""


@dataclass(frozen=True, slots=True)
class PoolLine:
    """A pool in the published epoch, `depth` levels below the root of its tree."""

    position: int
    depth: int
    share: PoolShare
    status: str


@dataclass(frozen=True, slots=True)
class RankedMachines:
    """Sums over all machines, and the first ones by trouble, fullness and index."""

    count: int
    states: Mapping[str, int]
    utilisation: Mapping[str, Mapping[str, float]]
    first: list[Machine]
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Why machines cannot start tasks, by name."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A cell at `at_ms`."""

    cell: str
    store: str
    dimensions: Dimensions
    at_ms: int
    version: int
    ranked: RankedMachines
    """Sums over the machines, and those that most want attention."""
    members: Sequence[SchedulerRates]
    queue: Sequence[ListedJob]
    """The first jobs with pending tasks of each kind, in order of arrival."""
    running: Sequence[ListedJob]
    """The newest running jobs, newest first; some of them may have pending tasks, and be in the queue as well."""
    jobs: Mapping[str, int]
    """How many jobs are in each state, by the words of `job_state.STATES`; absent ones are 0."""
    depths: Mapping[str, int]
    """How many jobs of each kind have pending tasks."""
    changes: Sequence[VersionEvents]
    """The newest versions, and older ones that may need attention; newest first."""
    rates: Rates
    past: Mapping[str, Sequence[float]]
    """Earlier reads, oldest first: the share in use of each resource, and under "placed" tasks per second."""
    refuses_writes: str = ""
    """Why the store refuses writes; empty when it does not."""
    pools: Sequence[PoolLine] = ()
    """The pools in the order of their tree, as in the published epoch; none before the first one."""
    exact: bool = True
    """Whether all figures are of `version`: a cell that changed while it was read gives approximate ones."""

    @property
    def machines(self) -> Sequence[Machine]:
        """The machines that most want attention, first by `trouble`, then the fuller ones, then by index."""
        return self.ranked.first

    @property
    def shown_jobs(self) -> Sequence[ListedJob]:
        """The jobs of the queue, then the running ones of which all tasks are placed or ended."""
        return [*self.queue, *(each for each in self.running if not each.job.unplaced)]


def fullness(machine: Machine) -> float:
    """Return the largest share in use of any resource."""
    pairs = zip(machine.allocated, machine.capacity, strict=True)
    return max((used / has if has else float(used > 0) for used, has in pairs), default=0.0)


def condition(machine: Machine) -> str:
    """``full``, or the word for its state."""
    full = machine.state is MachineState.UP and not machine.over and fullness(machine) >= FULL
    return "full" if full else state_word(machine)


TROUBLE = {"down": 0, "offline": 0, "unfit": 0, "full": 2, "drained": 3, "up": 4}


def trouble(machine: Machine) -> int:
    """How much a machine wants attention: down, offline and unfit first, then over, full, drained, up."""
    return TROUBLE.get(condition(machine), 1)


def listed_json(each: ListedJob, now_ms: int) -> dict[str, Any]:
    """Return a job of a list as plain values."""
    job = each.job
    return {
        "id": job.id,
        "name": job.name,
        "kind": job.kind,
        "precedence": job.precedence,
        "state": state(job),
        "reason": str(each.reason) or None,
        "age_seconds": max(0, now_ms - job.submitted_ms) / 1000,
        "counts": job_counts(job),
        "restarts": restarts(job),
        **each.times.as_json(job, now_ms),
    }

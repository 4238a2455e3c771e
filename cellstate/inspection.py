"""Readings of the audit: changed machines and jobs, the directories, and records that cannot be read.

A directory is read at another version than the rest. The audit therefore reports a contradiction only when two
independent readings show it at the same place.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from omega.cellstate.digest.hours import Position
from omega.cellstate.model import Described, Job, MachineSettings, Run
from omega.cellstate.pages import Shape
from omega.cellstate.replies import KindUse, Rows


class Damage(NamedTuple):
    """A record that cannot be read: its key without the cell's prefix, its field or position, and why."""

    key: str
    field: str
    what: str


class Queued(NamedTuple):
    """An entry of a queue of pending jobs."""

    kind: str
    bucket: int
    job: str
    arrival: float
    lane: int = 0


class Mail(NamedTuple):
    """A message to an executor about tasks of a placement; job, group and duration where it starts them."""

    placement: int
    machine: int
    tasks: str
    job: str = ""
    group: str = ""
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBook:
    """The record of a lane: jobs pending and the arrival of the last, what its jobs want and hold, how many live, how
    many tasks of them are placed, how many have placed tasks, its name.
    """

    serial: int
    pending: int
    arrival: int
    wanted: tuple[int, ...]
    held: tuple[int, ...]
    live: int
    tasks: int
    running: int
    name: str


class ChangeEntry(NamedTuple):
    """An entry of the change list: the tag of its version, the machine records and the rows of lanes it carries."""

    version: int
    tag: str
    rows: Rows
    lanes: Rows


@dataclass(slots=True)
class OutlivingRecords:
    """Records that outlive the log: of jobs with a history, of results by job, group and chunk, how far it was read."""

    histories: set[str] = field(default_factory=set)
    chunks: dict[tuple[str, int, int], list[int]] = field(default_factory=dict)
    """The states of the tasks of each chunk."""
    listed: set[tuple[str, int, int]] = field(default_factory=set)
    position: Position = field(default_factory=Position)


@dataclass(slots=True)
class Inspection:
    """The directories of a cell. Unreadable records are only in `damaged`."""

    dimensions: int = 0
    """Number of resources."""
    _: KW_ONLY
    damaged: list[Damage] = field(default_factory=list)
    version: int = 0
    """The cell's version when the reading began; records with a later version may differ from the cell's state."""
    counters: Counter[str] = field(default_factory=Counter)
    """The numbers of ``meta``, read in one piece with `changes`."""
    meta: set[str] = field(default_factory=set)
    """The fields of ``meta``."""
    changes: list[ChangeEntry] = field(default_factory=list)
    machine_names: dict[str, int] = field(default_factory=dict)
    """Index by name, of every machine that ever joined."""
    described: dict[int, Described] = field(default_factory=dict)
    """Name and attributes by index."""
    trees: dict[int, int | None] = field(default_factory=dict)
    """Number of the pool tree of each machine that has one assigned, None for no tree."""
    run_records: set[int] = field(default_factory=set)
    """Machines that have a record of their runs."""
    placed: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """(placement, machine) of the runs in every chunk apart from their job's record."""
    executors: dict[str, int] = field(default_factory=dict)
    serving: dict[int, str] = field(default_factory=dict)
    """Names of the executors that live, by number."""
    specs: dict[str, int] = field(default_factory=dict)
    """Jobs with a part that only schedulers and executors read, and the number of task groups it describes."""
    done: list[tuple[str, int]] = field(default_factory=list)
    """Finished jobs, oldest first, and the version in which each ended."""
    chores: dict[str, float] = field(default_factory=dict)
    """Jobs that are due for housekeeping, and from when (ms, the server's clock)."""
    queued: list[Queued] = field(default_factory=list)
    lanes: dict[int, LaneBook] = field(default_factory=dict)
    lane_names: dict[str, int] = field(default_factory=dict)
    pools: dict[str, bytes] = field(default_factory=dict)
    """The fields of ``pools`` (cellstate/pools/records.py)."""
    epoch: tuple[int, int, str, int, str] | None = None
    """Number, version and digest of the published epoch, the version that published it, and by whom."""
    spare_lanes: list[int] = field(default_factory=list)
    """Unused numbers of lanes."""
    members: dict[str, int] = field(default_factory=dict)
    """Incarnations by name, of schedulers and agents."""
    leases: dict[str, int] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    updates: dict[str, str] = field(default_factory=dict)
    copied: dict[str, str] = field(default_factory=dict)
    """Kinds of the jobs that are listed as having copies of tasks."""
    now_ms: int = 0
    """The server's clock after the reading."""
    ticks: list[tuple[int, int]] = field(default_factory=list)
    """Times (ms, the server's clock) and the last placement id at each."""
    resources: tuple[str, ...] = ()
    epoch_totals: tuple[int, Mapping[str, Sequence[int]]] | None = None
    """The version of the pools of the published epoch, and what the machines of each tree had."""
    settings: dict[int, MachineSettings] = field(default_factory=dict)
    """What operators set of machines."""
    shapes: dict[Shape, int] = field(default_factory=dict)
    over: list[int] = field(default_factory=list)
    """Machines that held more than they had at their last change."""
    recent: dict[str, float] = field(default_factory=dict)
    """Jobs by the index of submissions, and their position in it."""
    waiters: dict[str, float] = field(default_factory=dict)
    """Jobs that wait for others, as the key lists them, and their scores."""
    drains: set[int] = field(default_factory=set)
    """Machines with a deadline for their tasks."""
    mailboxes: dict[int, Sequence[Mail]] = field(default_factory=dict)
    """The messages about tasks in an executor's mailbox, by its number."""
    answers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The tag of each scheduler's last call, and the outcomes in its stored answer."""
    health: dict[str, Sequence[tuple[int, ...]]] = field(default_factory=dict)
    """Of the tasks of a job: machine, placement, task, expiry of a grant (cellstate/redis/records.py)."""
    outputs: tuple[set[str], list[str]] = field(default_factory=lambda: (set(), []))
    """Fields of the tasks' last output, as kept and as listed for trimming."""
    records: OutlivingRecords = field(default_factory=OutlivingRecords)
    shards: dict[str, str] = field(default_factory=dict)
    """Contradictions within the shards of a MapReduce job, by its id; "" when there are none."""


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

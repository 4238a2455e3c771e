"""The primary records of a cell at one version: those that follow from no others.

`derive` writes down what follows from them, `verify` compares both with the cell and with its log. A cell on a server
reads them from its keys (cellstate/redis/primary_records.py), a cell in memory gives its own.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from omega.cellstate import ranges
from omega.cellstate.digest.hours import Position
from omega.cellstate.model import Described, Job, Limits, MachineSettings, Run
from omega.cellstate.replies import Rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Damage(NamedTuple):
    """A record that cannot be read: its key without the cell's prefix, its field or position, and why."""

    key: str
    field: str
    what: str


class Mail(NamedTuple):
    """A message to an executor about tasks of a placement; job, group and duration where it starts them."""

    placement: int
    machine: int
    tasks: str
    job: str = ""
    group: str = ""
    duration_ms: int = 0


class ChangeEntry(NamedTuple):
    """An entry of the change list: the tag of its version, the machine records and the rows of lanes it carries."""

    version: int
    tag: str
    rows: Rows
    lanes: Rows


class LaneMark(NamedTuple):
    """What of a lane no job says: its serial, the arrival of the last job that became pending in it, its name."""

    serial: int
    arrival: int
    name: str


class EpochMade(NamedTuple):
    """A published epoch: its number, the version it was computed from, digest, version of publication, author."""

    number: int
    version: int
    digest: str
    published: int
    by: str


count_of = lru_cache(maxsize=1 << 16)(ranges.count)
"""The number of tasks in a set; most runs of a cell have one of a few sets."""
Value: TypeAlias = bytes | float
Content: TypeAlias = Mapping[bytes, Value] | Sequence[bytes]
"""Of a key: the fields of a hash, the members and scores of a sorted set, or the entries of a list."""
Owner = tuple[str, int]
"""The id of a job and the number of one of its groups."""
Column: TypeAlias = "NDArray[np.signedinteger[Any]]"
TAKEN, MOST_MACHINES, MOST_IDS = -1, 1 << 31, 1 << 62
"""A machine: its placement is in no column. Machines and ids that do not fit into columns."""


class Runs:
    """Runs in columns, because a cell has millions of them; equal texts are one object.

    They are in the order of their owners, of one owner by placement, live before leaving.
    """

    def __init__(self, runs: Iterable[tuple[int, str, int, int, str, bool]] = ()) -> None:
        """Create from (placement, job, machine, group, tasks, leaving), in any order."""
        import numpy as np  # noqa: PLC0415 - many commands that load this module make no runs

        numbers, texts = dict[Owner, int](), dict[str, int]()
        columns = array("q"), array("i"), array("i"), array("b"), array("i"), array("i")
        add_placement, add_machine, add_owner, add_leaving, add_size, add_text = (each.append for each in columns)
        for placement, job, machine, group, tasks, leaves in runs:
            add_placement(placement)
            add_machine(machine)
            add_owner(numbers.setdefault((job, group), len(numbers)))
            add_leaving(leaves)
            add_size(count_of(tasks))
            add_text(texts.setdefault(tasks, len(texts)))
        self.owners: Sequence[Owner] = list(numbers)
        self._numbers: Mapping[Owner, int] = numbers
        self._texts: Sequence[str] = list(texts)
        placements, _, owners, leaving, *_ = read = [np.frombuffer(each, each.typecode) for each in columns]
        order = np.lexsort((leaving, placements, owners)).astype(np.int32)
        sorted_ = [column[order] for column in read]
        self.placement, self.machine, self.owner, self.leaving, self.size, self._text = sorted_
        self._ends = np.searchsorted(self.owner, np.arange(len(self.owners) + 1))
        self._by_placement = np.argsort(self.placement, kind="stable").astype(np.int32)
        self._ids = self.placement[self._by_placement]

    def __len__(self) -> int:
        return len(self.placement)

    def __iter__(self) -> Iterator[Run]:
        for owner in self.owners:
            yield from self.of(*owner)

    def alike(self, placed: "Placements", columns: "Sequence[Column]") -> "NDArray[np.bool_]":
        """Return which placements in columns are exactly one run, of which nothing is leaving."""
        import numpy as np  # noqa: PLC0415 - as above

        ids, machines, owners, texts = columns
        if not len(self):
            return np.zeros(len(ids), np.bool_)
        owner = np.array([self._numbers.get(each, -1) for each in placed.owners], np.int32)
        known = {text: number for number, text in enumerate(self._texts)}
        text = np.array([known.get(each, -1) for each in placed.texts], np.int32)
        first, beyond = (self._ids.searchsorted(ids, side) for side in ("left", "right"))
        at = self._by_placement[np.minimum(first, len(self) - 1)]
        same = (self.machine[at] == machines) & (self.owner[at] == owner[owners]) & (self._text[at] == text[texts])
        alike: NDArray[np.bool_] = same & (beyond - first == 1) & (self.leaving[at] == 0)
        return alike

    def _own(self, job: str, group: int) -> slice:
        number = self._numbers.get((job, group))
        return slice(0) if number is None else slice(int(self._ends[number]), int(self._ends[number + 1]))

    def _tasks(self, own: slice) -> list[str]:
        return [self._texts[text] for text in self._text[own].tolist()]

    def of(self, job: str, group: int) -> list[Run]:
        """Return the runs of a group of a job."""
        own = self._own(job, group)
        return [
            Run(placement, job, machine, group, tasks, leaving=bool(leaves))
            for (placement, machine, leaves), tasks in zip(self.places(job, group), self._tasks(own), strict=True)
        ]

    def places(self, job: str, group: int) -> list[tuple[int, int, int]]:
        """Return placement, machine and whether it leaves (1) of each run of a group of a job."""
        own = self._own(job, group)
        return [*zip(self.placement[own].tolist(), self.machine[own].tolist(), self.leaving[own].tolist(), strict=True)]

    def at(self, placement: int) -> list[Run]:
        """Return the runs under a placement id: a live one, a leaving one, or both."""
        first, last = (int(self._ids.searchsorted(placement, side)) for side in ("left", "right"))
        return [
            Run(placement, job, int(self.machine[i]), group, self._texts[self._text[i]], leaving=bool(self.leaving[i]))
            for i in self._by_placement[first:last].tolist() for job, group in [self.owners[self.owner[i]]]
        ]  # fmt: skip


@dataclass(slots=True, kw_only=True)
class PlacementBook:
    """What of a placement runs and what leaves. `gone`: what ended of one placed before the log begins."""

    owner: tuple[int, str, int]
    """Machine, job, group."""
    tasks: str | None
    leaving: str = ranges.EMPTY
    gone: str = ranges.EMPTY
    placed: str | None = None
    """All its tasks; None of one placed before the log begins."""


class Placements:
    """Placements of which tasks run or leave, by id: in columns while they are as placed, because there are millions.

    The columns are in the order of ids, which rise; one whose id came late has a book at once.
    """

    SPARE = 1 << 16
    """Least number of rows of placements that have changed or ended, before these rows are dropped."""

    def __init__(self) -> None:
        """Create without placements."""
        self.books: dict[int, PlacementBook] = {}
        self.owners: list[Owner] = []
        self._ids, self._machines, self._owners, self._tasks = array("q"), array("i"), array("i"), array("i")
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        self._taken = 0

    def put(self, name: int, machine: int, owner: int, tasks: str) -> None:
        """Add a placement, for one of `owners`."""
        ids = self._ids
        if (ids and name <= ids[-1]) or not (
            0 <= machine < MOST_MACHINES and name < MOST_IDS
        ):  # facts that are reported
            self.take(name)
            self.books[name] = PlacementBook(owner=(machine, *self.owners[owner]), tasks=tasks, placed=tasks)
            return
        if tasks not in self._numbers:
            self._numbers[tasks] = len(self.texts)
            self.texts.append(tasks)
        ids.append(name)
        self._machines.append(machine)
        self._owners.append(owner)
        self._tasks.append(self._numbers[tasks])

    def get(self, name: int) -> PlacementBook | None:
        """Return the book of a placement, or a copy of one in columns."""
        if (book := self.books.get(name)) is not None:
            return book
        row = bisect_left(self._ids, name)
        if row == len(self._ids) or self._ids[row] != name or self._machines[row] == TAKEN:
            return None
        tasks = self.texts[self._tasks[row]]
        return PlacementBook(owner=(self._machines[row], *self.owners[self._owners[row]]), tasks=tasks, placed=tasks)

    def take(self, name: int) -> PlacementBook | None:
        """Return the book of a placement, which may be changed."""
        book = self.get(name)
        if book is not None and name not in self.books:
            self.books[name] = book
            self._machines[bisect_left(self._ids, name)] = TAKEN
            self._taken += 1
            if self._taken > max(self.SPARE, len(self._ids) // 2):
                self._shrink()
        return book

    def _columns(self) -> "list[Column]":
        import numpy as np  # noqa: PLC0415 - as above

        read = [np.array(each) for each in (self._ids, self._machines, self._owners, self._tasks)]
        return [column[read[1] != TAKEN] for column in read]

    def _shrink(self) -> None:
        columns = self._columns()
        self._ids, self._machines, self._owners, self._tasks = (
            array(code, column.tobytes()) for code, column in zip("qiii", columns, strict=True)
        )
        self._taken = 0

    def unlike(self, runs: Runs) -> Iterator[tuple[int, PlacementBook]]:
        """Yield the placements that have books, and those in columns that are not exactly one of the runs."""
        columns = self._columns()
        for name in columns[0][~runs.alike(self, columns)].tolist():
            if (book := self.get(name)) is not None:
                yield name, book
        yield from self.books.items()

    def missing(self, names: "Column") -> list[int]:
        """Return those of some ids that no placement has."""
        import numpy as np  # noqa: PLC0415 - as above

        return sorted(set(np.setdiff1d(names, self._columns()[0]).tolist()) - self.books.keys())


@dataclass(slots=True, kw_only=True)
class Primary:
    """The primary records of a cell at `version`. What cannot be read of them is only in `damaged`."""

    resources: tuple[str, ...]
    version: int = 0
    placements: int = 0
    """The last placement id."""
    first: int = 1
    """The oldest version in the log; one more than `version` when it is empty."""
    length: int = 0
    """Number of versions in the log."""
    now_ms: int = 0
    """The server's clock."""
    counters: Counter[str] = field(default_factory=Counter)
    """The numbers of ``meta``."""
    meta: set[str] = field(default_factory=set)
    """The fields of ``meta``."""
    ticks: Sequence[tuple[int, int]] = ()
    """Times (ms, the server's clock) and the last placement id at each."""
    damaged: list[Damage] = field(default_factory=list)
    aged: frozenset[str] = frozenset()
    """Large keys that were read at an earlier version; all others are of this version."""

    # Machines

    rows: dict[int, list[int]] = field(default_factory=dict)
    """Machine records by index, gone machines included; columns as in replies.Rows."""
    described: dict[int, Described] = field(default_factory=dict)
    """Name and attributes by index."""
    settings: dict[int, MachineSettings] = field(default_factory=dict)
    """What operators set of machines."""
    deadlines: dict[int, int] = field(default_factory=dict)
    """Machines to be emptied until a time (ms)."""
    trees: dict[int, int | None] = field(default_factory=dict)
    """Number of the pool tree of each machine that has one assigned, None for no tree."""
    runs: Runs = field(default_factory=Runs)
    """The runs on machines."""

    # Jobs

    jobs: dict[str, Job] = field(default_factory=dict)
    """In order of submission; their groups have no runs, which are in `recorded`."""
    recorded: Runs = field(default_factory=Runs)
    """The runs that the records of jobs name, without tasks and without those in chunks (``placed``)."""
    listed_chunks: set[str] | None = None
    """The fields of ``placed`` that the records of jobs list; None: `recorded` has all runs."""
    described_groups: dict[str, int] = field(default_factory=dict)
    """Number of groups in the specification of each job that has one."""
    arrivals: dict[str, int] = field(default_factory=dict)
    """Of pending jobs that are queued: the order in which they became pending."""
    done: list[tuple[str, int]] = field(default_factory=list)
    """Ended jobs, oldest first, and the version in which each ended."""
    ended: dict[str, int] = field(default_factory=dict)
    """The versions in which jobs ended, as far as the log has them."""
    updates: dict[str, str] = field(default_factory=dict)
    """The states of updates of jobs that are not done."""
    health: dict[str, Sequence[tuple[int, ...]]] = field(default_factory=dict)
    """Of the tasks of a job: machine, placement, task, expiry of a grant (lua/health.lua)."""
    histories: set[str] = field(default_factory=set)
    """Jobs with a record of their history."""
    chunks: dict[tuple[str, int, int], list[int]] = field(default_factory=dict)
    """The states of the tasks of each chunk of results, by job, group and chunk."""
    position: Position = field(default_factory=Position)
    """How far the log was digested."""
    shards: dict[str, str] = field(default_factory=dict)
    """Contradictions within the shards of a MapReduce job, by its id; "" when there are none."""
    outputs: set[str] = field(default_factory=set)
    """Fields of the tasks' last output."""
    listed_outputs: list[str] = field(default_factory=list)
    """The order in which these are trimmed."""
    lanes: dict[int, LaneMark] = field(default_factory=dict)
    """By number."""
    spare_lanes: list[int] = field(default_factory=list)
    """Numbers that no lane has."""

    # Limits and pools

    limits: dict[str, Limits] = field(default_factory=dict)
    """Limits of kinds."""
    pools: dict[str, bytes] = field(default_factory=dict)
    """Those fields of ``pools`` that operators set: ``pN``, ``trees``, ``version``, ``next``."""
    epoch: EpochMade | None = None
    epoch_totals: tuple[int, Mapping[str, Sequence[int]]] | None = None
    """The version of the pools of the published epoch, and what the machines of each tree had."""

    # Members and what they are told

    executors: dict[str, int] = field(default_factory=dict)
    """Numbers by name."""
    serving: dict[int, str] = field(default_factory=dict)
    """Names of the executors that live, by number."""
    members: dict[str, int] = field(default_factory=dict)
    """Incarnations by name, of schedulers and agents."""
    leases: dict[str, int] = field(default_factory=dict)
    answers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The tag of each scheduler's last call, and the outcomes in its stored answer."""
    mailboxes: dict[int, Sequence[Mail]] = field(default_factory=dict)
    """The messages about tasks in an executor's mailbox, by its number."""
    changes: list[ChangeEntry] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of resources."""
        return len(self.resources)

    def amounts(self, row: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return capacity and allocated amounts of a machine's record."""
        return tuple(row[4 : 4 + self.size]), tuple(row[4 + self.size :])


class Reading(NamedTuple):
    """What was read of a cell: its primary records, and the indexes that it keeps (cellstate/derive.py).

    `kept`: the names of the indexes that it has at all; None: every one.
    """

    primary: Primary
    indexes: Mapping[str, Content]
    kept: frozenset[str] | None = None

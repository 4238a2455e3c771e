"""Transactions, and the answers of the store.

The order of `Verdict` is the order of precedence: the first that applies is returned (docs/semantics.md). `commit.lua`
is the specification; `MemoryCell` mirrors it.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, Self, TypeAlias, overload

from omega.cellstate.fairness import Assertion
from omega.cellstate.tasks import EndKind, TaskEnd


class Verdict(IntEnum):
    """Result of a claim; for a claim of several tasks, the verdict of the first task that was not placed.

    Members stand in the order in which a claim is validated. The log stores their numbers, so a new one takes the next.
    """

    PLACED = 0
    UNKNOWN = 1
    """No such job, group or machine, or the job is not active (held, stopped, done)."""
    DOWN = 2
    """The machine is drained or down, or its allocated amounts exceed its capacity."""
    DUPLICATE = 3
    """The job's group has fewer unplaced tasks than were claimed."""
    INCOMPLETE = 4
    """A gang job's transaction does not cover all its unplaced tasks as a gang (semantics 8)."""
    LIMIT = 5
    """A limit of the job's kind."""
    TREE = 11
    """The machine is in another pool tree than the job's pool, or in none."""
    SHARE = 10
    """What the transaction asserts of pools does not hold, or does not cover a victim (semantics 33)."""
    PRECEDENCE = 6
    """A victim is not of strictly lower precedence."""
    MOVED = 7
    """Coarse detection: the machine's number moved since the sync."""
    FULL = 8
    """Fine detection: the machine cannot hold it any more."""
    ABORTED = 9
    """It would have stood, but another claim of its gang did not."""


CONFLICTS = frozenset({Verdict.MOVED, Verdict.FULL})
"""The verdicts of interference by another scheduler (Omega §4: conflict fraction)."""


class Mode(IntEnum):
    """Granularity of a commit (Omega §3.4)."""

    INCREMENTAL = 0
    GANG = 1


class Detection(IntEnum):
    """Fine: by fit. Coarse: by the machine's sequence number (Omega §3.4)."""

    FINE = 0
    COARSE = 1


Evicted: TypeAlias = tuple[tuple[int, int], ...]
"""Tasks to evict: (placement id, tasks) each."""


class Claim(
    NamedTuple("_Claim", [("machine", int), ("group", int), ("count", int), ("seen", int), ("evict", Evicted)])
):
    """`count` tasks of a job's group on a machine.

    `seen` is the machine's sequence number at the sync; `evict` lists (placement id, tasks) that may
    be evicted for it, in that order and only while it helps.
    """

    __slots__ = ()

    def __new__(cls, machine: int, group: int, count: int, *, seen: int = 0, evict: Evicted = ()) -> Self:
        """Create a claim; only its first three numbers are passed by position."""
        return tuple.__new__(cls, (machine, group, count, seen, evict))

    def __getnewargs_ex__(self) -> tuple[tuple[int, ...], dict[str, object]]:
        """Return what a copy is made from."""
        return self[:3], {"seen": self.seen, "evict": self.evict}


class ClaimColumns(Sequence[Claim]):
    """Claims of tasks of one group in compact form, in order: their machines, and the tasks on each (None: one each).

    `seen` are the machines' sequence numbers at the sync, for coarse detection; none counts as 0.
    """

    __slots__ = ("counts", "group", "machines", "seen")

    def __init__(
        self, machines: list[int], counts: list[int] | None = None, *, group: int = 0, seen: list[int] | None = None
    ) -> None:
        """Create claims; a machine may be named several times."""
        self.machines, self.counts, self.group, self.seen = machines, counts, group, seen

    def __len__(self) -> int:
        return len(self.machines)

    def __iter__(self) -> Iterator[Claim]:
        group, size = self.group, len(self.machines)
        columns = zip(self.machines, self.counts or [1] * size, self.seen or [0] * size, strict=True)
        return (Claim(machine, group, count, seen=number) for machine, count, number in columns)

    @overload
    def __getitem__(self, index: int) -> Claim: ...

    @overload
    def __getitem__(self, index: slice) -> "ClaimColumns": ...

    def __getitem__(self, index: int | slice) -> "Claim | ClaimColumns":
        """Return a claim, or some of them."""
        counts, seen = self.counts, self.seen
        if isinstance(index, slice):
            part, numbers = None if counts is None else counts[index], None if seen is None else seen[index]
            return ClaimColumns(self.machines[index], part, group=self.group, seen=numbers)
        count, number = 1 if counts is None else counts[index], 0 if seen is None else seen[index]
        return Claim(self.machines[index], self.group, count, seen=number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"ClaimColumns({self.machines}, {self.counts}, group={self.group}, seen={self.seen})"


def machines_claimed(claims: Sequence[Claim]) -> Sequence[int]:
    """Return the machine of each claim."""
    return claims.machines if type(claims) is ClaimColumns else [claim.machine for claim in claims]


class Transaction(NamedTuple):
    """Claims of one job, validated together.

    `assertion`: what must hold between pools for its evictions. Every claim of a transaction that asserts something
    is validated by it, because it was planned on room that evictions make.
    """

    job: str
    claims: Sequence[Claim]
    mode: Mode = Mode.INCREMENTAL
    detection: Detection = Detection.FINE
    assertion: Assertion | None = None


class Outcome:
    """Per claim of a transaction: tasks placed, and the verdict of those that were not.

    `placed` is the number of placed tasks, `accepted` whether every claim was accepted, `conflicted` whether at least
    one was rejected as moved or full. Many transactions may have the same outcome: it is not to be changed.
    """

    __slots__ = ("accepted", "claims", "conflicted", "placed")

    def __init__(self, claims: tuple[tuple[int, Verdict], ...]) -> None:
        """Create from (tasks placed, verdict) of each claim."""
        self.claims, self.placed, self.accepted, self.conflicted = claims, 0, True, False
        for placed, verdict in claims:
            self.placed += placed
            if verdict is not Verdict.PLACED:
                self.accepted = False
                self.conflicted = self.conflicted or verdict in CONFLICTS

    @property
    def unfair(self) -> bool:
        """Whether nothing stands, and a claim was rejected as `share`: it is neither accepted nor a conflict."""
        return not self.placed and not self.conflicted and any(each is Verdict.SHARE for _, each in self.claims)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self.claims == other.claims

    def __hash__(self) -> int:
        return hash(self.claims)

    def __repr__(self) -> str:
        return f"Outcome({self.claims})"


PLACED_ONE = (1, Verdict.PLACED)
"""The result of an accepted claim of one task."""


@lru_cache(maxsize=1024)
def all_placed(size: int) -> Outcome:
    """Return the outcome of `size` accepted claims of one task each."""
    return Outcome((PLACED_ONE,) * size)


class Placed:
    """Tasks of a group that one transaction placed: their number, placement ids, a run on each of the machines.

    `counts` are the tasks of each run, None for one each.
    """

    __slots__ = ("counts", "group", "machines", "placements", "tasks")

    def __init__(
        self, placements: Sequence[int], machines: Sequence[int], counts: Sequence[int] | None, group: int
    ) -> None:
        """Name the runs of tasks."""
        self.placements, self.machines, self.counts, self.group = placements, machines, counts, group
        self.tasks = len(machines) if counts is None else sum(counts)

    def endings(self) -> "list[TaskEnd]":
        """Return the endings of all of them as finished."""
        runs = zip(self.machines, self.placements, strict=True)
        return [TaskEnd(machine, placement, EndKind.FINISHED) for machine, placement in runs]


class Position(NamedTuple):
    """Position of a snapshot: the cell's version and the tag stored with it (semantics 16)."""

    version: int = 0
    tag: str = ""


class Basis(NamedTuple):
    """What the transactions of a call were decided on: the version of the snapshot, and when the decision began.

    The time is milliseconds of the server's clock, as far as the scheduler knows it; in a simulation, simulated time.
    The snapshot also showed the scheduler's own claims in flight. The log stores the words of `text`.
    """

    since: int
    began_ms: int
    ahead_ms: int = 0
    """By how much the server's clock was ahead of the author's clock, which the entry's own time is of."""
    forms: str = ""
    """Mode and detection of the transactions (`forms_of`)."""

    @classmethod
    def read(cls, text: str) -> "Basis":
        """Read the words of an entry. Raises ValueError."""
        since, began, *more = text.split(" ")
        return cls(int(since), int(began), int(more[0]) if more else 0, "".join(more[1:2]))

    @property
    def text(self) -> str:
        """The words for the log; values at their defaults at the end are left out."""
        text = f"{self.since} {self.began_ms}"
        if self.forms:
            return f"{text} {self.ahead_ms} {self.forms}"
        return f"{text} {self.ahead_ms}" if self.ahead_ms else text


FORMS: Mapping[tuple[Mode, Detection], str] = {
    (Mode.INCREMENTAL, Detection.FINE): "f", (Mode.INCREMENTAL, Detection.COARSE): "c",
    (Mode.GANG, Detection.FINE): "g", (Mode.GANG, Detection.COARSE): "k",
}  # fmt: skip
"""A letter for each mode and detection."""


def forms_of(transactions: Sequence[Transaction]) -> str:
    """Return a letter of `FORMS` for each transaction; one letter when all are alike, "" when all are "f"."""
    letters = "".join([FORMS[each.mode, each.detection] for each in transactions])
    alike = letters[:1]
    if letters != alike * len(letters):
        return letters
    return "" if alike == "f" else alike


MOST_TAKEN = 4_096
"""Jobs that a request for pending jobs brings at most (lua/parts/intake.lua)."""


class Ask(NamedTuple):
    """Request for up to `most` jobs of a lane that became pending after the arrival `after`."""

    lane: int
    after: int
    most: int


class Intake(NamedTuple):
    """Request of a scheduler for pending jobs of a kind: of `lanes` in turn, at most `most` in all.

    Only jobs in buckets marked ``1`` in `owned` (32 characters) are returned.
    """

    kind: str
    lanes: tuple[Ask, ...]
    most: int
    owned: str


def placed_runs(transaction: Transaction, outcome: Outcome, first: int) -> list[Placed]:
    """Return the placements of a transaction by group; `first` is the placement id of its first run."""
    runs: dict[int, tuple[list[int], list[int], list[int]]] = {}
    for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
        if placed:
            placements, machines, counts = runs.setdefault(claim.group, ([], [], []))
            placements.append(first)
            machines.append(claim.machine)
            counts.append(placed)
            first += 1
    return [Placed(*columns, group) for group, columns in runs.items()]

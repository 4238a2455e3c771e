"""The independent axes of a scheduler's decision (ARCHITECTURE.md).

A policy is a small dataclass with one or two methods; its fields are its parameters. An ordering inherits defaults. The
others are Protocols: a policy need not name one as its base; with the base, a missing method is an error on
construction.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from random import Random
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.fairness import Assertion
from omega.cellstate.override import override
from omega.cellstate.schema import POLICY
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Outcome, Transaction
from omega.cellstate.usage import Whose
from omega.schedulers.job_fields import JobField
from omega.schedulers.retrying import RetryPolicy
from omega.schedulers.sizing import Profile, Totals
from omega.schedulers.work import Work


class Ordering:
    """The order of jobs: in intake, for free and freed room, and for room below limits (semantics 32).

    An ordering sees jobs, the use of users and pools, and the time; never machines. Jobs of the lane with the smallest
    rank come first, in a lane those with the smallest key, and of these those submitted first. Inherit from it: without
    overrides it is first in, first out.
    """

    __slots__ = ()
    uses_pools: ClassVar[bool] = False
    """Whether weights, guarantees and the other settings of the cell's pools decide on the order."""
    rejoins: ClassVar[bool] = False
    """Whether a retried job joins behind the jobs with the same key."""
    job_fields: ClassVar[Sequence[JobField]] = ()
    """Fields of jobs that the policy declares for itself; policies of other kinds may have the attribute too."""

    @property
    def warnings(self) -> Sequence[str]:
        """What is not in effect as the settings state; a live scheduler logs each new text once."""
        return ()

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Record what users and pools hold (`snapshot.usage`) and the time (seconds) before jobs are chosen.

        With this method, ranks are computed again after each chosen job: `snapshot.usage` then counts that job as if it
        were placed.
        """

    def lane(self, work: Work) -> Hashable:
        """Return the common property of jobs with one rank, for example the user."""
        return ()

    def rank(self, lane: Hashable) -> float:
        """Return the rank of a lane, smallest first."""
        return 0.0

    def ranks(self, lanes: Sequence[Hashable]) -> list[float]:
        """Return the ranks of several lanes, as `rank` returns that of each."""
        return [self.rank(lane) for lane in lanes]

    def key(self, work: Work) -> float:
        """Return the key of a job in its lane, smallest first. It may not change while the job is queued."""
        return 0.0

    def most(self, work: Work) -> int | None:
        """Return how many tasks of a job may take room in one attempt; None: no bound. A gang with more gets none.

        Asked of a policy with `observe`.
        """
        return None

    def due(self, work: Work, waiting: Callable[[], int]) -> Sequence[int] | None:
        """Return how many tasks of each group of a job may take room at once; None: no bound.

        `waiting` tells how many jobs of its lane and precedence wait, itself included. What it was given before
        counts. The job gets more only of room that stayed free (`beyond`). If it was given nothing and gets
        nothing, jobs of its lane that need no less and have no higher precedence are refused, too. Asked of a policy
        with `observe`.
        """
        return None

    def beyond(self, work: Work, stayed: float) -> bool:
        """Return whether a job takes more than is due of room that stayed free for so long (seconds, at most 1)."""
        return True

    def kin(self, lane: Hashable) -> Hashable | None:
        """Return a key shared by the lanes whose ranks change together; None: all ranks may change with any lane."""
        return None

    def ample(self) -> Sequence[int] | None:
        """Return up to which amounts that all jobs hold together neither `due` nor `most` bounds a job.

        None: both are asked for each job. Several jobs are then not chosen in one step, which costs less.
        """
        return None

    def touched(self, whose: Collection[Whose]) -> Collection[Hashable] | None:
        """Return which `kin` have other ranks since the last `observe`, given whose use changed; None: perhaps all."""
        return None


class Placement(Protocol):
    """Chooses machines for one job's tasks. Pure: the same snapshot, job and rng state give the same result."""

    @abstractmethod
    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Return claims for the tasks that fit and mark them in the snapshot with `snapshot.take`.

        Return one claim for each `take`, in the same order: claims beyond the maximum of a transaction are removed and
        undone. Leave out tasks that fit nowhere; for a gang that does not fit as a whole return no claims and leave the
        snapshot unchanged.
        """


class PlacesAll(Protocol):
    """A placement that can also place several jobs in one call, which costs less than a call for each."""

    @abstractmethod
    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        """Return the claims of the first jobs, with the same result as `place` for one after another, and their number.

        It ends before a job that `place` is to place, once there are `most` claims, and after a job that fits nowhere,
        whose claims are empty.
        """


class Sizing(Protocol):
    """Number of workers of an elastic job. Pure; sees sums over the cell, never single machines."""

    @abstractmethod
    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones.

        At least the smaller of the requested and the useful number, for which the job waits. The others are surplus
        that may be evicted at any time.
        """


class Preemption(Protocol):
    """Victims for a job that fits nowhere. Pure, as a placement is."""

    evicts: ClassVar[bool] = True
    """Whether it ever evicts tasks."""
    by: ClassVar[str] = ""
    """The basis of the choice of victims, for messages: ``precedence``, ``fair share``."""
    follows_use: ClassVar[bool] = True
    """Whether a placement of another job may permit an eviction, because it changes what users and pools hold.

    A policy without this, which compares single tasks, also decides within the pools of a scheduler that follows them.
    """

    @abstractmethod
    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
        """Return machines to be fetched before `place`: their tasks are unknown, and might be evicted.

        None when no eviction can help the job; `place` is then not called.
        """

    @abstractmethod
    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        """Return the claims of `placement` on the room that evictions would make, each claim with its victims.

        As Placement.place, but claims may exceed the free room. Victims are in the order of eviction, and only from
        fetched machines (`snapshot.residents`).
        """


@dataclass(frozen=True, slots=True)
class NoPreemption(Preemption):
    """The policy of a scheduler that never evicts: a job that fits nowhere is blocked."""

    evicts: ClassVar[bool] = False
    follows_use: ClassVar[bool] = False
    applies_constraints: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> None:
        """Return no machine."""

    @override
    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        return ()


PlaceIn = Callable[[str], tuple[int, int]]
"""Returns for a leaf pool the scheduler's number among those that decide its jobs, and how many these are."""


def only_one(_: str) -> tuple[int, int]:
    """Return the place of a scheduler that decides all jobs."""
    return 0, 1


class Peers(NamedTuple):
    """The scheduler of a policy as the policy may see it. What pools hold and are due comes with each snapshot."""

    kind: str
    number: int
    """Number of the scheduler among the live ones of its kind, from 0."""
    members: int
    """How many they are."""
    ordering: Ordering
    placement: Placement
    preemption: Preemption
    sizing: Sizing | None
    retry_policy: RetryPolicy | None
    place_in: PlaceIn


@runtime_checkable
class Joining(Protocol):
    """A policy of any kind that reads the other policies of its scheduler, or the scheduler's number."""

    @abstractmethod
    def join(self, peers: Peers) -> None:
        """Record the peers: before the first decision, and again before the next one after a change of any of them."""


@runtime_checkable
class Asserting(Protocol):
    """A preemption with evictions that are legal only under the use of pools that it read (semantics 33)."""

    @abstractmethod
    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Record how pools stand (`snapshot.pools`, `epoch`, `usage`) at a time (seconds), before jobs are chosen."""

    @abstractmethod
    def stirred(self) -> Collection[str]:
        """Return, once, the leaf pools whose blocked jobs are to be tried again: new shares may entitle them."""

    @abstractmethod
    def starving(self) -> Mapping[str, str]:
        """Return the pools that may evict, ``starving`` or ``aggressively starving``; other threads may call it."""

    @abstractmethod
    def entitled(self, leaf: str, snapshot: Snapshot) -> Iterable[str]:
        """Return the jobs of a leaf pool that new shares entitle to room which other jobs of the pool hold."""

    @abstractmethod
    def assertion(self, work: Work) -> Assertion | None:
        """Return the assertion of the transaction with the claims that `place` just returned for a job."""

    @abstractmethod
    def settled(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        """Process the outcome of a transaction with an assertion."""


@runtime_checkable
class Scoring(Protocol):
    """A placement that can explain its choice of machines."""

    @abstractmethod
    def scores(
        self, work: Work, group: int, snapshot: Snapshot, machines: NDArray[np.intp]
    ) -> Mapping[str, NDArray[np.float64]]:
        """Return the points of one more task of a group on each of these machines, by criterion; their sum decides."""


def as_places_all(placement: Placement) -> PlacesAll | None:
    """Return a placement that can place several jobs in one call; None for one that cannot."""
    return cast("PlacesAll", placement) if _places_all(type(placement)) else None


@lru_cache(maxsize=256)
def _places_all(kind: type[Placement]) -> bool:
    """Return whether a class has `place_all`, and inherits it no further than it inherits `place`."""
    owners = [name for each in kind.__mro__ for name in ("place_all", "place") if name in vars(each)]
    return owners[:1] == ["place_all"]


def place_all_before(
    inner: Placement,
    stop: Callable[[Work], bool],
    works: Sequence[Work],
    snapshot: Snapshot,
    rng: Random,
    most: int,
) -> tuple[list[Sequence[Claim]], int]:
    """Return what `place_all` of a wrapped placement returns for the jobs before the first that `stop` names."""
    together = as_places_all(inner)
    if together is None:
        return [], 0
    first = next((number for number, work in enumerate(works) if stop(work)), len(works))
    return together.place_all(works[:first], snapshot, rng, most)


def claims_of(policy: Placement | Preemption, claims: Sequence[Claim] | None) -> Sequence[Claim]:
    """Return the result of a policy's `place`. Raises BadInput with the policy's name when it is no list of claims."""
    if claims is None or not hasattr(claims, "__len__"):
        name, got = type(policy).__name__, "None" if claims is None else type(claims).__name__
        raise BadInput(f"policy {name}: place returned {got}; return a list of claims, [] when nothing fits")
    return claims


def machines_of(claims: Iterable[Claim]) -> set[int]:
    """Return the machines of claims."""
    return {claim.machine for claim in claims}


def with_wrapped(*policies: object) -> list[object]:
    """Return policies and the ones that they wrap, each once: dataclasses and policies among their attributes."""
    each_once, left = list[object](), list(policies)
    for policy in left:
        if policy is None or any(policy is each for each in each_once):
            continue
        each_once.append(policy)
        names = [each.name for each in fields(policy)] if is_dataclass(policy) else getattr(policy, "__dict__", ())
        inner = [getattr(policy, name, None) for name in names]
        left += [each for each in inner if is_dataclass(each) or _is_policy(type(each))]
    return each_once


def _is_policy(kind: type) -> bool:
    return any(isinstance(getattr(kind, name, None), FunctionType) for name in ("place", "lane", "size"))


def declares(name: str, *policies: object) -> bool:
    """Return whether one of the policies, or of those that they wrap, has an attribute that is true."""
    return any(getattr(each, name, False) for each in with_wrapped(*policies))


_CODE = (FunctionType, property, classmethod, staticmethod)


def declared(name: str, policy: object) -> Any:
    """Return what a policy declares about its own code: an attribute of its class; None when it declares nothing.

    A class that defines methods inherits no declaration: what holds for the inherited code may not hold for its own.
    """
    for kind in type(policy).__mro__:
        if name in vars(kind):
            return getattr(policy, name)
        if any(isinstance(each, _CODE) and not word.startswith("__") for word, each in vars(kind).items()):
            return None
    return None


def applies_constraints(policy: Placement | Preemption) -> bool:
    """Return whether a policy declares that it applies the demands of jobs itself (`applies_constraints = True`)."""
    return bool(declared("applies_constraints", policy))


def keeps_apart(policy: Placement) -> bool:
    """Return whether a placement declares that it follows `different_machines` itself (`keeps_apart = True`)."""
    return bool(declared("keeps_apart", policy))


def read_by(*policies: object) -> frozenset[str] | None:
    """Return the fields of jobs that policies and those that they wrap declare to read; None for every field.

    A policy with fields of jobs of its own (`job_fields`) reads all such fields. An ordering counts only if it bounds
    tasks (`most`): the queue groups jobs by lane and sorts each group by key.
    """
    names = set[str]()
    for policy in with_wrapped(*policies):
        if isinstance(policy, Ordering) and type(policy).most is Ordering.most:
            continue
        if not _is_policy(type(policy)):
            continue
        reads = declared("reads", policy)
        if reads is None:
            return None
        names.update(reads, {POLICY} if getattr(policy, "job_fields", ()) else ())
    return frozenset(names)


class Declarations:
    """What the policies of a scheduler declare, with those that they wrap: read once, when one of them is set.

    `within` is the placement as it applies the demands and the locality of jobs.
    """

    __slots__ = ("asserting", "joining", "places_all", "reads", "reads_attributes", "uses_pools", "with_wrapped")

    def __init__(
        self, ordering: Ordering, placement: Placement, preemption: Preemption, sizing: Sizing | None, within: Placement
    ) -> None:
        """Read them."""
        self.with_wrapped = with_wrapped(ordering, placement, preemption, sizing)
        self.joining = [policy for policy in self.with_wrapped if isinstance(policy, Joining)]
        """Policies that ask for their peers."""
        self.asserting = preemption if isinstance(preemption, Asserting) else None
        """The preemption, if it evicts by shares of pools."""
        self.places_all = as_places_all(within) if as_places_all(placement) else None
        """The placement, if it can place several jobs in one call."""
        self.reads = read_by(ordering, within, preemption)
        self.reads_attributes = declares("reads_attributes", placement, preemption)
        self.uses_pools = declares("uses_pools", ordering)

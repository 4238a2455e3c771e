"""The axes of a scheduler's decision; none knows the others (ARCHITECTURE.md).

A policy is a small dataclass with one or two methods: its fields are its parameters. An ordering inherits what it does
not say itself. The others are Protocols: a policy need not name one as its base; one that does and forgets a method
cannot be made.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from random import Random
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cellstate.errors import BadInput
from cellstate.snapshot import Snapshot
from cellstate.transaction import Claim
from schedulers.sizing.model import Profile, Totals
from schedulers.work import Work


class Ordering:
    """Which job next: in intake, for free and freed room, for what limits admit (semantics 32).

    Sees jobs, what users and pools hold, and the time; never machines. Jobs of the lane of the smallest rank come
    first, in a lane those of the smallest key, and of these those submitted first. Inherit: without any method of
    its own it is first in, first out.
    """

    __slots__ = ()
    rejoins: ClassVar[bool] = False
    """Whether a job that is tried again joins behind the jobs of the same key."""
    portion: ClassVar[int | None] = None
    """The most tasks of a job (not of a gang) that one attempt places while other jobs wait; None: all that fit."""

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Record what users and pools hold (`snapshot.usage`) and the time (seconds) before jobs are chosen.

        With this method, ranks are computed again after each chosen job: `snapshot.usage` then counts that job as if it
        were placed.
        """

    def lane(self, work: Work) -> Hashable:
        """Return what the jobs of one rank have in common, for example the user."""
        return ()

    def rank(self, lane: Hashable) -> float:
        """Return the rank of a lane, smallest first."""
        return 0.0

    def key(self, work: Work) -> float:
        """Return the key of a job in its lane, smallest first. It may not change while the job is queued."""
        return 0.0


class Placement(Protocol):
    """Where one job's tasks go. Pure: the same snapshot, job and rng state give the same answer."""

    @abstractmethod
    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Return claims for what fits and mark them in the snapshot with `snapshot.take`.

        One claim for each `take`, in the same order: more claims than a transaction may hold are cut
        off and undone. Tasks that fit nowhere are left out; a gang that does not fit as a whole gives no claims
        and leaves the snapshot as it was.
        """


class Sizing(Protocol):
    """How many workers a job that can use any number gets. Pure; sees sums over the cell, never single machines."""

    @abstractmethod
    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the workers the job is to have, those it has already included.

        Never fewer than the smaller of what was asked for and what is of use: the job waits for these. What
        goes beyond is surplus, which the cell may take back at any time.
        """


class Preemption(Protocol):
    """Whom to evict for a job that fits nowhere. Pure, as a placement is."""

    evicts: ClassVar[bool] = True
    """Whether it ever evicts anybody."""
    by: ClassVar[str] = ""
    """What decides whom it evicts, for people: ``precedence``, ``fair share``."""

    @abstractmethod
    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
        """Machines to be looked up before `place`: it is not known what runs there, and it might have to go.

        None when evicting cannot help the job, whatever runs anywhere: `place` is then not called.
        """

    @abstractmethod
    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        """Return what `placement` claims of the room that evictions would make, each claim with its victims.

        As Placement.place, but that the claims may take more than there is room for. Victims are in the order in
        which they may go, and only of machines that were looked up (`snapshot.residents`).
        """


@runtime_checkable
class Scoring(Protocol):
    """A placement that can say why it prefers a machine."""

    @abstractmethod
    def scores(
        self, work: Work, group: int, snapshot: Snapshot, machines: NDArray[np.intp]
    ) -> Mapping[str, NDArray[np.float64]]:
        """Points of one more task of a group on each of these machines, by what they are for; their sum decides."""


def claims_of(policy: Placement | Preemption, claims: Sequence[Claim] | None) -> Sequence[Claim]:
    """Return what `place` of a policy returned. BadInput, with the policy's name, when that is no list of claims."""
    if claims is None or not hasattr(claims, "__len__"):
        name, got = type(policy).__name__, "None" if claims is None else type(claims).__name__
        raise BadInput(f"policy {name}: place returned {got}; return a list of claims, [] when nothing fits")
    return claims


def machines_of(claims: Iterable[Claim]) -> set[int]:
    """The machines that claims name."""
    return {claim.machine for claim in claims}

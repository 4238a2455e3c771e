"""The axes of a scheduler's decision. Each is a Protocol; none knows the others (ARCHITECTURE.md).

A policy is a small dataclass with one or two methods: its fields are its parameters. It need not name the Protocol as
its base; one that does and forgets a method cannot be made.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cellstate.transaction import Claim
from cellstate.view import View
from schedulers.sizing.model import Profile, Totals
from schedulers.work import Work


class Ordering(Protocol):
    """Which job next. Sees jobs and the time, never machines."""

    @abstractmethod
    def add(self, work: Work) -> None:
        """Take a job into the queue."""

    @abstractmethod
    def pop(self, now: float) -> Work | None:
        """Take out the job to try next; None when none is due at `now` (seconds)."""

    @abstractmethod
    def discard(self, job_id: str) -> Work | None:
        """Take a job out wherever it stands."""

    @abstractmethod
    def get(self, job_id: str) -> Work | None:
        """Return a queued job."""

    @abstractmethod
    def next_due(self) -> float | None:
        """When the next job is due (seconds): 0 for at once, None when none is queued."""

    @abstractmethod
    def __len__(self) -> int:
        """How many jobs are queued."""


class Placement(Protocol):
    """Where one job's tasks go. Pure: the same view, job and rng state give the same answer."""

    @abstractmethod
    def place(self, work: Work, view: View, rng: Random) -> Sequence[Claim]:
        """Return claims for what fits and mark them in the view with `view.take`.

        One claim for each `take`, in the same order: more claims than a transaction may hold are cut
        off and undone. Tasks that fit nowhere are left out; a gang that does not fit as a whole gives no claims
        and leaves the view as it was.
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

    @abstractmethod
    def suspects(self, work: Work, view: View, rng: Random) -> Sequence[int] | None:
        """Machines to be looked up before `place`: it is not known what runs there, and it might have to go.

        None when evicting cannot help the job, whatever runs anywhere.
        """

    @abstractmethod
    def place(self, work: Work, view: View, placement: Placement, rng: Random) -> Sequence[Claim]:
        """Return what `placement` claims of the room that evictions would make, each claim with its victims.

        As Placement.place, but that the claims may take more than there is room for. Victims are in the order in
        which they may go, and only of machines that were looked up (`view.residents`).
        """


@runtime_checkable
class Scoring(Protocol):
    """A placement that can say why it prefers a machine."""

    @abstractmethod
    def scores(
        self, work: Work, group: int, view: View, machines: NDArray[np.intp]
    ) -> Mapping[str, NDArray[np.float64]]:
        """Points of one more task of a group on each of these machines, by what they are for; their sum decides."""


def machines_of(claims: Iterable[Claim]) -> set[int]:
    """The machines that claims name."""
    return {claim.machine for claim in claims}

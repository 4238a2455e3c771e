"""Which of several cells a job is submitted to: a policy that packages may replace.

A package registers a policy under ``omega.cell_choice``, as Omega does: a class without required parameters, or an
object.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from omega.cellstate.errors import BadInput, OmegaError
from omega.schedulers.foreign_errors import RAISED, said_at
from omega.schedulers.registry import imported, offer as entry_of

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec

AXIS = "cell_choice"
"""The group of entry points: ``omega.cell_choice``."""
WORDS = {"NEVER": "no machine can ever run it", "LIMIT": "its limit or precedence forbids it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOffer:
    """What a cell offers to a job at present, from a dry run of its schedulers' policies."""

    cell: str
    tasks: int
    placed: int
    """Tasks that would be placed now; of `tasks`."""
    evictions: int
    """Tasks of other jobs that would be evicted."""
    reason: str
    """Why the other tasks would be pending, as in `omega job why`; empty when all are placed."""
    schedulers: int
    """Live schedulers of the job's kind."""
    queued: int
    """Jobs of its kind with pending tasks."""
    wait_seconds: float | None
    """Mean time from submission to placement of the jobs of its kind that are placed there; None before the first."""
    room: float
    """Free share of the resource with the least room that the job needs, after its placement: 0 to 1."""
    local: float | None
    """Share of the placed tasks that are on machines with their data; None when the job states no locality."""

    @property
    def fits(self) -> bool:
        """Whether all tasks would be placed now, by a live scheduler."""
        return self.placed == self.tasks and self.schedulers > 0

    def as_json(self) -> dict[str, Any]:
        """Return the offer as plain values."""
        return {**asdict(self), "reason": self.reason or None, "fits": self.fits}

    def as_text(self) -> str:
        """Return the offer in a few words: ``2 of 5 tasks now (CPU), 3 queued jobs, 40 % free``."""
        told = [f"{self.placed:,} of {self.tasks:,} tasks now" + (f" ({self.reason})" if self.reason else "")]
        told += [f"evicts {self.evictions:,}"] * (self.evictions > 0)
        told += ["no live scheduler of its kind"] * (self.schedulers == 0)
        told += [f"{self.queued:,} of its kind queued"] * (self.queued > 0)
        told += [] if self.local is None else [f"{100 * self.local:.0f} % with their data"]
        return ", ".join([*told, f"{100 * self.room:.0f} % free"])


class CellPolicy(Protocol):
    """Chooses a cell for a job."""

    def choose(self, job: "JobSpec", offers: Sequence[CellOffer]) -> CellOffer:
        """Return one of the offers, of which there is at least one; they are in the order of the cells' names."""


class FitsFirst:
    """Choose a cell where the job fits now; of several the one with the data, the shortest wait, the most room."""

    def choose(self, job: "JobSpec", offers: Sequence[CellOffer]) -> CellOffer:
        """Return the best offer; of equal ones the first."""
        del job
        return min(offers, key=_rank)


def _rank(offer: CellOffer) -> tuple[object, ...]:
    wait = inf if not offer.schedulers else offer.wait_seconds or 0.0
    if offer.fits and not offer.queued:
        wait = 0.0  # nothing is before it
    return (
        offer.reason in WORDS,
        not offer.fits,
        -(offer.local or 0.0),
        round(wait, 1),
        offer.queued > 0,
        -offer.placed,
        offer.evictions,
        -round(offer.room, 6),
    )


def cell_policy(name: str | None = None) -> CellPolicy:
    """Return a policy by its registered name or ``module:attribute``; Omega's own without a name. Raises BadInput."""
    if name is None:
        return FitsFirst()
    what = f"cells policy {name!r}"
    target = imported(name, what) if ":" in name else entry_of(AXIS, name).load()
    if isinstance(target, type):
        try:
            target = target()
        except RAISED as error:
            raise BadInput(f"{what}: {said_at(error)}; it must take no parameters") from None
    if not callable(getattr(target, "choose", None)):
        raise BadInput(f"{what}: has no method choose(job, offers); see docs/many-cells.md")
    policy: CellPolicy = target
    return policy


def ask(policy: CellPolicy, job: "JobSpec", offers: Sequence[CellOffer]) -> CellOffer:
    """Return the choice of a policy. Raises BadInput when it fails, or returns none of the offers."""
    where = f"job {job.name}: cells policy {type(policy).__name__}"
    try:
        chosen = policy.choose(job, list(offers))
    except OmegaError:
        raise
    except RAISED as error:
        raise BadInput(f"{where}: {said_at(error)}; fix it, or leave out --cells-policy") from None
    if not any(chosen is each for each in offers):
        raise BadInput(f"{where}: returned {type(chosen).__name__}, which is none of the offers; return one of them")
    return chosen

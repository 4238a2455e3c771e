"""The policy as a plan of evictions uses it: evictions in flight, damping, order of victims."""

from typing import Protocol

from omega.cellstate.residents import Resident
from omega.cellstate.resources import Resources
from omega.schedulers.fairshare.job_standings import JobStand, JobStandings
from omega.schedulers.fairshare.standings import Standings


class PlanningPolicy(Protocol):
    """The policy of a plan (plans.py); times in seconds, amounts in smallest units."""

    @property
    def jobs(self) -> JobStandings:
        """How jobs stand within their pools."""

    @property
    def members(self) -> tuple[int, int]:
        """This scheduler's number among those of its kind, and how many they are."""

    @property
    def most(self) -> int:
        """The maximum number of machines that a plan considers."""

    @property
    def by_precedence(self) -> bool:
        """Whether precedence alone decides between jobs of different precedence of one pool."""

    def gone(self) -> dict[int, int]:
        """Return the number of tasks in the evictions in flight, by placement."""

    def gaining(self) -> set[str]:
        """The pools that the evictions in flight are for."""

    def freed(self, machine: int) -> list[Resources]:
        """Return the amounts that the evictions in flight free on a machine."""

    def leaving(self, job: str, size: int) -> Resources:
        """Return the amounts that a job loses by the evictions in flight."""

    def job_starves(self, job: str, stand: JobStand, leaf: str, found: Standings) -> bool:
        """Whether a job that may lose tasks starves itself."""

    def spares(self, resident: Resident, leaf: str, found: Standings, planned: int) -> bool:
        """Whether damping keeps a task where it is; `planned`: tasks of its pool that are to go already."""

    def rests(self, machine: int, now: float, seconds: float | None) -> bool:
        """Whether no task is evicted from a machine now, by a back-off of `seconds`."""

    def began(self, resident: Resident) -> float:
        """The latest time at which a task may have begun."""

    def below_since(self, pool: str) -> float | None:
        """The time from which on a pool has been below its share; None while it is not."""

    def rank(self, resident: Resident) -> int:
        """The place of a task among the victims, smallest first."""

"""Validated settings of a simulation: architecture, schedulers, decision times, rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from omega.cellstate.errors import BadInput
from omega.cellstate.transaction import Detection, Mode
from omega.simulation.two_level import AUTHORS, Offers

ARCHITECTURES = ("monolithic-single", "monolithic-multi", "partitioned", "two-level", "shared-state")
PLACEMENTS = ("random", "first-fit", "best-fit")
SHARINGS = ("hash", "round-robin")
KINDS = ("batch", "service")
MOST_SCHEDULERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one run. Times are seconds. Raises BadInput for invalid values.

    The defaults are the paper's (Omega §4): decision times of 0.1 s a job and 5 ms a task, fine detection,
    incremental commits; jobs that fit nowhere are blocked until resources are freed, as live.
    """

    architecture: str = "shared-state"
    days: float = 1.0
    seed: int = 0
    batch_schedulers: int = 1
    """Number of batch schedulers; more than one only in architectures with several schedulers."""
    service_schedulers: int = 1
    """As `batch_schedulers`."""
    t_job_batch: float = 0.1
    t_job_service: float = 0.1
    """In monolithic-single, the decision time of all jobs."""
    t_task: float = 0.005
    t_task_service: float | None = None
    """Decision time per task of service jobs, if different."""
    detection: Detection = Detection.FINE
    commit: Mode = Mode.INCREMENTAL
    placement: str = "random"
    """``random``: each task on a random machine (as in the paper); others as live."""
    sharing: str | None = None
    """How batch schedulers share jobs; None: by hash, or in turn under the reference rules."""
    release_moves_number: bool | None = None
    """Whether ending tasks raise a machine's sequence number; None: yes, except under the reference rules."""
    reference_rules: bool = False
    """Retry, abandon and count as the authors' simulator does."""
    shares: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.5))
    """Shares of the partitions."""
    offers: Offers | None = None
    """Rules for offers in a two-level cell; None: those of the paper, or of the authors' simulator under the
    reference rules."""

    def __post_init__(self) -> None:
        for what, value, known in (
            ("architecture", self.architecture, ARCHITECTURES),
            ("placement", self.placement, PLACEMENTS),
            ("sharing", self.sharing or SHARINGS[0], SHARINGS),
        ):
            if value not in known:
                raise BadInput(f"simulation: unknown {what} {value!r}; known: {', '.join(known)}")
        times = {"t_job_batch": self.t_job_batch, "t_job_service": self.t_job_service, "t_task": self.t_task}
        if self.t_task_service is not None:
            times["t_task_service"] = self.t_task_service
        for name, seconds in times.items():
            if not (isfinite(seconds) and seconds >= 0):
                raise BadInput(f"simulation: {name} is {seconds:g} s; want a time from 0 on")
        if not (isfinite(self.days) and 0 < self.days <= 10_000):
            raise BadInput(f"simulation: {self.days:g} days; want more than 0, at most 10,000")
        for kind in KINDS:
            number = self.number_of(kind)
            if not 1 <= number <= MOST_SCHEDULERS:
                raise BadInput(f"simulation: {number} {kind} schedulers; want 1 to {MOST_SCHEDULERS}")
            if number > 1 and self.architecture.startswith("monolithic"):
                raise BadInput(f"simulation: {number} {kind} schedulers; {self.architecture} has one for all jobs")
        if set(self.shares) != set(KINDS) or not all(isfinite(x) and x > 0 for x in self.shares.values()):
            raise BadInput(f"simulation: shares {dict(self.shares)}; want one above 0 for each of {', '.join(KINDS)}")

    @property
    def horizon(self) -> int:
        """Length of the run in microseconds."""
        return round(self.days * 86_400_000_000)

    def number_of(self, kind: str) -> int:
        """Return the number of schedulers of a kind; one of each kind that the architecture does not come with."""
        return {"batch": self.batch_schedulers, "service": self.service_schedulers}.get(kind, 1)

    @property
    def shared_by(self) -> str:
        """How batch schedulers share jobs."""
        return self.sharing or ("round-robin" if self.reference_rules else "hash")

    @property
    def releases_move(self) -> bool:
        """Whether ending tasks raise a machine's sequence number."""
        return not self.reference_rules if self.release_moves_number is None else self.release_moves_number

    @property
    def offered(self) -> Offers:
        """Rules for offers."""
        return self.offers or (AUTHORS if self.reference_rules else Offers())

    def decision_time(self, kind: str) -> tuple[float, float]:
        """(t_job, t_task) for jobs of a kind."""
        slow = kind == "service" or self.architecture == "monolithic-single"
        t_task = self.t_task_service if slow and self.t_task_service is not None else self.t_task
        return (self.t_job_service if slow else self.t_job_batch), t_task

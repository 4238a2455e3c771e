"""A job as its scheduler works on it: what is left to place, and how often it was tried."""

from dataclasses import dataclass, field
from typing import Any

from cellstate.model import Gang, Job
from cellstate.ranges import EMPTY
from cellstate.resources import Resources
from schedulers.constraints.demands import FIELDS, demands

Shape = tuple[Any, ...]
"""What decides whether a job fits: equal shapes fit or do not fit together."""
_KNOWN = frozenset({
    *FIELDS, "groups", "name", "command", "environment", "directory", "user", "pool", "restart", "time_limit", "grace",
    "log_limit", "on_abandon", "expected_duration",
})  # fmt: skip
"""Fields that a shape has already, or that only executors and people read."""


ON_ABANDON = "on_abandon"
"""The field of a job that says what becomes of its running tasks when it is abandoned: ``stop`` or ``keep``."""


def keeps_running(job: Job) -> bool:
    """Whether running tasks of the job run on when it is abandoned (semantics 24)."""
    return job.spec.get(ON_ABANDON) == "keep"


@dataclass(slots=True, eq=False)
class Work:
    """One job in one scheduler's hands. `left[g]` tasks of group g want a machine.

    `attempts` counts decisions, `conflicts` those rejected at least in part; only the latter count
    toward the retry limit (semantics 6). Times are seconds of the answerer's clock.
    """

    job: Job
    left: list[int]
    attempts: int = 0
    conflicts: int = 0
    placed: int = 0
    not_before: float = 0.0
    fruitless: int = 0
    submitted: float = 0.0
    """When the job was submitted."""
    places: dict[int, int] = field(default_factory=dict)
    """Tasks placed here so far by machine; not kept for claims of single tasks (`Singles`)."""
    woken: object = None
    """What it was requeued for, until it has been tried (schedulers/queue)."""
    admitted: list[int] | None = None
    """What of `left` its next attempt may place: what limits admit, or what the policy gives it for now."""
    joined: int = 0
    """The number under which it joined the queue of ready jobs."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What policies keep of the job from one attempt to the next, under names of their own."""

    @classmethod
    def of(cls, job: Job) -> "Work":
        """Take up a job as the store has it."""
        return cls(job, [group.ready for group in job.groups], submitted=job.submitted_ms / 1000)

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def until(self) -> float:
        """When a policy that places nothing of it now wants it tried again (seconds); 0 for no such time."""
        until: float = self.notes.get("until", 0.0)
        return until

    @until.setter
    def until(self, seconds: float) -> None:
        self.notes["until"] = seconds

    @property
    def user(self) -> str:
        """The user whose job it is, ``""`` when it names none."""
        return _word(self.job.spec.get("user"))

    @property
    def pool(self) -> str:
        """The pool it belongs to, ``""`` when it names none."""
        return _word(self.job.spec.get("pool"))

    @property
    def expected_seconds(self) -> float | None:
        """How long each of its tasks is expected to run (job field ``expected_duration``); None when nobody said."""
        found = self.job.spec.get("expected_duration")
        return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None

    @property
    def remaining(self) -> int:
        """Tasks that still want a machine."""
        left = self.left
        return left[0] if len(left) == 1 else sum(left)

    @property
    def gang(self) -> bool:
        """Whether all that is left must be placed in one transaction."""
        return self.job.gang is not Gang.NO

    def need(self, group: int) -> Resources:
        """Amounts one task of a group takes."""
        return self.job.groups[group].need

    def shape(self) -> Shape:
        """What decides whether it fits: what its tasks need and demand, and whom they may evict (semantics 19).

        Where its tasks are matters only to a job that spreads and has some: it is a shape of its own.
        """
        groups = [group for group, left in enumerate(self.left) if left]
        needs = tuple(self.job.groups[group].need for group in groups)
        gang = tuple(self.left) if self.gang else None
        if not self.job.spec:
            return needs, gang, self.job.precedence, "", ""
        wants = tuple(demands(self.job, group) for group in groups)
        scattered = any(each.counts for each in wants) and (self.placed or any(g.placed for g in self.job.groups))
        whose = self.user, self.pool
        own = self.id if scattered else ""
        return needs, gang, self.job.precedence, *whose, wants, self._unknown(groups), own, self.job.commands

    def _unknown(self, groups: list[int]) -> str:
        """What the job file says and Omega knows nothing of: a stranger's policy may."""
        said = self.job.spec.get("groups") or []
        parts = [self.job.spec, *(said[group] for group in groups if group < len(said))]
        rest = [sorted((k, v) for k, v in part.items() if k not in _KNOWN) for part in parts if isinstance(part, dict)]
        return repr(rest) if any(rest) else ""

    def takes_over(self, job: Job) -> None:
        """The store says anew what is left (tasks came back, or somebody else placed some)."""
        self.job = job
        self.left = [0 if group.waiting == EMPTY else group.ready for group in job.groups]


def _word(found: object) -> str:
    return found if isinstance(found, str) else ""

"""A job in a scheduler: its unplaced tasks, its attempts, and what makes jobs alike.

Of jobs that are alike one is tried for all (semantics 19). By the tables of `omega.cellstate.schema`, a field that all
policies see, and one that no table has, is part of a job's shape. Others are part of it where a policy declares that it
reads them (`reads`), and, but for what each job has of its own (its name, the time of its submission), where a policy
declares nothing.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.job_demands import weight_of
from omega.cellstate.model import Gang, GroupStatus, Job
from omega.cellstate.ranges import EMPTY
from omega.cellstate.resources import Resources
from omega.cellstate.schema import CHANGING, FIXED, GROUP, GROUP_SPEC, POLICY, SPEC, Field, Seen, SpecField
from omega.schedulers.constraints.demands import FIELDS, NONE, asks_anything, demands

Part = tuple[str, Any]
"""A field and its value."""
_ATTRIBUTES = {"submitted": "submitted_ms", "duration": "duration_ms"}
"""Attributes of a job and its groups that have another name than the field of the record."""


Table = Sequence[Field] | Sequence[SpecField]
_NO_GANG = Gang.NO
_new = object.__new__
Shape = tuple[Any, ...]
"""The properties that decide whether a job fits: equal shapes fit or do not fit together."""
NOTHING: frozenset[str] = frozenset()
"""What policies read of jobs that read no more than all policies see."""
ON_ABANDON = "on_abandon"
"""Job field for the running tasks of an abandoned job: ``stop`` or ``keep``."""


class SeenFields:
    """The fields of a job that policies see, beside the needs of its tasks and its demands."""

    def __init__(self, reads: frozenset[str] | None) -> None:
        """Compare what policies see that declare to read these fields; None: that declare nothing."""
        self._reads = reads
        self._job = _attributes(Job, self._seen(CHANGING, FIXED))
        self._group = _attributes(GroupStatus, self._seen(GROUP))
        self._hidden = {field.name for field in SPEC} - self._seen(SPEC) | {"groups"}
        self._hidden_of_group = {field.name for field in GROUP_SPEC} - self._seen(GROUP_SPEC) | {*FIELDS}
        self._of_job = attrgetter(*self._job)

    def _seen(self, *tables: Table) -> set[str]:
        shown = {Seen.ALL} if self._reads is not None else {Seen.ALL, Seen.DECLARED}
        fields = [field for table in tables for field in table]
        return {field.name for field in fields if field.seen in shown or field.name in (self._reads or ())}

    def of(self, job: Job, groups: Sequence[int]) -> tuple[Any, ...]:
        """Return the parts of a job with unplaced tasks in these groups."""
        record = self._of_job(job)
        if self._group:
            record = record, tuple(getattr(job.groups[group], name) for group in groups for name in self._group)
        return (record, tuple(self._written(job.spec, groups))) if job.spec else (record, ())

    def _written(self, spec: Mapping[str, Any], groups: Sequence[int]) -> Iterator[Part]:
        yield from _parts(spec, self._hidden)
        own = spec.get(POLICY)
        if self._reads and isinstance(own, Mapping):
            yield from _parts(own, own.keys() - self._reads)
        said = spec.get("groups") or ()
        for group in groups:
            if group < len(said) and isinstance(said[group], Mapping):
                yield from _parts(said[group], self._hidden_of_group)


@lru_cache(maxsize=64)
def seen_by(reads: frozenset[str] | None) -> SeenFields:
    """Return the fields that policies see which declare to read these; None: which declare nothing."""
    return SeenFields(reads)


def _attributes(of: type[Job | GroupStatus], names: Iterable[str]) -> tuple[str, ...]:
    """Return the attributes with these fields; some fields of records have none, and policies do not see them."""
    return tuple(name for each in sorted(names) if (name := _ATTRIBUTES.get(each, each)) in of.__annotations__)


def _parts(fields: Mapping[str, Any], hidden: AbstractSet[str]) -> Iterator[Part]:
    for name in sorted(fields):
        if name not in hidden:
            value = fields[name]
            yield name, value if isinstance(value, str) else repr(value)


def keeps_running(job: Job) -> bool:
    """Return whether running tasks continue when the job is abandoned (semantics 24)."""
    return job.spec.get(ON_ABANDON) == "keep"


@dataclass(slots=True, eq=False)
class Work:
    """One job of a scheduler. `left[g]` tasks of group g are unplaced.

    `attempts` counts decisions, `conflicts` those rejected at least in part; only the latter count toward the retry
    limit (semantics 6). Times are seconds of the loop's clock.
    """

    job: Job
    left: list[int]
    _: KW_ONLY
    attempts: int = 0
    conflicts: int = 0
    placed: int = 0
    not_before: float = 0.0
    fruitless: int = 0
    submitted: float = 0.0
    """When the job was submitted."""
    places: dict[int, int] = field(default_factory=dict)
    """Tasks placed by this scheduler, by machine; not kept for claims in compact form (`ClaimColumns`)."""
    requeued_by: object = None
    """The reason it was requeued, until its next attempt (schedulers/queue)."""
    admitted: list[int] | None = None
    """Tasks by group that its next attempt may place, as set by limits or the policy; None: all of `left`."""
    announced: bool = False
    """Whether its first attempt was reported to instruments."""
    joined: int = 0
    """Its number in the queue of ready jobs."""
    lane: Hashable | None = None
    """Its lane there, as the ordering named it; None while it is the only job."""
    notes: dict[str, Any] = field(default_factory=dict)
    """State that policies keep for the job between attempts, each under its own name."""
    belongs: tuple[str, str] | None = None
    """Its pool and user, once `whose` was asked for."""
    noted: bool = False
    """Whether the store has the note that its first attempt placed nothing."""
    counted: int = 0
    """The lane of the store among whose jobs that are due the queue counts it; 0 while it does not."""
    ended: Sequence[int] = ()
    """Tasks by group that ended since the job was read, as far as known; empty for none."""

    @classmethod
    def of(cls, job: Job) -> "Work":
        """Create the work of a job as stored: field by field, in a third of the time of a call of the class."""
        return cls.of_all((job,))[0]

    @classmethod
    def of_all(cls, jobs: Sequence[Job], *, whose: bool = False) -> "list[Work]":
        """Create the works of several jobs, as `of` does for each; what is to be placed of jobs alike is read once.

        `whose`: pool and user are asked for soon; of jobs with one job file they are read once too.
        """
        works: list[Work] = []
        known, number = None, 0
        for job in jobs:
            groups = job.groups
            if groups[0] is known and len(groups) == 1:
                left = [number]
            else:
                left = _unplaced(job)
                known, number = groups[0], left[0]
            works.append(cls.waiting(job, left, job.submitted_ms / 1000))
        if whose:
            _know_whose(works)
        return works

    @classmethod
    def waiting(cls, job: Job, left: list[int], submitted: float) -> "Work":
        """Create the work of a job with these unplaced tasks by group, submitted at a time in seconds."""
        work = _new(cls)
        work.job, work.left, work.submitted = job, left, submitted
        work.attempts = work.conflicts = work.placed = work.fruitless = work.joined = work.counted = 0
        work.not_before, work.places, work.notes = 0.0, {}, {}
        work.requeued_by = work.admitted = work.lane = work.belongs = None
        work.announced = work.noted = False
        work.ended = ()
        return work

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def until(self) -> float:
        """Time (seconds) at which a policy that delays it wants it tried again; 0 for none."""
        until: float = self.notes.get("until", 0.0)
        return until

    @until.setter
    def until(self, seconds: float) -> None:
        self.notes["until"] = seconds

    @property
    def again(self) -> float:
        """The time at which a blocked job is tried again although no room was freed (seconds); 0 for no such time."""
        again: float = self.notes.get("again", 0.0)
        return again

    @again.setter
    def again(self, seconds: float) -> None:
        self.notes["again"] = seconds

    def elsewhere(self, machines: int) -> NDArray[np.bool_] | None:
        """Return on which of so many machines none of its tasks used up its restarts (semantics 26); None for all."""
        groups = self.job.groups
        if len(groups) == 1 and not groups[0].losses:
            return None
        failed = {loss.retried.machine for group in groups for loss in group.losses if loss.retried.failures}
        failed = {machine for machine in failed if machine < machines}
        if not failed:
            return None
        others = np.ones(machines, dtype=np.bool_)
        others[list(failed)] = False
        return others

    def delayed_at(self, levels: Sequence[str], machines: Mapping[int, NDArray[np.intp]], version: int) -> None:
        """Record at which level each group of a delayed job waits, ``""`` for one that does not, and for what room.

        Freed room on other machines than these, by group, does not make the job ready before `until`, as long as the
        snapshot's attributes have this version.
        """
        self.notes["levels"], self.notes["machines"] = tuple(levels), (version, machines)

    @property
    def level(self) -> str:
        """The level at which a delayed job waits: ``machine``, ``rack``, …; empty where no policy named one."""
        return next(filter(None, self.notes.get("levels", ())), "")

    def awaits(self, group: int, version: int) -> NDArray[np.intp] | None:
        """Return the machines for whose room a group waits, given the version of the attributes; None for all."""
        known, machines = self.notes.get("machines", (version, {}))
        found: NDArray[np.intp] | None = machines.get(group) if known == version else None
        return found

    def resume(self) -> None:
        """Forget for what a delayed job waits: it is tried again."""
        for name in ("until", "again", "levels", "machines"):
            self.notes.pop(name, None)

    @property
    def entitled(self) -> bool:
        """Whether it was requeued because shares entitle it to room that other jobs of its pool hold."""
        return "entitled" in self.notes

    @entitled.setter
    def entitled(self, value: bool) -> None:
        self.notes["entitled"] = value

    @property
    def user(self) -> str:
        """The job's user, ``""`` when it has none."""
        user = self.job.spec.get("user")
        return user if isinstance(user, str) else ""

    @property
    def pool(self) -> str:
        """The job's pool, ``""`` when it has none."""
        pool = self.job.spec.get("pool")
        return pool if isinstance(pool, str) else ""

    @property
    def weight(self) -> float:
        """The job's weight among the jobs of its pool; 1 without a valid one."""
        return weight_of(self.job.spec) if self.job.spec else 1.0

    @property
    def whose(self) -> tuple[str, str]:
        """The job's pool and user, kept because the queue asks several times for each job."""
        whose = self.belongs
        if whose is None:
            whose = self.belongs = self.pool, self.user
        return whose

    @property
    def expected_seconds(self) -> float | None:
        """Expected duration of each of its tasks in seconds (job field ``expected_duration``), or None."""
        seconds = self.job.spec.get("expected_duration")
        return float(seconds) if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else None

    @property
    def remaining(self) -> int:
        """Number of unplaced tasks."""
        left = self.left
        return left[0] if len(left) == 1 else sum(left)

    @property
    def gang(self) -> bool:
        """Whether all unplaced tasks must be placed in one transaction; not those of a gang with a minimum."""
        job = self.job
        return job.gang is not _NO_GANG and not job.gang_min

    @property
    def least(self) -> int:
        """Number of tasks that one transaction must place: all of a gang, or what its minimum lacks; 0: no minimum."""
        job = self.job
        if job.gang is _NO_GANG:
            return 0
        if not job.gang_min:
            return self.remaining
        lacks, waiting = job.gang_min, self.remaining
        for number, group in enumerate(job.groups):
            lacks -= self.holds(number)
            waiting += group.delayed
        return max(0, min(lacks, waiting))

    def need(self, group: int) -> Resources:
        """Return the resources of one task of a group."""
        return self.job.groups[group].need

    def shape(self, reads: frozenset[str] | None = NOTHING) -> Shape:
        """Return the job's shape for policies that declare to read these fields; None: that declare nothing.

        The machines of its tasks matter only for a job that spreads and has running ones: that is a shape of its own.
        The number of its tasks matters to a gang, and where a share of them bounds what a domain holds.
        """
        job = self.job
        groups = [group for group, left in enumerate(self.left) if left]
        needs = tuple([job.groups[group].need for group in groups])
        gang: object = tuple(self.left) if self.gang or reads is None else None
        if job.gang_min:
            gang = gang, self.least
        seen = seen_by(reads).of(job, groups)
        if self.notes and (levels := self.notes.get("levels")):
            seen = seen, levels
        wants = tuple([demands(job, group) for group in groups]) if asks_anything(job) else ()
        if all(each is NONE for each in wants):
            return needs, gang, seen
        scattered = any(each.counts for each in wants) and (self.placed or any(g.placed for g in job.groups))
        whole = sum(g.unplaced + g.placed for g in job.groups) if any(each.relative for each in wants) else 0
        return needs, gang, seen, wants, whole, job.id if scattered else ""

    def holds(self, group: int) -> int:
        """Return how many tasks of a group run, as far as known."""
        status = self.job.groups[group]
        new = (status.ready if status.losses else status.unplaced) - self.left[group]
        placed = status.placed + new if new > 0 else status.placed
        return placed - self.ended[group] if self.ended else placed

    def learn(self, placed: Sequence[int]) -> bool:
        """Take over from the store how many tasks of each group run; return whether this scheduler knew less.

        Nothing is taken over where the store has the job with other groups: after an update, or in a dry run of one.
        """
        if len(placed) != len(self.left):
            return False
        before = [self.holds(group) for group in range(len(self.left))]
        if before == list(placed):
            return False
        ended = self.ended or [0] * len(before)
        self.ended = [past + had - has for past, had, has in zip(ended, before, placed, strict=True)]
        return True

    def takes_over(self, job: Job) -> None:
        """Update the unplaced tasks from the store: tasks were requeued, or another scheduler placed some."""
        self.job, self.belongs, self.ended = job, None, ()
        self.left = _unplaced(job)


def _know_whose(works: Sequence[Work]) -> None:
    spec, belongs = None, None
    for work in works:
        if work.job.spec == spec:
            work.belongs = belongs
        else:
            spec, belongs = work.job.spec, work.whose


def fitting(work: Work, amounts: Sequence[float]) -> list[int]:
    """Return how many unplaced tasks of each group fit into some amounts, one group after the other.

    Of a gang as many as must be placed together, or none.
    """
    groups, left = work.job.groups, amounts
    if len(groups) == 1:  # as most jobs have, and several times for each
        count = work.left[0]
        for has, amount in zip(left, groups[0].need, strict=True):
            if amount and has < count * amount:
                count = int(has // amount) if has > 0 else 0
        return [count if count >= work.least else 0]
    tasks = list[int]()
    for group, count in enumerate(work.left):
        need = work.need(group)
        fits = (int(max(0.0, has) // amount) for has, amount in zip(left, need, strict=True) if amount)
        tasks.append(min([count, *fits]))
        left = [has - tasks[-1] * amount for has, amount in zip(left, need, strict=True)]
    return tasks if sum(tasks) >= work.least else [0] * len(tasks)


def together(work: Work) -> Work:
    """Return the tasks that a gang with a minimum lacks as a gang of their own, the smallest first; else the work."""
    job, least = work.job, work.least
    if not job.gang_min or not least:
        return work
    left = [0] * len(work.left)
    for group in sorted(range(len(left)), key=lambda group: (max(work.need(group), default=0), group)):
        left[group] = min(work.left[group], least)
        least -= left[group]
    return replace(work, job=replace(job, gang_min=0), left=left, admitted=None)


def _unplaced(job: Job) -> list[int]:
    if len(job.groups) == 1 and not (group := job.groups[0]).losses:
        return [0 if group.waiting == EMPTY else group.unplaced]
    return [0 if group.waiting == EMPTY else group.ready for group in job.groups]

"""Elastic jobs while they run: their progress, and the number of workers each should have.

Requested workers are waited for like other tasks. Additional ones are surplus, tasks of the job's optional group:
they are placed at once or not at all, are evicted first, and are given up when others wait for their room.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from omega.cellstate import ranges
from omega.cellstate.cell import Cell, Schedulers
from omega.cellstate.errors import Overtaken, Refused
from omega.cellstate.model import Job, JobState, MachineState
from omega.cellstate.replies import PendingJob
from omega.cellstate.resources import Resources
from omega.cellstate.shards import MAP, Progress, ShardDurations
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.locality import groups_near, has_places
from omega.schedulers.constraints.reasons import Reason
from omega.schedulers.policies import Sizing
from omega.schedulers.sharing import Keeps, leaf_of_job
from omega.schedulers.sizing import PLAN, Phase, Profile, Totals

LOOK_SECONDS = 1.0
REST_SECONDS = 10.0
"""Time without further surplus for a job after surplus workers found no machine although the sums had room."""
MOST_WAITING = 20
"""Maximum number of pending jobs per kind that are read."""
EXPLAINED_SECONDS = 1.9
"""Time in which a heartbeat says why a job waits; after it a job of which nothing is said is taken to wait for room."""
HELPED = frozenset({Reason.RESOURCES, Reason.SPREAD, Reason.WAITING, Reason.CONFLICTS, Reason.LOCALITY, Reason.PLACED})
"""Reasons of pending jobs that room may help, unlike one that no machine suits, or that a limit holds back."""

TotalsOf = Mapping[str, Mapping[int, int]]
"""New totals by job and task group."""


class Measure(NamedTuple):
    """Measure these jobs and read other pending jobs; with `every`, also all others in the scheduler's buckets."""

    jobs: tuple[str, ...]
    every: bool = False


class Sized(NamedTuple):
    """A job, its progress, and the stored durations of jobs with its name."""

    job: Job
    progress: Progress | None
    durations: ShardDurations | None


class Measurements(NamedTuple):
    """The answer to Measure: the jobs that still exist, and pending jobs of other schedulers that room would help.

    Of those that are `unexplained` no scheduler has said yet why they wait.
    """

    jobs: Sequence[Sized]
    waiting: Sequence[Job]
    unexplained: Container[str] = ()


class Resize(NamedTuple):
    """Change the totals of jobs; the answer is Resized."""

    totals: TotalsOf


class Resized(NamedTuple):
    """The jobs after the change, without those that changed or ended meanwhile: the next look sees them as they are.

    `refused`: jobs of which the store refuses the totals for another reason, with its text. No look repairs that.
    """

    jobs: Sequence[Job]
    refused: Mapping[str, str] = {}


@dataclass(slots=True)
class Elastic:
    """The elastic jobs of a scheduler, their specs, and when to measure them next (seconds).

    `sizing` decides; without one nothing is elastic. `strangers`: running jobs may have come from a lost scheduler.
    `waited`: pending jobs of other schedulers, and since when they are known (seconds). `rests`: time until which a job
    gets no more surplus. `refused`: totals that the store refused, as text by job; the heartbeat reads them.
    """

    sizing: Sizing | None = None
    jobs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    due: float = 0.0
    strangers: bool = True
    waited: dict[str, float] = field(default_factory=dict)
    rests: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def take(self, job: Job) -> None:
        """Include a job if it is elastic; measure it at once, and anew where its maps are if it was read again."""
        if self.sizing is None:
            return
        known = self.jobs.get(job.id)
        read_again = known is not None and known is not job.spec and has_places(job)
        if read_again or (known is None and can_grow(job)):
            self.jobs[job.id] = job.spec
            self.due = 0.0

    def forget(self, job_id: str) -> None:
        """Exclude a job."""
        self.jobs.pop(job_id, None)
        self.rests.pop(job_id, None)
        self.refused.pop(job_id, None)

    def keep(self, keeps: Keeps) -> None:
        """Exclude jobs of other schedulers; some may have come from others."""
        for job_id in [job_id for job_id, spec in self.jobs.items() if not keeps(job_id, leaf_of_job(spec))]:
            self.forget(job_id)
        self.strangers = True

    def next_due(self) -> float | None:
        """Return when to measure next (seconds); None when there is no elastic job."""
        return self.due if self.sizing is not None and (self.jobs or self.strangers) else None

    def is_due(self, now: float) -> bool:
        """Return whether jobs are due for measurement."""
        due = self.next_due()
        return due is not None and due <= now

    def ask(self, now: float) -> Measure:
        """Return the next measurement to make."""
        asked = Measure(tuple(self.jobs), self.strangers)
        self.due, self.strangers = now + LOOK_SECONDS, False
        return asked

    def spare(self, job: Job, left: list[int], now: float) -> dict[int, int]:
        """Give up surplus workers that found no machine: reduce `left` and return the job's new totals."""
        if self.sizing is None:
            return {}
        groups = enumerate(zip(job.groups, left, strict=True))
        totals = {number: group.total - rest for number, (group, rest) in groups if group.optional and rest}
        for number in totals:
            left[number] = 0
            self.rests[job.id] = now + REST_SECONDS
        return totals

    def targets(
        self, measured: Measurements, snapshot: Snapshot, now: float, in_hand: Container[str] = ()
    ) -> dict[str, dict[int, int]]:
        """Return the totals to change; those of current jobs wait for their outcome.

        Requested workers, and jobs of other schedulers that have been pending for more than a look, count as placed:
        the policy sees that much less idle, and gives up surplus when less than nothing is idle.
        """
        if self.sizing is None:
            return {}
        self.waited = {job.id: self.waited.get(job.id, now) for job in measured.waiting}
        since = {
            job.id: now - (EXPLAINED_SECONDS if job.id in measured.unexplained else 0.0) for job in measured.waiting
        }
        waiting = [job for job in measured.waiting if self.waited[job.id] < since[job.id]]
        capacity, allocated = _sums(snapshot)
        wanting = [group for job in waiting for group in job.groups if not group.optional]
        wanting += [sized.job.groups[0] for sized in measured.jobs]
        for group in wanting:
            allocated = _plus(allocated, group.need, group.unplaced)
        known = {sized.job.id: sized for sized in measured.jobs}
        for job_id in [job_id for job_id in self.jobs if job_id not in known]:
            self.forget(job_id)
        changes = {}
        for job_id, sized in known.items():
            spec = self.jobs.setdefault(job_id, sized.job.spec)
            if sized.job.state is JobState.ACTIVE:
                profile = profile_of(sized, spec)
                size = self.sizing.size(profile, Totals(capacity, allocated))
                failed = sized.progress is not None and bool(sized.progress.failed)
                rests = failed or self.rests.get(job_id, 0.0) > now
                change, more = _change(sized.job, profile, size, rests=rests)
                change |= _of_no_use(sized)
                allocated = _plus(allocated, profile.need, more)
                if change and job_id not in in_hand:
                    changes[job_id] = change
                elif not change and not rests:
                    self.refused.pop(job_id, None)  # nothing is wanted that was refused
        return changes

    def answered(self, resized: Resized, now: float) -> None:
        """Record what the store refused. Such a job rests, then it is tried again."""
        for job in resized.jobs:
            self.refused.pop(job.id, None)
        for job_id, text in resized.refused.items():
            if job_id in self.jobs:
                self.refused[job_id], self.rests[job_id] = text, now + REST_SECONDS

    def refusals(self) -> dict[str, dict[str, int]]:
        """Return the jobs of which the store refuses the totals, by its text, with the time of the next try (ms)."""
        found: dict[str, dict[str, int]] = {}
        for job_id, text in list(self.refused.items()):  # the loop may change it meanwhile
            found.setdefault(text, {})[job_id] = int(self.rests.get(job_id, 0.0) * 1000)
        return found

    def moved(self, measured: Measurements, in_hand: Container[str] = ()) -> list[PendingJob]:
        """Return jobs with pending workers whose unclaimed maps are on other machines than at the last call.

        Their specs have the locality of these maps, which they get from now on. Those of current jobs wait.
        """
        jobs = []
        for job, progress, _ in measured.jobs:
            spec = self.jobs.get(job.id, job.spec)
            if progress is None or job.id in in_hand or not spec.get(PLAN, {}).get("places"):
                continue
            groups = groups_near(spec, _left(job, progress))
            if groups != spec["groups"]:
                self.jobs[job.id] = {**spec, "groups": groups}
                jobs += [job] if job.pending and job.state is JobState.ACTIVE else []
        return self.with_specs(jobs)

    def with_specs(self, jobs: Iterable[Job]) -> list[PendingJob]:
        """Return changed jobs in the form of arriving ones: the store answers without their specs."""
        return [PendingJob(0, replace(job, spec=self.jobs[job.id])) for job in jobs if job.id in self.jobs]


def can_grow(job: Job) -> bool:
    """Return whether a job is elastic."""
    return PLAN in job.spec and surplus_of(job) is not None


def surplus_of(job: Job) -> int | None:
    """Return the task group for surplus workers, or None; the first group has the job's requested workers."""
    return next((i for i, group in enumerate(job.groups) if group.optional), None)


def profile_of(sized: Sized, spec: Mapping[str, Any]) -> Profile:
    """Return a job's profile: mean durations of this run where there are some, else of earlier runs."""
    job, progress, known = sized
    plan, workers = spec[PLAN], job.groups[0]
    before = (known.map_ms / 1000, known.reduce_ms / 1000) if known else (None, None)
    if progress is None:
        phases = [Phase(plan["maps"], before[0]), Phase(plan["reduces"], before[1])]
    else:
        counts = (progress.map, progress.reduce)
        phases = [
            Phase(count.total - count.done, count.mean if count.done else mean)
            for count, mean in zip(counts, before, strict=True)
        ]
    has = workers.unplaced + sum(group.placed for group in job.groups)
    return Profile(workers.total, phases, workers.need, has)


def _change(job: Job, profile: Profile, size: int, *, rests: bool) -> tuple[dict[int, int], int]:
    """Return new totals that give a job `size` workers, and the change of its number of workers.

    Surplus that is no longer useful is not removed: such workers exit, and one of them might hold the last shard.
    Requested workers are reduced to the useful number only before any of them runs. A job that `rests` gets no more
    surplus, nor does one with all requested workers ended: surplus cannot do better.
    """
    number, workers = surplus_of(job), job.groups[0]
    if number is None:
        return {}, 0
    surplus, asked = job.groups[number], workers.placed + workers.unplaced
    useful, change = profile.useful(), dict[int, int]()
    wanted = max(0, size - asked)
    if wanted < surplus.placed and useful is not None and size >= useful:
        wanted = surplus.placed
    if rests or not asked:
        wanted = min(wanted, surplus.placed)
    if workers.total == workers.unplaced > size:
        change[0] = asked = size
    total = surplus.finished + surplus.failed + surplus.stopped + wanted
    if total != surplus.total:
        change[number] = total
    return change, max(0, wanted - surplus.placed)


def _of_no_use(sized: Sized) -> dict[int, int]:
    """Return a total without the pending workers once the job is done and one worker committed the result."""
    workers, progress = sized.job.groups[0], sized.progress
    over = progress is not None and progress.phase == "done" and workers.finished > 0
    return {0: workers.total - workers.unplaced} if over and workers.unplaced else {}


def _left(job: Job, progress: Progress) -> str:
    """Return the maps that nobody works on or finished, those of lost workers included."""
    if progress.phase != MAP:
        return ranges.EMPTY
    live = {placement for group in job.groups for placement, _, leaving in group.runs if not leaving}
    lost = sorted(shard for placement, _, shard in progress.held if placement not in live)
    return ranges.add(progress.unclaimed, ranges.spell_all(lost))


def _sums(snapshot: Snapshot) -> tuple[Resources, Resources]:
    up = snapshot.rows[2] == MachineState.UP
    sums = snapshot.capacity[:, up].sum(axis=1), snapshot.allocated[:, up].sum(axis=1)
    return tuple(map(int, sums[0])), tuple(map(int, sums[1]))


def _plus(amounts: Resources, need: Resources, count: int) -> Resources:
    return tuple(amount + each * count for amount, each in zip(amounts, need, strict=True))


# Answers from a cell


def measure(asked: Measure, cell: Cell, kind: str, owns: Keeps) -> Measurements:
    """Read the requested measurements; `owns` tells the scheduler's own jobs."""
    jobs = list(cell.jobs.by_id(asked.jobs).values())
    if asked.every:
        others = (job for job in cell.jobs.all() if job.kind == kind and job.id not in asked.jobs)
        jobs += [job for job in others if owns(job.id, leaf_of_job(job.spec)) and can_grow(job)]
    sized = [Sized(job, cell.shards.progress(job.id), cell.shards.durations(job.name)) for job in jobs if _lives(job)]
    own = {each.job.id for each in sized}
    reasons = _reasons(cell.schedulers)
    waiting = [
        job_id
        for ids in cell.schedulers.pending(MOST_WAITING).values()
        for job_id in ids
        if job_id not in own and reasons.get(job_id, Reason.RESOURCES) in HELPED
    ]
    pending = [job for job in cell.jobs.by_id(waiting).values() if job.pending]
    return Measurements(sized, pending, {job.id for job in pending} - reasons.keys())


def _reasons(schedulers: Schedulers) -> dict[str, str]:
    """Return why jobs were pending last, as far as heartbeats of schedulers say so."""
    said = [
        (int(at_ms), job_id, str(reason))
        for figures in schedulers.figures().values()
        for job_id, entries in figures.get("reasons", {}).items()
        for at_ms, reason in entries[-1:]
    ]
    return {job_id: reason for _, job_id, reason in sorted(said)}


def _lives(job: Job) -> bool:
    return job.state <= JobState.HELD and any(group.unplaced or group.placed for group in job.groups)


def resize(asked: Resize, cell: Cell, at_ms: int, by: str) -> Resized:
    """Apply the requested totals. Refusals that are no race are part of the answer."""
    jobs, refused = [], {}
    for job_id, totals in asked.totals.items():
        try:
            jobs.append(cell.jobs.resize(job_id, totals, at_ms, by, seen={}))
        except Refused as error:
            job = cell.jobs.get(job_id)
            if job is not None and job.state <= JobState.HELD and not _overtaken(job, totals, error):
                refused[job_id] = str(error)
    return Resized(jobs, refused)


def _overtaken(job: Job, totals: Mapping[int, int], error: Refused) -> bool:
    """Return whether a live job changed since it was measured: more of its workers ended than shall be left."""
    if isinstance(error, Overtaken):
        return True
    groups = [(job.groups[number], total) for number, total in totals.items() if number < len(job.groups)]
    return any(total < group.total - group.unplaced - group.placed for group, total in groups)

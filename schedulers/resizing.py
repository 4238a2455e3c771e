"""Jobs that can use any number of workers, while they run: how far they are, and how many workers each is to have.

What was asked for is waited for like any task. What goes beyond is surplus, tasks of the job's optional group:
they are placed at once or not at all, may be evicted first, and are given up when others wait for their room.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cellstate.cell import Cell, Opaque, PendingJob
from cellstate.errors import Refused
from cellstate.model import Job, JobState, MachineState, bucket_of
from cellstate.resources import Resources
from cellstate.shards import Progress, ShardDurations
from cellstate.snapshot import Snapshot
from schedulers.policies import Sizing
from schedulers.sizing.model import Phase, Profile, Totals

LOOK_SECONDS = 1.0
REST_SECONDS = 10.0
"""After surplus workers found no machine, though the sums had room, a job gets no more of them for this long."""
MOST_WAITING = 20
"""Jobs of each other kind that are asked what they wait for."""
PLAN = "mapreduce"
"""Where a job's spec says how many ``maps`` and ``reduces`` it has."""

TotalsOf = Mapping[str, Mapping[int, int]]
"""New totals by job and task group."""


class Measure(NamedTuple):
    """Say how far these jobs are, and who else waits; with `every`, all others in the scheduler's buckets too."""

    jobs: tuple[str, ...]
    every: bool = False


class Sized(NamedTuple):
    """A job, how far it is, and what is remembered of its name."""

    job: Job
    progress: Progress | None
    durations: ShardDurations | None


class Measured(NamedTuple):
    """The answer to Measure: the jobs that are still there, and jobs of other kinds that are pending."""

    jobs: Sequence[Sized]
    waiting: Sequence[Job]


class Resize(NamedTuple):
    """Give jobs other totals; the answer is Resized."""

    totals: TotalsOf


class Resized(NamedTuple):
    """The jobs after that; those that ended meanwhile are left out."""

    jobs: Sequence[Job]


@dataclass(slots=True)
class Elastic:
    """The jobs that can use any number of workers, with what was submitted, and when to measure them next (seconds).

    `sizing` decides; without one nothing is elastic. `strangers`: jobs may run that came to this scheduler from one
    that is gone. `waited`: other kinds' jobs that were pending at the last look. `rests`: until when a job gets no more
    surplus workers.
    """

    sizing: Sizing | None = None
    jobs: dict[str, Opaque] = field(default_factory=dict)
    due: float = 0.0
    strangers: bool = True
    waited: frozenset[str] = frozenset()
    rests: dict[str, float] = field(default_factory=dict)

    def take(self, job: Job) -> None:
        """Fetch after a job, at once, if it can use any number of workers."""
        if self.sizing is not None and job.id not in self.jobs and can_grow(job):
            self.jobs[job.id] = job.spec
            self.due = 0.0

    def forget(self, job_id: str) -> None:
        """Leave a job to others."""
        self.jobs.pop(job_id, None)
        self.rests.pop(job_id, None)

    def keep(self, keeps: Callable[[str], bool]) -> None:
        """Leave to others the jobs that are theirs; some may have come from others."""
        for job_id in [job_id for job_id in self.jobs if not keeps(job_id)]:
            self.forget(job_id)
        self.strangers = True

    def next_due(self) -> float | None:
        """When to measure next (seconds); None when there is nothing to look after."""
        return self.due if self.sizing is not None and (self.jobs or self.strangers) else None

    def is_due(self, now: float) -> bool:
        """Whether jobs are to be measured."""
        due = self.next_due()
        return due is not None and due <= now

    def ask(self, now: float) -> Measure:
        """What to ask for in this look."""
        asked = Measure(tuple(self.jobs), self.strangers)
        self.due, self.strangers = now + LOOK_SECONDS, False
        return asked

    def spare(self, job: Job, left: list[int], now: float) -> dict[int, int]:
        """Give up surplus workers that found no machine: they are left no more, returns the job's new totals."""
        found = {} if self.sizing is None else dict(spares(job, left))
        for group in found:
            left[group] = 0
            self.rests[job.id] = now + REST_SECONDS
        return found

    def targets(
        self, measured: Measured, snapshot: Snapshot, now: float, in_hand: Container[str] = ()
    ) -> dict[str, dict[int, int]]:
        """The totals that are to change; those of jobs in hand wait for their outcome.

        Workers that were asked for, and jobs of other kinds that were pending at the last look too, count as if they
        had what they wait for: the policy sees that much less idle, and gives surplus back when that is less than
        nothing.
        """
        if self.sizing is None:
            return {}
        waiting = [job for job in measured.waiting if job.id in self.waited]
        self.waited = frozenset(job.id for job in measured.waiting)
        capacity, allocated = _sums(snapshot)
        wanting = [group for job in waiting for group in job.groups] + [sized.job.groups[0] for sized in measured.jobs]
        for group in wanting:
            allocated = _plus(allocated, group.need, group.unplaced)
        known = {sized.job.id: sized for sized in measured.jobs}
        for job_id in [job_id for job_id in self.jobs if job_id not in known]:
            self.forget(job_id)
        found = {}
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
                    found[job_id] = change
        return found

    def with_specs(self, jobs: Iterable[Job]) -> list[PendingJob]:
        """Jobs after a change, as they arrive: the store answers without what was submitted."""
        return [PendingJob(0, replace(job, spec=self.jobs[job.id])) for job in jobs if job.id in self.jobs]


def can_grow(job: Job) -> bool:
    """Whether a job can use any number of workers."""
    return PLAN in job.spec and surplus_of(job) is not None


def surplus_of(job: Job) -> int | None:
    """The task group for surplus workers, if the job has one; its workers are the first group."""
    return next((i for i, group in enumerate(job.groups) if group.optional), None)


def profile_of(sized: Sized, spec: Opaque) -> Profile:
    """A job as a sizing policy sees it: means of this run where there are some, else of earlier ones."""
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
    """New totals that give a job `size` workers, and how many more it is then to have than now.

    Surplus that is of no more use is not taken away: such workers leave by themselves, and one of them might hold
    the last shard. What was asked for is cut to what is of use only before anything of it runs. A job that `rests`
    gets no more, nor does one whose own workers all ended: what these could not do, surplus does not do either.
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
    """A total without the workers that still wait, once all is done and one of the others gave the answer out."""
    workers, progress = sized.job.groups[0], sized.progress
    over = progress is not None and progress.phase == "done" and workers.finished > 0
    return {0: workers.total - workers.unplaced} if over and workers.unplaced else {}


def _sums(snapshot: Snapshot) -> tuple[Resources, Resources]:
    up = snapshot.rows[2] == MachineState.UP
    sums = snapshot.capacity[:, up].sum(axis=1), snapshot.allocated[:, up].sum(axis=1)
    return tuple(map(int, sums[0])), tuple(map(int, sums[1]))


def _plus(amounts: Resources, need: Resources, count: int) -> Resources:
    return tuple(amount + each * count for amount, each in zip(amounts, need, strict=True))


def spares(job: Job, left: Sequence[int]) -> list[tuple[int, int]]:
    """The groups of surplus of which some found no machine, with the totals that leave these out."""
    groups = enumerate(zip(job.groups, left, strict=True))
    return [(i, group.total - rest) for i, (group, rest) in groups if group.optional and rest]


# Answered from a cell


def measure(asked: Measure, cell: Cell, kind: str, owned: str) -> Measured:
    """Read what is asked for; `owned` are the scheduler's buckets."""
    jobs = list(cell.jobs_by_id(asked.jobs).values())
    if asked.every:
        others = (job for job in cell.jobs() if job.kind == kind and job.id not in asked.jobs)
        jobs += [job for job in others if owned[bucket_of(job.id)] == "1" and can_grow(job)]
    sized = [Sized(job, cell.progress(job.id), cell.durations(job.name)) for job in jobs if _lives(job)]
    waiting = [job_id for other, ids in cell.pending(MOST_WAITING).items() if other != kind for job_id in ids]
    return Measured(sized, [job for job in cell.jobs_by_id(waiting).values() if job.pending])


def _lives(job: Job) -> bool:
    return job.state <= JobState.HELD and any(group.unplaced or group.placed for group in job.groups)


def resize(asked: Resize, cell: Cell, at_ms: int, by: str) -> Resized:
    """Change what is asked for; a job that ended meanwhile stays as it is."""
    jobs = []
    for job_id, totals in asked.totals.items():
        try:
            jobs.append(cell.resize(job_id, totals, at_ms, by, seen={}))
        except Refused:
            continue
    return Resized(jobs)

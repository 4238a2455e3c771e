"""Jobs in short, and pages of them: what lists and sums of many jobs need, without reading each in full."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeAlias

from omega.cellstate.model import GroupStatus, Job, JobState, MachineState
from omega.cellstate.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tasks of a job by state: its own ones (`own_groups`)."""

    total: int
    unplaced: int
    placed: int
    finished: int
    failed: int
    stopped: int


class JobHead(NamedTuple):
    """A job in short; `wanted` is the need of its unplaced tasks together."""

    id: str
    name: str
    kind: str
    precedence: int
    order: int
    state: JobState
    counts: Counts
    wanted: Resources
    copies: tuple[int, int] = (0, 0)
    """Copies of its tasks, all and the placed ones; its counts have none of them."""
    delayed: int = 0
    """Its unplaced tasks that may not be placed yet, after a loss."""


Keep: TypeAlias = Callable[[JobHead], bool]
"""Whether a list has a job."""


class JobPage(NamedTuple):
    """A page of a list of jobs.

    `total` counts the jobs of the whole list, `jobs` are in order of submission, and `before` begins the next page,
    which has the `left` older jobs; None when there are none. A filter is not applied beyond a full page: then `total`
    and `left` are None, and the next page may have none.
    """

    total: int | None
    jobs: list[Job]
    before: int | None
    left: int | None


def own_groups(job: Job) -> list[GroupStatus]:
    """Return the groups of a job without copies of tasks, and without failures of versions that an update replaced.

    Failed tasks of a replaced version were run again by its successor, so they are not the job's own result. Of a
    service neither are finished ones. All that shows or counts tasks of a job counts these (lua/parts/totals.lua).
    """
    if len(job.groups) == 1 and not job.groups[0].replaced:
        return job.groups
    return [_without_failures(group, job.kind) if group.replaced else group for group in job.groups if not group.copies]


def _without_failures(group: GroupStatus, kind: str) -> GroupStatus:
    total, finished = without_failures(kind, group.total, group.finished, group.failed)
    return replace(group, failed=0, finished=finished, total=total)


def without_failures(kind: str, total: int, finished: int, failed: int) -> tuple[int, int]:
    """Return the tasks, and the finished ones, that a replaced version counts; of a service none that ended."""
    left = 0 if kind == "service" else finished
    return total - failed - finished + left, left


def head_of(job: Job) -> JobHead:
    """Return a job in short."""
    groups = own_groups(job)
    counts = Counts(**{each.name: sum(getattr(group, each.name) for group in groups) for each in fields(Counts)})
    needs = zip(*([amount * group.unplaced for amount in group.need] for group in groups), strict=True)
    copies = [(group.total, group.placed) for group in job.groups if group.copies]
    total, placed = map(sum, zip((0, 0), *copies, strict=True))
    wanted = tuple(map(sum, needs))
    return JobHead(
        job.id, job.name, job.kind, job.precedence, job.order, job.state, counts, wanted, (total, placed),
        sum(group.delayed for group in groups),
    )  # fmt: skip


def full_page(newest_first: Sequence[Job]) -> JobPage:
    """Return a page of a filtered list that older jobs may follow."""
    return JobPage(None, [*reversed(newest_first)], newest_first[-1].order, None)


def last_page(newest_first: Sequence[Job], before: int | None) -> JobPage:
    """Return the last page of a filtered list."""
    return JobPage(len(newest_first) if before is None else None, [*reversed(newest_first)], None, 0)


def page_of(jobs: Iterable[Job], most: int | None, before: int | None, keep: Keep | None, user: str | None) -> JobPage:
    """Return a page of jobs that are all at hand, in order of submission: `Cell.job_page`."""
    if most is not None and (keep is not None or user is not None):
        found = list[Job]()
        for job in reversed([job for job in jobs if before is None or job.order < before]):
            if len(found) == most:
                return full_page(found)
            if (keep is None or keep(head_of(job))) and user in (None, job.spec.get("user")):
                found.append(job)
        return last_page(found, before)
    listed = [job for job in jobs if (keep is None or keep(head_of(job))) and user in (None, job.spec.get("user"))]
    older = [job for job in listed if before is None or job.order < before]
    shown = older if most is None else older[len(older) - min(most, len(older)) :]
    left = len(older) - len(shown)
    return JobPage(len(listed), shown, shown[0].order if shown and left else None, left)


# Sums over the machines and jobs of a cell that the store keeps, so that no question about all of it reads all of it.
#
# shapes    machines by state, whether they are simulated, and capacity (lua/parts/shapes.lua)
# lanes     live jobs, jobs with placed tasks, placed tasks and copies, amounts held and wanted (lua/parts/lanes.lua)
# meta      tasks and jobs by how they ended, of all jobs there ever were; held jobs (lua/parts/totals.lua)

JOB_TOTALS = ("jobs_held", "jobs_halted", "jobs_stopping", "jobs_finished", "jobs_failed", "jobs_stopped",
              "jobs_abandoned")  # a table # fmt: skip
TASK_TOTALS = ("tasks_total", "tasks_finished", "tasks_failed", "tasks_stopped")
DELAYED = "tasks_delayed"
"""The pending tasks that may not be placed yet, after a loss."""
COPIES, PLACED_COPIES = "copies", "copies_placed"
"""The copies of tasks, those that wait included, and the placed ones (lua/parts/copies.lua)."""
TOTALS = frozenset((*JOB_TOTALS, *TASK_TOTALS, DELAYED, COPIES, PLACED_COPIES))
"""The fields of ``meta`` that are sums."""
OVER = "over"
"""The field of ``shapes`` with the machines that held more than they had when their state or capacity changed."""


class Shape(NamedTuple):
    """What a machine is, apart from its use."""

    state: MachineState
    simulated: bool
    capacity: Resources

    @classmethod
    def named(cls, field: str) -> "Shape":
        """Read a field of ``shapes``."""
        state, simulated, *capacity = map(int, field.split())
        return cls(MachineState(state), bool(simulated), tuple(capacity))

    def __str__(self) -> str:
        """Return the field of ``shapes``."""
        return " ".join(map(str, (int(self.state), int(self.simulated), *self.capacity)))


class LaneSum(NamedTuple):
    """What all lanes count: live jobs, those with placed tasks, placed tasks and copies, amounts."""

    live: int
    running: int
    placed: int
    wanted: Resources
    held: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSums:
    """Sums at one version.

    `over` counts machines that hold more than they have; `jobs` has every word of a job's state, `stored` the jobs that
    are kept; `tasks` counts those of all jobs there ever were.
    """

    version: int
    shapes: Mapping[Shape, int]
    over: int
    jobs: Mapping[str, int]
    stored: int
    tasks: Counts
    delayed: int
    """Pending tasks that may not be placed yet, after a loss: `wanted` has nothing of them."""
    wanted: Resources
    held: Resources
    pending: Mapping[str, int]
    """Jobs in the queue of each kind."""


def shape_fields(rows: Iterable[Sequence[int]], size: int) -> dict[str, str]:
    """Return the fields of ``shapes`` for machines by their records, of `size` resources."""
    counts, over = Counter[str](), list[str]()
    for row in rows:
        capacity, used = row[4 : 4 + size], row[4 + size :]
        if row[2] != MachineState.GONE:
            counts[str(Shape(MachineState(row[2]), row[3] % 2 == 1, tuple(capacity)))] += 1
            if any(u > c for u, c in zip(used, capacity, strict=True)):
                over.append(str(row[0]))
    fields = {shape: str(count) for shape, count in counts.items()}
    return fields | ({OVER: f" {' '.join(over)} "} if over else {})


def field_of(head: JobHead) -> str | None:
    """Return the field that counts a job by its state; None for one that is pending or running."""
    match head.state:
        case JobState.HELD:
            return "jobs_held" if head.counts.unplaced else None
        case JobState.DONE:
            return "jobs_failed" if head.counts.failed else "jobs_finished"
        case JobState.STOPPED:
            return "jobs_stopped"
        case JobState.ABANDONED:
            return "jobs_abandoned"
    return None


def totals_of(heads: Iterable[JobHead]) -> dict[str, int]:
    """Return the totals that these jobs give, none of them forgotten."""
    totals = dict.fromkeys(sorted(TOTALS), 0)
    for head in heads:
        for name in ("total", "finished", "failed", "stopped"):
            totals[f"tasks_{name}"] += getattr(head.counts, name)
        totals[DELAYED] += head.delayed
        totals[COPIES] += head.copies[0]
        totals[PLACED_COPIES] += head.copies[1]
        field = field_of(head)
        if field is not None:
            totals[field] += 1
            if head.counts.placed:
                totals["jobs_halted" if field == "jobs_held" else "jobs_stopping"] += 1
    return totals


def job_states(totals: Mapping[str, int], lanes: LaneSum) -> dict[str, int]:
    """Return the number of jobs by the word for their state (`omega.queries.job_state`)."""
    held, halted, stopping = (totals.get(name, 0) for name in JOB_TOTALS[:3])
    words = ("held", "finished", "failed", "stopped", "abandoned")
    return {
        "pending": lanes.live - lanes.running - (held - halted),
        "running": lanes.running - halted - stopping,
        **{word: totals.get(f"jobs_{word}", 0) for word in words},
    }


def task_counts(totals: Mapping[str, int], placed: int) -> Counts:
    """Return the tasks of all jobs there ever were, by state; `placed` has their copies too."""
    placed -= totals.get(PLACED_COPIES, 0)
    total, finished, failed, stopped = (totals.get(name, 0) for name in TASK_TOTALS)
    unplaced = total - finished - failed - stopped - placed
    return Counts(total=total, unplaced=unplaced, placed=placed, finished=finished, failed=failed, stopped=stopped)

"""Jobs in short, and pages of them: what lists and sums of many jobs need, without reading each in full."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeAlias

from omega.cellstate.model import GroupStatus, Job, JobState
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

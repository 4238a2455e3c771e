"""The state of a job in one word, and counts of its tasks: the words that scripts rely on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.model import GroupStatus, Job, JobState
from omega.cellstate.pages import Counts, JobHead, own_groups
from omega.cellstate.tasks import TaskLoss

STATES: Mapping[str, str] = {
    "pending": "no task is placed",
    "running": "at least one task is placed",
    "held": "submitted, and not to be placed yet",
    "finished": "every task finished",
    "failed": "it ended, and a task failed",
    "stopped": "stopped by a user, or because a job that it waited for did not finish",
    "abandoned": "given up after too many conflicts",
}
"""The words for the state of a job, and the meaning of each: help texts and docs/jobs.md have the same."""
COUNTS = ("total", "pending", "placed", "finished", "failed", "stopped")
_READ = tuple(map(attrgetter, ("total", "unplaced", "placed", "finished", "failed", "stopped")))
_PENDING, _PLACED, _FAILED = (_READ[COUNTS.index(name)] for name in ("pending", "placed", "failed"))


def state(job: Job) -> str:
    """Return the word for a job's state."""
    own = own_groups(job)
    unplaced, placed, failed = (any(map(read, own)) for read in (_PENDING, _PLACED, _FAILED))
    return _word(job.state, unplaced=unplaced, placed=placed, failed=failed)


def head_state(head: JobHead) -> str:
    """Return the word for the state of a job in short."""
    tasks = head.counts
    return _word(head.state, unplaced=tasks.unplaced > 0, placed=tasks.placed > 0, failed=tasks.failed > 0)


def _word(state: JobState, *, unplaced: bool, placed: bool, failed: bool) -> str:
    match state:
        case JobState.STOPPED:
            return "stopped"
        case JobState.ABANDONED:
            return "abandoned"
        case JobState.HELD if unplaced:
            return "held"
        case JobState.DONE:
            return "failed" if failed else "finished"
    return "running" if placed else "pending"


def held_for(job: Job) -> str:
    """Return why the gate of its scheduler holds a job; "" when only a person does."""
    return f"the gate of its scheduler holds it: {job.gate}{'; a person holds it too' * job.held}" if job.gate else ""


def ended(job: Job) -> bool:
    """Return whether nothing of it is placed or wants a machine any more."""
    return all(not group.unplaced and not group.placed for group in job.groups)


def gone(job: Job) -> bool:
    """Return whether it has ended, and with it the processes of all its tasks (semantics 2)."""
    return ended(job) and not any(leaving for group in job.groups for _, _, leaving in group.runs)


def did_not_finish(job: Job) -> bool:
    """Return whether the jobs that wait for it to finish are stopped: it ended otherwise, or is being stopped."""
    if job.state in (JobState.STOPPED, JobState.ABANDONED):
        return True
    return ended(job) and any(group.finished != group.total for group in job.groups)


def generations(job: Job) -> list[int]:
    """Return the generation of each task group: 1 for the first of its name, one more for each that replaced it."""
    seen = Counter[str]()
    found = []
    targets = job.spec.get("targets") or [group for group in job.groups if not group.copies]
    alone = len(targets) == 1  # without a name, the groups of an only one
    for name, group in zip(["" for _ in job.groups] if alone else group_names(job), job.groups, strict=True):
        seen[name] += not (alone and group.copies)  # copies are of the generation of their tasks
        found.append(seen[name])
    return found


def counts(groups: Sequence[GroupStatus | Counts]) -> dict[str, int]:
    """Return the number of tasks by state; ``pending + placed + finished + failed + stopped = total``."""
    return {shown: sum(map(read, groups)) for shown, read in zip(COUNTS, _READ, strict=True)}


def job_counts(job: Job) -> dict[str, int]:
    """Return the number of a job's own tasks by state, as every face shows them (docs/semantics.md, "Counts")."""
    return counts(own_groups(job))


def own_losses(job: Job) -> Iterator[tuple[int, TaskLoss]]:
    """Yield the losses of its own tasks by group; of a replaced version only while some of its tasks are left."""
    for number, group in enumerate(job.groups):
        if group.losses and not group.copies and (not group.replaced or group.unplaced or group.placed):
            yield from ((number, loss) for loss in group.losses)


def restarts(job: Job) -> int:
    """Return how often its tasks were placed again after a loss or a failure (docs/semantics.md, "Counts")."""
    return sum(ranges.count(loss.tasks) * loss.restarts for _, loss in own_losses(job))


def waiting(job: Job) -> int:
    """Return the number of its own tasks that wait, the delayed ones included."""
    return sum(group.unplaced for group in own_groups(job))


def group_names(job: Job) -> list[str]:
    """Return the name of each task group; its position when it has no name. Copies have that of their tasks' group."""
    said: Sequence[Mapping[str, Any]] = job.spec.get("groups", ())
    names = [str(each.get("name", "")) for each in said] + [""] * len(job.groups)
    shown = [name or str(i) for i, name in zip(range(len(job.groups)), names, strict=False)]
    return [f"{shown[i - 1]} (copies)" if group.copies else shown[i] for i, group in enumerate(job.groups)]


def tally(states: Iterable[str]) -> dict[str, int]:
    """Return the number of jobs in each state, 0 included."""
    jobs = Counter(states)
    return {word: jobs[word] for word in STATES}

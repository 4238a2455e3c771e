"""Rolling updates: tasks of a running job are replaced a few at a time, and only while the new ones stay healthy.

The store keeps the goal (`Target`, in the job's spec) and the fact that an update is rolling; `move` decides the next
step, as a pure function; `Rollouts` executes it, as housekeeping of the schedulers (docs/decisions/0008). Each step
names the modify index and totals it is based on, so that steps of two schedulers do not add up.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.cellstate import ranges
from omega.cellstate.digest.history import FAILS, History
from omega.cellstate.digest.hours import Position, readable
from omega.cellstate.errors import Overtaken, Refused
from omega.cellstate.events import job_of
from omega.cellstate.model import GroupStatus, Job, JobState, TakeOver, bucket_of
from omega.schedulers.array_numbers import is_array, run_again

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Jobs

HEALTHY_AFTER_MS = 10_000
"""Default time for which a new task must stay up."""
PROGRESS_DEADLINE_MS = 600_000
"""Default time without progress after which an update stops."""
LOOK_MS = 200
"""Minimum time between two checks of an update."""
STARTED_WITH = "job"
"""The field of a replaced group's spec with the fields of the job that its tasks were started with."""
MOST_REASONS = 3
"""Reasons of failed tasks that are named when an update stops."""
RARER = 4
"""While nothing happens, the next check follows after this part of the elapsed time."""


@dataclass(frozen=True, slots=True)
class Target:
    """Tasks of one name: their group and number, and the older groups that they replace.

    A target is a group of the job's file: groups for copies of slow tasks are none, they follow their tasks' group.
    """

    group: int
    count: int
    older: tuple[int, ...] = ()
    _: KW_ONLY
    finished: int = 0
    """Tasks that finished in groups replaced completely by earlier updates; they do not run again."""
    restarted: bool = False
    """Whether all its tasks are new although they replace none: those of a service that had ended."""

    @property
    def new(self) -> bool:
        """Whether its tasks are new and must prove themselves."""
        return bool(self.older) or self.restarted

    def row(self) -> list[Any]:
        """Return it as the job's spec stores it."""
        row = [self.group, self.count, list(self.older), self.finished]
        return [*row, True] if self.restarted else row


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a job is updated: maximum number of tasks of a group down at once, and when a new task counts as healthy.

    A task must stay up for `healthy_after_ms`, in one attempt. With a `command`, which its agent runs from `grace_ms`
    after the start on, it must be ready for that time: the command exits with 0. A task that is not ready is never
    ended for it. An update without progress for `progress_deadline_ms` beyond that stops.
    """

    max_down: int = 1
    healthy_after_ms: int = HEALTHY_AFTER_MS
    grace_ms: int = 0
    command: tuple[str, ...] = ()
    progress_deadline_ms: int = PROGRESS_DEADLINE_MS

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Policy":
        """Return a job's policy from its spec: ``update: {max_down, progress_deadline, health: {…}}``."""
        said = spec.get("update", {})
        health = said.get("health", {})
        command = tuple(health.get("command", ()))
        after = health.get("healthy_after", HEALTHY_AFTER_MS)
        grace = health.get("grace", 0) if command else 0
        deadline = said.get("progress_deadline", PROGRESS_DEADLINE_MS)
        return cls(
            max_down=said.get("max_down", 1), healthy_after_ms=after, grace_ms=grace, command=command,
            progress_deadline_ms=deadline,
        )  # fmt: skip

    @property
    def proven_ms(self) -> int:
        """Time after its start from which a task counts as healthy if it is ready at once."""
        return self.grace_ms + self.healthy_after_ms


def targets(job: Job) -> list[Target]:
    """Return the goal of a job's groups; without an update, their present state."""
    said = job.spec.get("targets")
    if said is None:
        return [Target(i, group.total) for i, group in enumerate(job.groups) if not group.copies]
    return [
        Target(number, count, tuple(older), finished=finished, restarted=bool(restarted))
        for number, count, older, finished, *restarted in said
    ]


def named_groups(job: Job) -> list[int]:
    """Return the groups that commands name: those of the present version, without groups for copies of slow tasks."""
    return [target.group for target in targets(job)]


def started_with(job: Job, group: int) -> Mapping[str, Any]:
    """Return the fields of a job that tasks of a group are started with; a replaced group keeps its own."""
    groups = job.spec.get("groups") or ()
    said = groups[group].get(STARTED_WITH) if group < len(groups) else None
    return job.spec if said is None else said


def going(group: GroupStatus) -> int:
    """Return the number of tasks of a group that have not ended."""
    return group.unplaced + group.placed


def counted(job: Job, group: GroupStatus) -> int:
    """Return the finished tasks of a group that count as done: none of a service, which must stay up."""
    return 0 if job.kind == "service" else group.finished


def elsewhere(job: Job, target: Target) -> int:
    """Return the tasks of a target that count beside those of its group: finished ones, and those of older groups."""
    older = (job.groups[number] for number in target.older)
    return target.finished + sum(counted(job, group) + going(group) for group in older)


def count_of(job: Job, target: Target) -> int:
    """Return how many tasks of a target there are now, with those of older groups that are left or count as done."""
    return job.groups[target.group].total + elsewhere(job, target)


def resized(job: Job, target: Target, count: int) -> dict[int, int]:
    """Return the totals of groups that make a target one of `count` tasks; the newest tasks go first.

    Finished tasks of older groups count, and so do their tasks that a stopped update left.
    """
    new = job.groups[target.group]
    left = count - elsewhere(job, target)
    totals = {target.group: max(left, new.finished + new.failed + new.stopped)}
    short = totals[target.group] - left
    for number in reversed(target.older):
        group = job.groups[number]
        gone = min(short, going(group))
        short -= gone
        if gone:
            totals[number] = group.total - gone
    return totals if not short else totals | {target.group: max(0, totals[target.group] - short)}  # the store refuses


def taking_over(job: Job) -> dict[int, TakeOver]:
    """Return the groups of arrays that take over the tasks of older groups: each index goes on where it was."""
    return {
        target.group: TakeOver(target.older)
        for target in targets(job) if target.older and is_array(job, target.group)
    }  # fmt: skip


class Move(NamedTuple):
    """The next step: new totals, or the end of the update (`done`, or `stalled` and why), or nothing yet."""

    totals: Mapping[int, int] = {}
    done: bool = False
    stalled: str = ""


def move(job: Job, healthy: Mapping[int, int]) -> Move:
    """Decide the next step; `healthy` is the number of healthy tasks of each new group."""
    policy, totals, done = Policy.of(job.spec), dict[int, int](), True
    for target in targets(job):
        new, older = job.groups[target.group], [job.groups[number] for number in target.older]
        failed = new.failed + _retried(new)
        if target.new and failed + (new.finished if job.kind == "service" else 0):
            word = f"{failed} failed" if failed else f"{new.finished} ended"
            return Move(stalled=f"of its {new.total} new tasks {word}")
        # An unchanged group has no new tasks that must become healthy.
        totals |= _totals(job, target, healthy.get(target.group, 0) if target.new else new.placed, policy.max_down)
        # Remaining tasks of older groups, and unhealthy new tasks, keep it open.
        works = healthy.get(target.group, 0) + _finished(job, target) >= target.count
        done = done and not any(map(going, older)) and (not target.new or works)
    return Move(totals, done=done and not totals)


def outcome(job: Job) -> str:
    """Return why the update of a job that ended failed; "" if its new tasks finished.

    A job may end between two checks, with all its new tasks. That nothing is left to replace proves nothing.
    """
    if job.state is not JobState.DONE:
        return "stopped"
    last = move(job, {})
    return last.stalled or ("" if last.done else "the job ended before its new tasks proved themselves")


def _far(job: Job, healthy: Mapping[int, int]) -> int:
    """Return how far an update came: healthy and finished tasks, minus the older ones that are left."""
    older = sum(going(job.groups[number]) for target in targets(job) for number in target.older)
    return sum(healthy.values()) + sum(_finished(job, target) for target in targets(job)) - older


def _failed_tasks(cell: "Cell", job: Job, groups: Collection[int]) -> dict[str, int]:
    """Return the number of failed tasks of these groups of a job by reason, such as ``exit 3``."""
    position, record = cell.digest.job_history(job.id)
    history = (readable(History.unpack, record, None) if record else None) or History.of(job)
    for fact in cell.log.newest_facts(readable(Position.unpack, position, Position()).version, job.id).facts:
        if fact.event.word in FAILS and job_of(fact.event) == job.id:
            history.add(fact)
    return history.failures_of(groups)


def _with_reasons(cell: "Cell", job: Job, why: str) -> str:
    """Return why an update failed, and why its new tasks did: ``of its 3 new tasks 2 failed: exit 3 (2)``."""
    if not why or job.state is JobState.STOPPED:
        return why
    failed = _failed_tasks(cell, job, {target.group for target in targets(job) if target.new})
    reasons = ", ".join(f"{reason} ({tasks})" for reason, tasks in list(failed.items())[:MOST_REASONS])
    return f"{why}: {reasons}" if reasons else why


def _retried(group: GroupStatus) -> int:
    """Return how many tasks of a group used up their restarts on a machine; in an update they fail its version."""
    return sum(ranges.count(loss.tasks) for loss in group.losses if loss.retried.failures)


def _stuck(job: Job, started: int, healthy: int, late_ms: int) -> str:
    """Return what an update waits for that made no progress for `late_ms`: ``3 run, and are not ready``.

    Of its new tasks so many `started`, and so many of these are `healthy`.
    """
    new, policy = [job.groups[target.group] for target in targets(job) if target.new], Policy.of(job.spec)
    waiting, placed, total = (sum(getattr(group, name) for group in new) for name in ("unplaced", "placed", "total"))
    unproven = "are not ready" if policy.command else f"did not stay up for {policy.healthy_after_ms / 1000:g} s"
    counts = {
        "found no machine": waiting,
        "have a machine, and wait there for stopped tasks to end": placed - started,
        f"run, and {unproven}": started - healthy,
    }
    what = "; ".join(f"{number} {each}" for each, number in counts.items() if number > 0)
    what = what or "all are up, and the old ones do not end"
    return f"no progress for {late_ms / 1000:.0f} s: of its {total} new tasks {what}"


def _finished(job: Job, target: Target) -> int:
    """Return the finished tasks of a target, old and new, that do not run again."""
    groups = (target.group, *target.older)
    return target.finished + sum(counted(job, job.groups[number]) for number in groups)


def _totals(job: Job, target: Target, healthy: int, max_down: int) -> dict[int, int]:
    """Return totals that bring a target nearer to its end.

    Pending tasks of older groups are dropped. Running ones are stopped only as far as ``count - max_down`` tasks stay
    available: running in an older group, healthy in the new one, or finished (semantics 29). The newest of the older
    groups goes first: a failed update is undone first.
    """
    new = job.groups[target.group]
    ended = new.finished + new.failed + new.stopped
    finished = _finished(job, target)
    placed = sum(job.groups[number].placed for number in target.older)
    spare = max(0, placed + healthy + finished - (target.count - max_down))
    stop = min(placed, spare)
    totals: dict[int, int] = {}
    left = stop
    for number in reversed(target.older):
        group = job.groups[number]
        stops = min(left, group.placed)
        left -= stops
        if group.unplaced + stops:
            totals[number] = group.total - group.unplaced - stops
    # Add the missing tasks, and stop no more running ones than the other groups allow.
    missing = target.count - (finished - counted(job, new)) - (placed - stop)
    wanted = max(missing, ended, new.total - new.unplaced - (spare - stop))
    return totals if wanted == new.total else {target.group: wanted, **totals}


@dataclass(slots=True)
class Rollouts:
    """The updates of one kind's jobs in a scheduler's buckets.

    Start times of new placements and the time of the last progress are kept here alone: a scheduler that takes over
    starts counting again, which only slows an update.
    """

    kind: str
    by: str
    _since: dict[tuple[int, int], int] = field(default_factory=dict)
    """Time (ms) since which each placement of a new group was seen running (task -1), or one of its tasks ready."""
    _progress: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Each update: its job's modify index, the farthest that it came (`_far`), and since when (ms)."""

    def step(self, cell: "Cell", owned: str, now_ms: int) -> int | None:
        """Execute the next step of every rolling update; drop records of deleted jobs.

        Returns milliseconds until the next useful check, None when no update is rolling. Raises StoreError.
        """
        seen: set[tuple[int, int]] = set()
        jobs: set[str] = set()
        due: list[int] = []
        for job_id, state in cell.jobs.updates().items():
            if owned[bucket_of(job_id)] != "1":
                continue
            job = cell.jobs.get(job_id)
            if state != "rolling":
                if job is None:
                    cell.jobs.settle(job_id, "", now_ms, self.by)
            elif job is None or job.state > JobState.HELD:
                cell.jobs.settle(job_id, "" if job is None else _with_reasons(cell, job, outcome(job)), now_ms, self.by)
            elif job.kind == self.kind:
                watched = self._advance(cell, job, now_ms)
                seen |= watched
                jobs.add(job_id)
                due.append(self._due(job, watched, now_ms))
        self._since = {placement: since for placement, since in self._since.items() if placement in seen}
        self._progress = {job_id: known for job_id, known in self._progress.items() if job_id in jobs}
        return min(due, default=None)

    def _due(self, job: Job, watched: set[tuple[int, int]], now_ms: int) -> int:
        """Return milliseconds until the next check: soon after progress, and when a task becomes healthy."""
        proven = Policy.of(job.spec).healthy_after_ms
        left = [self._since[each] + proven - now_ms for each in watched if each in self._since]
        rarer = (now_ms - self._progress.get(job.id, (0, 0, now_ms))[2]) // RARER
        return max(LOOK_MS, min([rarer, *(each for each in left if each > 0)]))

    def _advance(self, cell: "Cell", job: Job, now_ms: int) -> set[tuple[int, int]]:
        """Execute one step of one update; return what it observes: placements, or tasks that are ready."""
        watched = {
            target.group: [(machine, placement) for placement, machine, leaving in job.groups[target.group].runs
                           if not leaving]
            for target in targets(job) if target.new
        }  # fmt: skip
        asked = [run for runs in watched.values() for run in runs]
        going = {
            placement
            for (_, placement), answer in zip(asked, cell.executors.may_start(asked) if asked else (), strict=True)
            if answer == "go"
        }
        policy = Policy.of(job.spec)
        if policy.command:
            seen = {(placement, task) for placement, task in cell.tasks.ready(job.id) if placement in going}
        else:
            failing = {placement for placement, _ in cell.tasks.unsteady(job.id)} if going else set()
            seen = {(placement, -1) for placement in going - failing}  # their time begins anew when all are up again
        for each in seen:
            self._since.setdefault(each, now_ms)
        up = {each for each in seen if self._since[each] <= now_ms - policy.healthy_after_ms}
        healthy = {number: self._tasks(cell, runs, up) for number, runs in watched.items()}
        wanted = move(job, healthy)
        if not wanted.done and not wanted.stalled:
            late = self._late(job, healthy, now_ms)
            started = sum(self._tasks(cell, runs, {(each, -1) for each in going}) for runs in watched.values() if late)
            wanted = wanted._replace(stalled=_stuck(job, started, sum(healthy.values()), late) if late else "")
        try:
            if wanted.done or wanted.stalled:
                cell.jobs.settle(job.id, _with_reasons(cell, job, wanted.stalled), now_ms, self.by)
            elif wanted.totals:
                self._take(cell, job, wanted.totals, now_ms)
        except Overtaken:
            pass  # the job was modified concurrently; it is checked again
        except Refused as refused:
            self._stop_refused(cell.jobs, job.id, str(refused), now_ms)
        return seen

    def _take(self, cell: "Cell", job: Job, totals: Mapping[int, int], now_ms: int) -> None:
        """Apply a step unless the running tasks changed since its decision. Raises Refused."""
        seen = {number: group.total for number, group in enumerate(job.groups)}
        totals, takes = self._numbered(cell, job, totals)
        groups = [number for target in targets(job) if target.older for number in (target.group, *target.older)]
        # A copy that continues as a task of the new version is not as old as that, and the counts of the tasks stay.
        copies = [target.group + 1 for target in targets(job) if target.older]
        compared = [*groups, *(number for number in copies if number < len(job.groups) and job.groups[number].copies)]
        placed = {number: job.groups[number].placed for number in compared}
        wanted = {n: seen[n] for n in groups} | dict(totals)
        cell.jobs.resize(job.id, wanted, now_ms, self.by, job.modified, seen, placed, takes=takes)

    def _numbered(
        self, cell: "Cell", job: Job, totals: Mapping[int, int]
    ) -> tuple[Mapping[int, int], Mapping[int, TakeOver]]:
        """Return the totals of a step in which tasks of arrays keep their numbers, and the groups that take them over.

        Ended tasks that run again wait until their numbers are known.
        """
        takes, limited = taking_over(job), dict(totals)
        for number, takeover in takes.items():
            growth = totals.get(number, 0) - job.groups[number].total
            lost = sum(job.groups[n].total - totals[n] for n in takeover.older if n in totals)
            older = [job.groups[n] for n in takeover.older]
            if growth > lost and any(group.total - going(group) > counted(job, group) for group in older):
                chain = (*takeover.older, number)
                again = run_again(cell, job, chain, finished_count=job.kind != "service")
                if again is None:
                    limited[number] = job.groups[number].total + lost
                else:
                    takes[number] = takeover._replace(again=again)
        return limited, takes

    def _stop_refused(self, jobs: "Jobs", job_id: str, why: str, now_ms: int) -> None:
        """Stop an update whose next step the store refuses; one of a job that ended meanwhile is settled by `step`."""
        job = jobs.get(job_id)
        if job is not None and job.state <= JobState.HELD:
            jobs.settle(job_id, f"the store refuses its next step: {why}", now_ms, self.by)

    def _late(self, job: Job, healthy: Mapping[int, int], now_ms: int) -> int:
        """Return for how long (ms) an update made no progress, 0 while there is time. A held job has time.

        New totals alone are no progress, nor is a task that becomes healthy a second time: each update ends.
        """
        policy, far = Policy.of(job.spec), _far(job, healthy)
        modified, farthest, since = self._progress.get(job.id, (-1, 0, 0))
        if modified != job.modified or far > farthest or job.state is JobState.HELD:
            self._progress[job.id] = job.modified, far, now_ms
            return 0
        return now_ms - since if now_ms - since > policy.progress_deadline_ms + policy.proven_ms else 0

    def _tasks(self, cell: "Cell", runs: Sequence[tuple[int, int]], up: set[tuple[int, int]]) -> int:
        """Return how many tasks of some runs, by machine and placement, are placed and among those that are up."""
        placements = {placement for placement, _ in up}
        mine = {placement for _, placement in runs if placement in placements}
        machines = sorted({machine for machine, placement in runs if placement in mine})
        there = [
            run
            for run in (cell.machines.runs(machines) if machines else [])
            if run.placement in mine and not run.leaving
        ]
        whole = sum(ranges.count(run.tasks) for run in there if (run.placement, -1) in up)
        return whole + sum((run.placement, task) in up for run in there for task in ranges.indices(run.tasks))

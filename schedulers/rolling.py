"""Rolling updates: tasks of a running job are replaced a few at a time, and only while the new ones stay healthy.

The store keeps what is to be reached (`Target`, in the job's spec) and that it is under way; `move` says, purely,
what to do next; `Rollouts` does it, as housekeeping of the schedulers (docs/decisions/0008). Each step names the
modify index and the totals it was decided on, so two that look after one update do not add up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cellstate import ranges
from cellstate.cell import Cell
from cellstate.errors import Refused
from cellstate.model import GroupStatus, Job, JobState, bucket_of

HEALTHY_AFTER_MS = 10_000
"""How long a new task must stay up when its job does not say."""
PROGRESS_DEADLINE_MS = 600_000
"""How long an update may get no further when its job does not say."""
LOOK_MS = 200
"""How soon an update is looked at again at the soonest."""
RARER = 4
"""When nothing happened for some time, the next look is after that part of it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Tasks of one name: the group they are to be in and how many, and the older groups they come from."""

    group: int
    count: int
    older: tuple[int, ...] = ()
    finished: int = 0
    """Tasks that finished in groups that were replaced completely by earlier updates; they are not run again."""
    resized: int = 0
    """The modify index of a resize that this target takes back; it makes the job's spec differ from the one before."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a job is updated: at most so many tasks of a group down at once, and when a new task counts as healthy.

    It must stay up for `healthy_after_ms`. With a `command` an agent runs that beside it, from `grace_ms` after its
    start on, and ends the task as failed when it does not exit with 0: so it must stay up for both together. An
    update that gets no further for `progress_deadline_ms` beyond that stops where it is.
    """

    max_down: int = 1
    healthy_after_ms: int = HEALTHY_AFTER_MS
    grace_ms: int = 0
    command: tuple[str, ...] = ()
    progress_deadline_ms: int = PROGRESS_DEADLINE_MS

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Policy":
        """The policy of a job by its spec: ``update: {max_down, progress_deadline, health: {…}}``."""
        said = spec.get("update", {})
        health = said.get("health", {})
        command = tuple(health.get("command", ()))
        after = health.get("healthy_after", HEALTHY_AFTER_MS)
        grace = health.get("grace", 0) if command else 0
        deadline = said.get("progress_deadline", PROGRESS_DEADLINE_MS)
        return cls(said.get("max_down", 1), after, grace, command, deadline)

    @property
    def proven_ms(self) -> int:
        """How long after its start a task that is still up counts as healthy."""
        return self.grace_ms + self.healthy_after_ms


def targets(job: Job) -> list[Target]:
    """What a job's groups are to become; without an update, what they are."""
    said = job.spec.get("targets")
    if said is None:
        return [Target(i, group.total) for i, group in enumerate(job.groups)]
    return [Target(number, count, tuple(older), *more) for number, count, older, *more in said]


def going(group: GroupStatus) -> int:
    """Tasks of a group that have not ended."""
    return group.unplaced + group.placed


def counted(job: Job, group: GroupStatus) -> int:
    """Finished tasks of a group that count as done: all but those of a service, whose tasks are to stay up."""
    return 0 if job.kind == "service" else group.finished


class Move(NamedTuple):
    """The next step: other totals, or the end of the update (`done`, or `stalled` and why), or nothing yet."""

    totals: Mapping[int, int] = {}
    done: bool = False
    stalled: str = ""


def move(job: Job, healthy: Mapping[int, int]) -> Move:
    """Decide what to do next; `healthy` is how many tasks of each new group are known to work."""
    policy, totals, done = Policy.of(job.spec), dict[int, int](), True
    for target in targets(job):
        new, older = job.groups[target.group], [job.groups[number] for number in target.older]
        if older and new.failed + (new.finished if job.kind == "service" else 0):
            word = f"{new.failed} failed" if new.failed else f"{new.finished} ended"
            return Move(stalled=f"of its {new.total} new tasks {word}")
        # A group that stays as it is has no new tasks that would have to prove themselves.
        totals |= _totals(job, target, healthy.get(target.group, 0) if older else new.placed, policy.max_down)
        # What is left of the older groups, and new tasks that are not known to work, keep it open.
        works = healthy.get(target.group, 0) + _finished(job, target) >= target.count
        done = done and not any(map(going, older)) and (not older or works)
    return Move(totals, done=done and not totals)


def _finished(job: Job, target: Target) -> int:
    """Finished tasks of a target, old and new, that are not run again."""
    groups = (target.group, *target.older)
    return target.finished + sum(counted(job, job.groups[number]) for number in groups)


def _totals(job: Job, target: Target, healthy: int, max_down: int) -> dict[int, int]:
    """The totals that bring a target nearer to its end.

    Waiting tasks of older groups are dropped, they serve nobody. Running ones are stopped only as far as at least
    ``count - max_down`` tasks stay available: running in an older group, known to work in the new one, or finished
    (semantics 29). The newest of the older groups goes first: an update that failed is the first to be undone.
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
    # As many as are missing, but no running task more is stopped than the others allow.
    missing = target.count - (finished - counted(job, new)) - (placed - stop)
    wanted = max(missing, ended, new.total - new.unplaced - (spare - stop))
    return totals if wanted == new.total else {target.group: wanted, **totals}


@dataclass(slots=True)
class Rollouts:
    """Looks after the updates of one kind's jobs in the buckets that are a scheduler's own.

    Since when each new placement is seen to run, and since when an update got no further, is known here alone:
    whoever takes over counts anew, which only makes an update slower.
    """

    kind: str
    by: str
    _since: dict[int, int] = field(default_factory=dict)
    """When (ms) each placement of a new group was first seen to run."""
    _progress: dict[str, tuple[object, int]] = field(default_factory=dict)
    """How far each update was, and since when (ms)."""

    def step(self, cell: Cell, owned: str, now_ms: int) -> int | None:
        """Do what is next for every update that is rolling, forget those of jobs long gone.

        Returns in how many milliseconds the next look is worth while, None when none is rolling. Raises StoreError.
        """
        seen: set[int] = set()
        jobs: set[str] = set()
        due: list[int] = []
        for job_id, state in cell.updates().items():
            if owned[bucket_of(job_id)] != "1":
                continue
            job = cell.job(job_id)
            if state != "rolling":
                if job is None:
                    cell.settle(job_id, "", now_ms, self.by)
            elif job is None or job.state > JobState.HELD:
                cell.settle(job_id, "" if job is None or job.state is JobState.DONE else "stopped", now_ms, self.by)
            elif job.kind == self.kind:
                watched = self._advance(cell, job, now_ms)
                seen |= watched
                jobs.add(job_id)
                due.append(self._due(job, watched, now_ms))
        self._since = {placement: since for placement, since in self._since.items() if placement in seen}
        self._progress = {job_id: known for job_id, known in self._progress.items() if job_id in jobs}
        return min(due, default=None)

    def _due(self, job: Job, watched: set[int], now_ms: int) -> int:
        """In how many milliseconds to look again: soon after something happened, and when a task has proven itself."""
        proven = Policy.of(job.spec).proven_ms
        left = [self._since[each] + proven - now_ms for each in watched if each in self._since]
        rarer = (now_ms - self._progress.get(job.id, (None, now_ms))[1]) // RARER
        return max(LOOK_MS, min([rarer, *(each for each in left if each > 0)]))

    def _advance(self, cell: Cell, job: Job, now_ms: int) -> set[int]:
        """One step of one update; returns the placements it has an eye on."""
        watched = {
            target.group: [(machine, placement) for placement, machine, leaving in job.groups[target.group].runs
                           if not leaving]
            for target in targets(job) if target.older
        }  # fmt: skip
        asked = [run for runs in watched.values() for run in runs]
        for (_, placement), answer in zip(asked, cell.may_start(asked) if asked else (), strict=True):
            if answer == "go":
                self._since.setdefault(placement, now_ms)
        proven = now_ms - Policy.of(job.spec).proven_ms
        up = {placement for placement, since in self._since.items() if since <= proven}
        healthy = {number: self._tasks(cell, runs, up) for number, runs in watched.items()}
        wanted = move(job, healthy)
        stalled = wanted.stalled or ("" if wanted.totals or wanted.done else self._stuck(job, healthy, now_ms))
        try:
            if wanted.totals:
                self._progress[job.id] = None, now_ms
                self._take(cell, job, wanted.totals, now_ms)
            elif wanted.done or stalled:
                cell.settle(job.id, stalled, now_ms, self.by)
        except Refused:
            pass  # somebody changed the job meanwhile: it is looked at again
        return {placement for _, placement in asked}

    def _take(self, cell: Cell, job: Job, totals: Mapping[int, int], now_ms: int) -> None:
        """Take a step, unless the tasks that run are others by now than when it was decided. Raises Refused."""
        seen = {number: group.total for number, group in enumerate(job.groups)}
        moved = [number for target in targets(job) if target.older for number in (target.group, *target.older)]
        placed = {number: job.groups[number].placed for number in moved}
        cell.resize(job.id, {n: seen[n] for n in moved} | dict(totals), now_ms, self.by, job.modified, seen, placed)

    def _stuck(self, job: Job, healthy: Mapping[int, int], now_ms: int) -> str:
        """Why an update that got no further for too long did not; "" while there is time. A held job has time."""
        done = [group.finished for group in job.groups]
        policy, far = Policy.of(job.spec), (job.modified, sorted(healthy.items()), done)
        known, since = self._progress.get(job.id, (None, 0))
        if known != far or job.state is JobState.HELD:
            self._progress[job.id] = far, now_ms
            return ""
        if now_ms - since <= policy.progress_deadline_ms + policy.proven_ms:
            return ""
        new = [job.groups[target.group] for target in targets(job) if target.older]
        waiting, total = sum(group.unplaced for group in new), sum(group.total for group in new)
        what = f"{waiting} found no machine" if waiting else "some did not start, or did not stay up"
        return f"no progress for {(now_ms - since) / 1000:.0f} s: of its {total} new tasks {what}"

    def _tasks(self, cell: Cell, runs: Sequence[tuple[int, int]], up: set[int]) -> int:
        """Tasks in the runs that have been up long enough."""
        machines = sorted({machine for machine, placement in runs if placement in up})
        mine = {placement for _, placement in runs if placement in up}
        found = cell.runs(machines) if machines else []
        return sum(ranges.count(run.tasks) for run in found if run.placement in mine and not run.leaving)

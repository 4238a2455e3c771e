"""A job in full: its tasks, where they run, its history, its update."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omega.cellstate import ranges
from omega.cellstate.model import JobState
from omega.cellstate.tasks import Consumption, merged_consumption
from omega.queries import mapreduce
from omega.queries.job_history import JobLog, Past, job_log, past
from omega.queries.job_state import counts, ended, generations, group_names, job_counts, own_losses
from omega.queries.job_times import JobTimes, job_times
from omega.queries.jobs import job_json
from omega.queries.names import Names
from omega.queries.room import Room
from omega.queries.task_names import TaskNames
from omega.schedulers.rolling import STARTED_WITH, Policy, going, started_with, targets
from omega.versions import UPDATING, number_of

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job, Run

MOST_ASKED = 1_000
"""Maximum number of runs for which the store is asked whether they have started."""


class JobStatus:
    """One job with all its stored data; each part is read once, on first use.

    A `brief` document leaves out what depends on the whole cell: the reason why it is pending, and its fair share.
    """

    def __init__(self, cell: "Cell", job: "Job", *, brief: bool = False) -> None:
        self.cell, self.job, self.brief = cell, job, brief
        self.room = Room(cell)

    @cached_property
    def there(self) -> "list[Run]":
        """All runs on the machines of the job, those of other jobs too."""
        return self.cell.machines.runs(sorted({machine for group in self.job.groups for _, machine, _ in group.runs}))

    @cached_property
    def runs(self) -> "list[Run]":
        """The runs of the job."""
        return [run for run in self.there if run.job == self.job.id]

    @cached_property
    def measured(self) -> Consumption:
        """What agents measured of its ended tasks, all together."""
        return merged_consumption(self.cell.tasks.measured(self.job.id))

    @cached_property
    def machine_names(self) -> Mapping[int, str]:
        """The names of its machines, by index."""
        machines = sorted({run.machine for run in self.runs})
        return {
            index: name
            for index, (name, _) in zip(machines, self.cell.machines.described(machines), strict=True)
            if name
        }

    @cached_property
    def log(self) -> JobLog:
        """What is kept of its past."""
        return job_log(self.cell, self.job)

    @cached_property
    def past(self) -> Past:
        """Its history."""
        return past(self.cell, self.job, self.log)

    @cached_property
    def times(self) -> JobTimes:
        """When it started and ended."""
        return job_times(self.cell, [self.job])[self.job.id]

    @cached_property
    def summary(self) -> Mapping[str, int]:
        """Its tasks by state, as Nomad sums them up; ``lost`` counts losses, as far as the log goes.

        A placed task is starting until leaving tasks of its machine, and its own previous placement, have ended.
        """
        starting = sum(ranges.count(run.tasks) for run in self._own_runs if run.placement in self._starting)
        states = job_counts(self.job)
        return {
            "pending": states["pending"],
            "starting": starting,
            "running": states["placed"] - starting,
            "stopping": self.stopping,
            "failed": states["failed"],
            "finished": states["finished"],
            "stopped": states["stopped"] - self.stopping,
            "lost": self.past.lost,
        }

    @cached_property
    def _own_runs(self) -> "list[Run]":
        """The runs that are placed, without copies."""
        return [run for run in self.runs if not run.leaving and not self.job.groups[run.group].copies]

    @cached_property
    def _starting(self) -> frozenset[int]:
        """The placements that wait for leaving tasks of their machine."""
        leaving = [run for run in self.there if run.leaving]
        late = [run for run in self._own_runs if _after_one(run, leaving)][:MOST_ASKED]
        answers = self.cell.executors.may_start([(run.machine, run.placement) for run in late]) if late else []
        return frozenset(run.placement for run, answer in zip(late, answers, strict=True) if answer == "wait")

    @cached_property
    def ready(self) -> int | None:
        """The number of a service's running tasks that are ready by the command of their `update.health`.

        Without that command those are that are not down, nor ended, for their health. None of other kinds.
        """
        if self.job.kind != "service":
            return None
        up = [run for run in self._own_runs if run.placement not in self._starting]
        asked = {run.group for run in up if Policy.of(started_with(self.job, run.group)).command}
        passed = self.cell.tasks.ready(self.job.id) if asked else frozenset()
        failing = self.cell.tasks.unsteady(self.job.id) if any(run.group not in asked for run in up) else frozenset()
        known = {run.placement: run.group in asked for run in up}
        return sum(known.get(placement, False) for placement, _ in passed) + sum(
            ranges.count(run.tasks) - sum(placement == run.placement for placement, _ in failing)
            for run in up
            if run.group not in asked
        )

    @cached_property
    def stopping(self) -> int:
        """Number of its stopped tasks whose processes have not ended."""
        own = [run for run in self.runs if run.leaving and not self.job.groups[run.group].copies]
        there = sum(ranges.count(run.tasks) for run in own) if self.job.state > JobState.HELD else 0
        return min(there, job_counts(self.job)["stopped"])

    @cached_property
    def share(self) -> Mapping[str, Any] | None:
        """Its fair share in its pool, and who of the pool's jobs holds more than its own; None without pools."""
        if ended(self.job) or not self.cell.pools.epoch_mark().configured:
            return None
        from omega.queries.pool_standing import job_share

        return job_share(self.cell, self.job)

    @cached_property
    def update(self) -> Mapping[str, Any]:
        """Progress of its update."""
        return progress(self.job, self.cell.jobs.update_state(self.job.id))

    def as_json(self, now_ms: int) -> dict[str, Any]:
        """Return all of it as plain values."""
        cell, job, names, log = self.cell, self.job, self.machine_names, self.past
        shards, called = mapreduce.progress(cell, job), TaskNames.of(job)
        return {
            "cell": cell.name,
            **job_json(job, None if self.brief else self.room, now_ms, self.times),
            "groups": _groups(cell, job),
            "progress": shards and mapreduce.as_json(job, shards, mapreduce.machine_names(cell, shards)),
            "runs": [
                {
                    "placement": run.placement,
                    "machine": names.get(run.machine, str(run.machine)),
                    "index": run.machine,
                    "group": run.group,
                    "tasks": run.tasks,
                    **called.as_json(run.group, run.tasks),
                    "leaving": run.leaving,
                }
                for run in self.runs
            ],
            "summary": self.summary,
            "ready": self.ready,
            "history": log.as_json(),
            "evicted_for": log.evicted_for,
            "evicted": log.evicted,
            "failures": log.failures,
            "losses": losses(self.cell, self.job),
            "fair_share": None if self.brief else self.share,
            "measured": asdict(self.measured),
            "spec": {name: value for name, value in job.spec.items() if name not in UPDATING},
            "version": number_of(job),
            "update": self.update,
        }


def _groups(cell: "Cell", job: "Job") -> list[dict[str, Any]]:
    said: Sequence[Mapping[str, Any]] = job.spec.get("groups") or [{}] * len(job.groups)
    current = current_groups(job)
    return [
        {
            "name": name,
            "need": cell.dimensions.numbers(group.need),
            "duration_ms": group.duration_ms,
            "counts": counts([group]),
            "optional": group.optional,
            "copies": group.copies,
            "indices": group.indices,
            "superseded": i not in current,
            "generation": generations(job)[i],
            "spec": {key: value for key, value in its.items() if key not in ("name", STARTED_WITH)},
        }
        for i, (name, group, its) in enumerate(zip(group_names(job), job.groups, said, strict=True))
    ]


def current_groups(job: "Job") -> set[int]:
    """Return the groups of the present version, and those for copies of their tasks."""
    current = {target.group for target in targets(job)}
    return current | {i for i, group in enumerate(job.groups) if group.copies and i - 1 in current}


def _after_one(run: "Run", leaving: "Sequence[Run]") -> bool:
    """Return whether a run was placed after one that leaves its machine, or its group elsewhere."""
    return any(
        each.placement < run.placement
        and (each.machine == run.machine or (each.job, each.group) == (run.job, run.group))
        for each in leaving
    )


def losses(cell: "Cell", job: "Job") -> list[dict[str, Any]]:
    """Return losses and retried failures (semantics 26) of tasks that have not ended, equal ones together.

    ``delay_ms`` is from now on, to 100 ms. Those of a version that another replaced are left out once none of its
    tasks is left.
    """
    if not any(group.losses for group in job.groups):
        return []
    now, names, called = cell.store_ms(), group_names(job), TaskNames.of(job)
    alike: dict[tuple[int, int, int, int], str] = {}
    for number, loss in own_losses(job):
        key = number, loss.times, loss.retried.failures, -(min(0, now - loss.due_ms) // 100 * 100)
        alike[key] = ranges.add(alike.get(key, ranges.EMPTY), loss.tasks)
    return [
        {
            "group": number,
            "name": names[number],
            "tasks": tasks,
            **called.as_json(number, tasks),
            "lost": lost,
            "failures": failures,
            "budget": job.groups[number].budget,
            "delay_ms": delay_ms,
        }
        for (number, lost, failures, delay_ms), tasks in alike.items()
    ]


def waits_for(cell: "Cell", job: "Job") -> str:
    """Return the jobs it waits for; for a job stopped because of them, those that cannot satisfy it."""
    names = Names(cell)
    if ended(job):
        return ", ".join(f"{names.job(wait.job)}, which did not finish" for wait in job.after)
    return ", ".join(f"{names.job(wait.job)} to {'end' if wait.any_end else 'finish'}" for wait in job.after)


def update_progress(cell: "Cell", job_id: str) -> dict[str, Any] | None:
    """Return the progress of a job's update; None when the job is no longer stored."""
    state, job = cell.jobs.update_state(job_id), cell.jobs.get(job_id)
    return None if job is None else progress(job, state)


def progress(job: "Job", state: str) -> dict[str, Any]:
    """Return the progress of a job's update: tasks still to be replaced, of how many."""
    aims = targets(job)
    left = sum(going(job.groups[number]) for target in aims for number in target.older)
    word, _, reason = state.partition(" ")
    return {
        "update": word or "finished",
        "reason": reason or None,
        "to_replace": left,
        "tasks": sum(target.count for target in aims),
    }

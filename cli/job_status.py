"""``omega job status``."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from cli import job_update, mapreduce_progress, render, words
from cli.app import App
from cli.event_words import Names
from cli.history import events, extent, since_time
from cli.job_find import find
from cli.job_list import as_json
from cli.job_state import COUNTS, Room, counts, ended, group_names, state
from schedulers.rolling import targets

if TYPE_CHECKING:
    from cellstate.model import Job, Run
    from cellstate.redis_cell import RedisCell
    from cli.history import Event

MOST_VERSIONS = 20_000
"""Versions of the log that are searched for a job's history: about a second."""
CLOCK_MARGIN_MS = 60_000
"""The log's times are those of many clocks."""
MOST_ROWS = 20
TOLD = ("groups", "after", "targets", "update", mapreduce_progress.PLAN)
"""What of a job's spec is told in words of its own."""


@dataclass
class Past:
    """What the log says of a job: its commits, those with a conflict, who made them, when the first task was placed."""

    attempts: set[int] = field(default_factory=set)
    conflicts: set[int] = field(default_factory=set)
    by: dict[str, None] = field(default_factory=dict)
    first_placed_ms: int | None = None
    complete: bool = False
    """Whether the log still has all of it, from the submission on."""
    evicted_for: dict[str, int] = field(default_factory=dict)
    """Its tasks that had to go, by the id of the more important job they made room for."""
    evicted: dict[str, int] = field(default_factory=dict)
    """The tasks that went for it, by the id of their job."""
    failures: dict[str, int] = field(default_factory=dict)
    """Its tasks that failed, by what is said of it: ``exit 3``, ``command not found: …``."""

    def hear_eviction(self, event: "Event", job_id: str) -> None:
        """Take note of an eviction that has to do with the job."""
        cause, _, winner = str(event.more.get("reason", "")).partition(":")
        if cause == "precedence" and event.job is not None:
            found, other = (self.evicted_for, winner) if event.job == job_id else (self.evicted, event.job)
            if job_id in (event.job, winner):
                found[other] = found.get(other, 0) + (event.count or 0)

    def as_json(self) -> dict[str, Any]:
        """The history as plain values."""
        return {"attempts": len(self.attempts), "conflicts": len(self.conflicts), "by": list(self.by),
                "first_placed_ms": self.first_placed_ms, "complete": self.complete}  # fmt: skip


@click.command()
@click.argument("job")
@click.option("--verbose", "-v", is_flag=True, help=f"All its runs, not only {MOST_ROWS}.")
@click.pass_obj
def command(app: App, job: str, verbose: bool) -> None:
    """The JOB: its tasks by what became of them, where they run, its history."""
    cell = app.open()
    found = find(cell, job)
    room, now = Room(cell), time.time()
    indices = sorted({machine for group in found.groups for _, machine, _ in group.runs})
    runs = [run for run in cell.runs(indices) if run.job == found.id]
    names = {machine.index: machine.name for machine in cell.machines()} if runs else {}
    past, progress = history(cell, found), mapreduce_progress.progress(cell, found)
    if app.as_json:
        render.document({
            "cell": cell.name, **as_json(found, room, now), "groups": _groups(cell, found),
            "progress": progress and mapreduce_progress.as_json(progress),
            "runs": [
                {"placement": run.placement, "machine": names.get(run.machine, str(run.machine)), "index": run.machine,
                 "group": run.group, "tasks": run.tasks, "leaving": run.leaving} for run in runs
            ],
            "history": past.as_json(), "evicted_for": past.evicted_for, "evicted": past.evicted,
            "failures": past.failures,
            "spec": {name: value for name, value in found.spec.items() if name not in ("groups", "targets")},
            "update": job_update.progress(found, cell.updates().get(found.id, "")),
        })  # fmt: skip
        return
    _show(cell, found, room.reason(found), past, now)
    _show_runs(found, runs, names, most=len(runs) if verbose else MOST_ROWS)


def history(cell: "RedisCell", job: "Job") -> Past:
    """Search the log for a job, from its submission on."""
    kept = extent(cell)
    start = since_time(cell, job.submitted_ms - CLOCK_MARGIN_MS, kept)
    to = min(kept.newest, start + MOST_VERSIONS)
    past = Past()
    submitted = done = False
    for event in events(cell, start, to):
        if event.kind == "evicted":
            past.hear_eviction(event, job.id)
        if event.job != job.id:
            continue
        submitted |= event.kind == "submit"
        done |= event.kind == "done"
        if event.kind == "failed" and (why := event.more.get("reason")):
            past.failures[why] = past.failures.get(why, 0) + (event.count or 0)
        if event.kind in ("place", "conflict"):
            past.attempts.add(event.version)
            past.by[event.by] = None
            if event.kind == "conflict":
                past.conflicts.add(event.version)
            elif past.first_placed_ms is None:
                past.first_placed_ms = event.at_ms
    past.complete = submitted and (done or to == kept.newest)
    return past


def _groups(cell: "RedisCell", job: "Job") -> list[dict[str, Any]]:
    said: Sequence[Mapping[str, Any]] = job.spec.get("groups") or [{}] * len(job.groups)
    current = {target.group for target in targets(job)}
    return [
        {"name": name, "need": cell.dimensions.numbers(group.need), "duration_ms": group.duration_ms,
         "counts": counts([group]), "optional": group.optional, "indices": group.indices,
         "superseded": i not in current,
         "spec": {key: value for key, value in extra.items() if key != "name"}}
        for i, (name, group, extra) in enumerate(zip(group_names(job), job.groups, said, strict=True))
    ]  # fmt: skip


def _show(cell: "RedisCell", job: "Job", reason: str, past: Past, now: float) -> None:
    found = counts(job.groups)
    ways = ", ".join(f"{found[name]:,} {name}" for name in COUNTS[1:] if found[name])
    gang = {"NO": "", "YES": " · gang", "STRICT": " · strict gang"}[job.gang.name]
    rank = f" · precedence {job.precedence:,}" if job.precedence else ""
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.submitted_ms / 1000))
    render.facts(
        {
            "job": f"{job.name} ({job.id}) · {job.kind}{rank}{gang}",
            "state": state(job) + (f" · {reason}" if reason else ""),
            "submitted": f"{began} ({words.age(now - job.submitted_ms / 1000)} ago)",
            "modify index": job.modified,
            "tasks": f"{found['total']:,} · {ways}",
            "history": _history(job, past),
            "failed": words.listing([f"{words.count(tasks, 'task')}: {why}" for why, tasks in past.failures.items()]),
            "update": job_update.told(job_update.progress(job, cell.updates().get(job.id, ""))),
            "evicted": _evictions(cell, past.evicted_for, "for"),
            "made room": _evictions(cell, past.evicted, "of"),
        }
        | {"waits for": _waits(cell, job)}
        | mapreduce_progress.facts(cell, job)
        | {name: str(value) for name, value in job.spec.items() if name not in TOLD}
    )
    from omega.arrays import shown

    render.line()
    durations = any(group.duration_ms for group in job.groups)
    rows = []
    said = job.spec.get("groups") or [{}] * len(job.groups)
    current = {target.group for target in targets(job)}
    for i, (each, name, extra) in enumerate(zip(job.groups, group_names(job), said, strict=True)):
        if i not in current and not each.total and not any(leaving for _, _, leaving in each.runs):
            continue
        numbers = counts([each])
        took = [words.seconds(each.duration_ms / 1000)] if durations else []
        called = name + shown(extra, each.indices) + ("" if i in current else " (old)")
        need = words.amounts(cell.dimensions, each.need)
        rows.append((called, need, *took, *(numbers[word] for word in COUNTS)))
    headings = ("group", "each task", ">duration") if durations else ("group", "each task")
    render.table((*headings, *(f">{word}" for word in COUNTS)), rows)


def _waits(cell: "RedisCell", job: "Job") -> str:
    """What it waits for; of one that was stopped for it, what did not come true."""
    names = Names(cell)
    if ended(job):
        return ", ".join(f"{names.job(wait.job)}, which did not finish" for wait in job.after)
    return ", ".join(f"{names.job(wait.job)} to {'end' if wait.any_end else 'finish'}" for wait in job.after)


def _history(job: "Job", past: Past) -> str:
    if not past.attempts:
        return "nothing placed yet" if past.complete else "not in the log any more"
    first = ""
    if past.first_placed_ms is not None:
        first = f" · first placed after {words.seconds(max(0, past.first_placed_ms - job.submitted_ms) / 1000)}"
    rest = "" if past.complete else " · the log does not have all of it"
    commits, conflicts = words.count(len(past.attempts), "commit"), words.count(len(past.conflicts), "conflict")
    return f"{commits} by {words.listing(list(past.by))}, {conflicts}{first}{rest}"


def _evictions(cell: "RedisCell", found: Mapping[str, int], how: str) -> str:
    names = Names(cell)
    said = [f"{words.count(tasks, 'task')} {how} {names.job(job_id)}" for job_id, tasks in found.items()]
    return words.listing(said)


def _show_runs(job: "Job", runs: "Sequence[Run]", names: Mapping[int, str], most: int) -> None:
    if not runs:
        return
    groups = group_names(job)
    rows = [
        (str(run.placement), names.get(run.machine, str(run.machine)), groups[run.group], run.tasks,
         "leaving" if run.leaving else "running")
        for run in runs[:most]
    ]  # fmt: skip
    render.line()
    render.table((">placement", "machine", "group", "tasks", "state"), rows)
    if len(runs) > most:
        render.note(f"… {words.count(len(runs) - most, 'more run')} (--verbose)")

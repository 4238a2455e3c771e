"""``omega job status``."""

import shlex
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.pages import own_groups
from omega.cli import render
from omega.cli.app import App
from omega.cli.mapreduce import progress
from omega.cli.options import all_cells_option
from omega.jobfile.written import duration
from omega.queries import units
from omega.queries.event_text import sentences
from omega.queries.events import Event
from omega.queries.job_fields import values_text
from omega.queries.job_history import Past, unread_text
from omega.queries.job_state import COUNTS, counts, ended, generations, group_names, held_for, state
from omega.queries.job_status import JobStatus, current_groups, losses, waits_for
from omega.queries.job_texts import history_text, loss_lines, measured_text, update_text
from omega.queries.mapreduce import PLAN
from omega.queries.names import Names
from omega.queries.task_names import TaskNames
from omega.versions import number_of

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

MOST_ROWS = 20
MOST_TOLD = 10
"""Lines of a job's history."""


@click.command()
@click.argument("job")
@click.option("--verbose", "-v", is_flag=True, help=f"Print all runs and events, not only {MOST_ROWS} and {MOST_TOLD}.")
@all_cells_option
@click.pass_obj
def command(app: App, job: str, verbose: bool, all_cells: bool) -> None:
    """Show JOB: its tasks by state, their machines, its history."""
    from omega.queries.job_history import MOST_EVENTS
    from omega.queries.job_status import JobStatus
    from omega.queries.jobs import find_job

    names = app.several(all_cells=all_cells)
    if names is None:
        cell = app.open()
        record = find_job(cell, job)
    else:
        from omega.many_cells.lists import find_anywhere

        found = app.open_cells(names)
        cell, record = find_anywhere(found, job)
        app.warn_of_skipped(found)
    status = JobStatus(cell, record)
    if app.as_json:
        render.document(status.as_json(app.now_ms()))
        return
    if names is not None:
        render.line(f"cell {cell.name}")
    show(status, app.now_ms())
    show_runs(status, most=len(status.runs) if verbose else MOST_ROWS)
    show_past(cell, status.past, most=MOST_EVENTS if verbose else MOST_TOLD)


TOLD = ("groups", "after", "targets", "version", "versions", "update", "policy", PLAN)
"""Fields of a job's spec that have lines of their own."""


def show(status: JobStatus, now_ms: int) -> None:
    """Print the facts about a job."""
    cell, job, past, sums, reason = status.cell, status.job, status.past, status.summary, status.room.reason(status.job)
    ways = ", ".join(f"{number:,} {name}" for name, number in sums.items() if number)
    gang = {"NO": "", "YES": " · gang", "STRICT": " · strict gang"}[job.gang.name]
    gang += f" of at least {units.count(job.gang_min, 'task')}" if job.gang_min else ""
    rank = f" · precedence {job.precedence:,}" if job.precedence else ""
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.submitted_ms / 1000))
    render.facts(
        {
            "job": f"{job.name} ({job.id}) · {job.kind}{rank}{gang}",
            "state": state(job) + (f" · {reason}" if reason else ""),
            "gate": held_for(job) if reason == "HELD" else "",
            "submitted": f"{began} ({units.age((now_ms - job.submitted_ms) / 1000)} ago)",
            "modify index": job.modified,
            "version": f"{number} · see omega job history {job.name}" if (number := number_of(job)) > 1 else "",
            "tasks": f"{counts(own_groups(job))['total']:,} · {ways}",
            "ready": "" if status.ready is None or ended(job) else f"{status.ready:,} of {sums['running']:,} that run",
            "fair share": _share(status),
            "history": history_text(past.as_json(), job.submitted_ms),
            "not read": past.unread and unread_text(job, past.unread),
            "failed": units.listing([f"{units.count(tasks, 'task')}: {why}" for why, tasks in past.failures.items()]),
            "lost": units.listing(list(loss_lines(losses(cell, job)))),
            "measured": measured_text(asdict(status.measured)),
            "update": update_text(status.update),
            "evicted": _evictions(cell, past.evicted_for, "for"),
            "made room": _evictions(cell, past.evicted, "of"),
        }
        | {"waits for": waits_for(cell, job)}
        | {"policy": values_text(cell, job)}
        | progress.facts(cell, job)
        | {name.replace("_", " "): _text(value) for name, value in job.spec.items() if name not in TOLD}
    )
    from omega.arrays import shown

    render.line()
    durations = any(group.duration_ms for group in job.groups)
    rows = []
    said = job.spec.get("groups") or [{}] * len(job.groups)
    current = current_groups(job)
    for i, (each, name, its) in enumerate(zip(job.groups, group_names(job), said, strict=True)):
        if i not in current and not each.total and not any(leaving for _, _, leaving in each.runs):
            continue
        numbers = counts([each])
        took = [units.seconds(each.duration_ms / 1000)] if durations else []
        old = "" if i in current else f" (old, generation {generations(job)[i]})"
        called = name + shown(its, each.indices) + old
        need = units.amounts(cell.dimensions, each.need)
        rows.append((called, need, *took, *(numbers[word] for word in COUNTS)))
    headings = ("group", "each task", ">duration") if durations else ("group", "each task")
    render.table((*headings, *(f">{word}" for word in COUNTS)), rows, ("duration", "stopped", "failed"))
    for i, (name, its) in enumerate(zip(group_names(job), said, strict=False)):
        if i in current and (told := _asked(its)):
            render.line(f"{name}: {told}")


def _asked(said: Mapping[str, Any]) -> str:
    """Return what a task group runs, for how long at most, and on which machines, as a job file has it."""
    limit, constraints = said.get("time_limit"), said.get("constraints", ())
    return " · ".join(
        [
            *([shlex.join(said["command"])] if said.get("command") else []),
            *([f"time limit {duration(limit)}"] if limit else []),
            *([f"constraints {', '.join(map(_constraint, constraints))}"] if constraints else []),
        ]
    )


def _constraint(said: object) -> str:
    return f"prefer {said['prefer']}" if isinstance(said, Mapping) and "prefer" in said else str(said)


def _share(status: JobStatus) -> str:
    if not status.share:
        return ""
    from omega.queries.pool_standing import share_sentences

    return " · ".join(share_sentences(status.share))


def _text(value: object) -> str:
    """Return a field of a job as text; one with defaults alone, such as `speculation`, is true."""
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{name}: {each}" for name, each in value.items()) or "true"


def show_past(cell: "Cell", past: Past, most: int) -> None:
    """Print the last `most` lines of the history of a job."""
    rows = _past_lines(past, Names(cell), most)
    if rows:
        render.line()
        render.table((">after", ">version", "by", "what"), rows)


def _evictions(cell: "Cell", tasks_by_job: Mapping[str, int], how: str) -> str:
    names = Names(cell)
    said = [f"{units.count(tasks, 'task')} {how} {names.job(job_id)}" for job_id, tasks in tasks_by_job.items()]
    return units.listing(said)


def show_runs(status: JobStatus, most: int) -> None:
    """Print a table of at most `most` runs."""
    job, runs, names = status.job, status.runs, status.machine_names
    if not runs:
        return
    groups, called = dict(enumerate(group_names(job))), TaskNames.of(job)
    rows = [
        {
            ">placement": str(run.placement),
            "machine": names.get(run.machine, str(run.machine)),
            "group": groups.get(run.group, "?"),
            "tasks": called.indices(run.group, run.tasks),
            "state": "stopping" if run.leaving else "running",
        }
        for run in runs[:most]
    ]
    render.line()
    render.records(rows)
    if len(runs) > most:
        render.note(f"… {units.count(len(runs) - most, 'more run')} (--verbose)")


QUIET = frozenset({"finished", "left", "ended", "awaited", "met"})
"""Kinds of event that are printed as a number only."""


def _past_lines(past: Past, names: Names, most: int) -> list[tuple[str, str, str, str]]:
    """Return (time since submission, version, author, text) of the last `most` versions that are worth a line."""
    told = [event for event in past.events if event.kind not in QUIET]
    lines = []
    for version, together in groupby(told, lambda event: event.version):
        same = list(together)
        conflicts = [event for event in same if event.kind == "conflict"]
        others = [event for event in same if event.kind != "conflict"]
        said = [text + _won(past, conflicts, names) for _, text in sentences(conflicts, names)]
        said += [text for _, text in sentences(others, names)]
        after = units.seconds(max(0, same[0].at_ms - past.job.submitted_ms) / 1000)
        lines.append((after, str(version or ""), same[0].by, " · ".join(said)))
    return lines[-most:]


def _won(past: Past, conflicts: Iterable[Event], names: Names) -> str:
    """Return which transactions won the conflicts."""
    said: dict[str, None] = {}
    for event in conflicts:
        won = past.winners.get((event.version, event.machine))
        if won is not None:
            what = f"placed {names.job(won['job'])}" if won["kind"] == "place" else "changed the machine"
            said[f"{won['by']} {what} there before, version {won['version']}"] = None
    return f" ({', '.join(said)})" if said else ""

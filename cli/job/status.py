"""``omega job status``."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cellstate import ranges
from cli import render, words
from cli.app import App
from cli.job import losses as loss_lines
from cli.job import update
from cli.job.past import lines as past_lines
from cli.mapreduce import progress
from omega.queries import losses
from omega.queries.finding import find_job
from omega.queries.job_history import MOST_EVENTS, Past, past
from omega.queries.job_state import COUNTS, Room, counts, ended, group_names, state
from omega.queries.jobs import job_json
from omega.queries.names import Names
from schedulers.rolling import targets

if TYPE_CHECKING:
    from cellstate.model import Job, Run
    from cellstate.redis import RedisCell

MOST_ROWS = 20
MOST_ASKED = 1_000
"""Runs that are asked whether they have started."""
MOST_TOLD = 10
"""Lines of a job's history."""
TOLD = ("groups", "after", "targets", "update", progress.PLAN)
"""What of a job's spec is told in words of its own."""


@click.command()
@click.argument("job")
@click.option("--verbose", "-v", is_flag=True, help=f"All its runs and history, not only {MOST_ROWS} and {MOST_TOLD}.")
@click.pass_obj
def command(app: App, job: str, verbose: bool) -> None:
    """The JOB: its tasks by what became of them, where they run, its history."""
    cell = app.open()
    found = find_job(cell, job)
    room, now = Room(cell), time.time()
    indices = sorted({machine for group in found.groups for _, machine, _ in group.runs})
    there = cell.runs(indices)
    runs = [run for run in there if run.job == found.id]
    names = {machine.index: machine.name for machine in cell.machines()} if runs else {}
    log = past(cell, found)
    sums, shards = summary(cell, found, there, log), progress.progress(cell, found)
    if app.as_json:
        render.document({
            "cell": cell.name, **job_json(found, room, app.now_ms()), "groups": _groups(cell, found),
            "progress": shards and progress.as_json(shards, progress.machine_names(cell, shards)),
            "runs": [
                {"placement": run.placement, "machine": names.get(run.machine, str(run.machine)), "index": run.machine,
                 "group": run.group, "tasks": run.tasks, "leaving": run.leaving} for run in runs
            ],
            "summary": sums, "history": log.as_json(), "evicted_for": log.evicted_for,
            "evicted": log.evicted, "failures": log.failures, "losses": losses.losses(cell, found),
            "spec": {name: value for name, value in found.spec.items() if name not in ("groups", "targets")},
            "update": update.progress(found, cell.updates().get(found.id, "")),
        })  # fmt: skip
        return
    _show(cell, found, room.reason(found), log, sums, now)
    _show_runs(found, runs, names, most=len(runs) if verbose else MOST_ROWS)
    _show_past(cell, log, most=MOST_EVENTS if verbose else MOST_TOLD)


def summary(cell: "RedisCell", job: "Job", there: "Sequence[Run]", log: Past) -> dict[str, int]:
    """The tasks of a job as the family of such systems sums them up; `lost` counts losses, as far as the log goes.

    Starting are those that wait on their machine until what leaves it, or themselves elsewhere, is gone; so
    they were placed after that. `there` are the runs on the job's machines.
    """
    leaving = [run for run in there if run.leaving]
    late = [run for run in there if run.job == job.id and not run.leaving and _after_one(run, leaving)][:MOST_ASKED]
    answers = cell.may_start([(run.machine, run.placement) for run in late]) if late else []
    waits = [run for run, answer in zip(late, answers, strict=True) if answer == "wait"]
    found, starting = counts(job.groups), sum(ranges.count(run.tasks) for run in waits)
    return {
        "queued": found["queued"], "starting": starting, "running": found["placed"] - starting,
        "failed": found["failed"], "complete": found["finished"], "stopped": found["stopped"], "lost": log.lost,
    }  # fmt: skip


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


def _after_one(run: "Run", leaving: "Sequence[Run]") -> bool:
    """Whether a run was placed after one that leaves its machine, or its group elsewhere."""
    return any(
        each.placement < run.placement
        and (each.machine == run.machine or (each.job, each.group) == (run.job, run.group))
        for each in leaving
    )


def _show(cell: "RedisCell", job: "Job", reason: str, past: Past, sums: Mapping[str, int], now: float) -> None:
    ways = ", ".join(f"{number:,} {name}" for name, number in sums.items() if number)
    gang = {"NO": "", "YES": " · gang", "STRICT": " · strict gang"}[job.gang.name]
    rank = f" · precedence {job.precedence:,}" if job.precedence else ""
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.submitted_ms / 1000))
    render.facts(
        {
            "job": f"{job.name} ({job.id}) · {job.kind}{rank}{gang}",
            "state": state(job) + (f" · {reason}" if reason else ""),
            "submitted": f"{began} ({words.age(now - job.submitted_ms / 1000)} ago)",
            "modify index": job.modified,
            "tasks": f"{counts(job.groups)['total']:,} · {ways}",
            "history": _history(job, past),
            "failed": words.listing([f"{words.count(tasks, 'task')}: {why}" for why, tasks in past.failures.items()]),
            "lost": words.listing(list(loss_lines.lines(losses.losses(cell, job)))),
            "update": update.told(update.progress(job, cell.updates().get(job.id, ""))),
            "evicted": _evictions(cell, past.evicted_for, "for"),
            "made room": _evictions(cell, past.evicted, "of"),
        }
        | {"waits for": waits_for(cell, job)}
        | progress.facts(cell, job)
        | {name.replace("_", " "): str(value) for name, value in job.spec.items() if name not in TOLD}
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
    render.table((*headings, *(f">{word}" for word in COUNTS)), rows, ("duration", "stopped", "failed"))


def waits_for(cell: "RedisCell", job: "Job") -> str:
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
    again = f" · {words.count(past.again, 'task')} placed again" if past.again else ""
    return f"{commits} by {words.listing(list(past.by))}, {conflicts}{again}{first}{rest}"


def _show_past(cell: "RedisCell", past: Past, most: int) -> None:
    rows = past_lines(past, Names(cell), most)
    if rows:
        render.line()
        render.table((">after", ">version", "by", "what"), rows)


def _evictions(cell: "RedisCell", found: Mapping[str, int], how: str) -> str:
    names = Names(cell)
    said = [f"{words.count(tasks, 'task')} {how} {names.job(job_id)}" for job_id, tasks in found.items()]
    return words.listing(said)


def _show_runs(job: "Job", runs: "Sequence[Run]", names: Mapping[int, str], most: int) -> None:
    if not runs:
        return
    groups = dict(enumerate(group_names(job)))
    rows = [
        (str(run.placement), names.get(run.machine, str(run.machine)), groups.get(run.group, "?"), run.tasks,
         "leaving" if run.leaving else "running")
        for run in runs[:most]
    ]  # fmt: skip
    render.line()
    render.table((">placement", "machine", "group", "tasks", "state"), rows)
    if len(runs) > most:
        render.note(f"… {words.count(len(runs) - most, 'more run')} (--verbose)")

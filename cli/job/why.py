"""``omega job why``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.resources import Dimensions, format_amount
from omega.cli import render
from omega.cli.app import App
from omega.cli.refused_writes import warn_of_refused_writes
from omega.queries import units
from omega.queries.delays import delay_text
from omega.queries.event_text import clock
from omega.queries.explanations import Explained, explain_machine, past_reasons, settled, waits
from omega.queries.job_history import past
from omega.queries.job_status import losses
from omega.queries.job_texts import loss_lines
from omega.queries.jobs import find_job
from omega.queries.names import Names
from omega.queries.pool_standing import sentences, share_sentences
from omega.queries.shortfalls import MOST_MACHINES

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.redis import RedisCell
    from omega.schedulers.constraints.explanation import DemandStep, GroupExplanation

WIDTH = 56
"""Where the reason stands in the first line."""


@click.command()
@click.argument("job")
@click.option("--machine", metavar="NAME", help="Check this machine only: each demand with the machine's values.")
@click.option("--verbose", "-v", is_flag=True, help="Add the names of the machines that each demand excludes.")
@click.pass_obj
def command(app: App, job: str, machine: str | None, verbose: bool) -> None:
    """Explain why JOB is pending: the machines that each demand excludes, and changes that would help.

    The decision is made on a working copy of the cell, as a scheduler would make it; nothing is changed. A machine
    counts at the first demand that excludes it. JSON lists the first 20 machines of each demand, with --verbose all.
    """
    cell = app.open()
    asked = find_job(cell, job)
    refused = warn_of_refused_writes(cell, as_json=app.as_json)
    if machine is not None:
        checked = explain_machine(cell, asked, machine)
        if app.as_json:
            render.document(checked | refused)
        else:
            _show_machine(cell.dimensions, checked)
        return
    if not waits(asked):
        _show_settled(app, settled(cell, asked) | (refused if app.as_json else {}))
        _show_evictors(app, cell, asked)
        return
    explained = Explained.of(cell, asked, None if verbose and app.as_json else MOST_MACHINES)
    if app.as_json:
        render.document(explained.as_json() | refused)
    else:
        _show(app, explained, verbose=verbose)
        _show_evictors(app, cell, asked)


def _show_evictors(app: App, cell: "RedisCell", job: "Job") -> None:
    """Print for which jobs, and whose, tasks of a job were evicted, as far as its history has it."""
    evicted = {} if app.as_json else past(cell, job).evicted_for
    specs = cell.jobs.specs(sorted(evicted)) if evicted else {}
    names = Names(cell)
    for other, tasks in evicted.items():
        user = specs.get(other, {}).get("user")
        whose = f" of user {user}" if user else ""
        render.line(f"  evicted: {units.count(tasks, 'task')} for {names.job(other)}{whose}")


def _show_machine(dimensions: Dimensions, explained: Mapping[str, Any]) -> None:
    """Print the demands of a job on one machine, those that it does not satisfy with their reason."""
    machine = explained["machine"]
    free = [units.in_use(name, machine["free"][name], machine["capacity"][name]) for name in dimensions.names]
    amounts = " · ".join(f"{name} {text} free" for name, text in zip(dimensions.names, free, strict=True))
    attributes = "".join(f" · {name}={value}" for name, value in machine["attributes"].items())
    render.line(f"{explained['name']} on {machine['name']} ({machine['state']}): {amounts}{attributes}")
    for group in explained["groups"]:
        if len(explained["groups"]) > 1:
            render.line(f"  group {group['name']}:")
        width = max((len(check["what"]) for check in group["checks"]), default=0)
        for check in group["checks"]:
            render.line(f"  {check['what']:<{width}}  {'ok' if check['holds'] else check['reason']}")
        render.line(f"  {group['fits']:,} of {units.count(group['unplaced'], 'unplaced task')} would fit")
    if not explained["groups"]:
        render.line("  no unplaced tasks")


def _show_settled(app: App, explained: Mapping[str, Any]) -> None:
    """Print the explanation of a job that does not wait for a machine."""
    from omega.schedulers.constraints.reasons import MEANING

    if app.as_json:
        render.document(explained)
        return
    waiting = f"{units.count(explained['unplaced'], 'unplaced task')}" if explained["unplaced"] else "no unplaced tasks"
    render.line(_headline(f"{explained['name']} is {explained['state']}: {waiting}", explained["reason"]))
    render.line(f"  {explained['detail'] or MEANING[explained['reason']]}")
    for line in loss_lines(explained["losses"]):
        render.line(f"  {line}")
    _show_past(app, explained["past_reasons"])
    if explained["reason"] == "HELD":
        render.line(f"  would be placed after: omega job release {explained['name']}")


def _show(app: App, explained: Explained, *, verbose: bool) -> None:
    from omega.schedulers.constraints.reasons import MEANING

    job = explained.job
    render.line(_headline(counted(explained), explained.explanation.reason))
    if explained.explanation.detail:
        render.line(f"  {explained.explanation.detail}")
    if explained.delay:
        render.line(f"  {delay_text(explained.delay, units.seconds(explained.delay['left_seconds']))}")
    if explained.failure:
        render.line(f"  {explained.failure.text}")
    for part in explained.explanation.parts:
        if len(explained.job.groups) > 1:
            render.line(f"  group {explained.groups[part.group]}: {part.unplaced:,} unplaced · {part.reason}")
        _show_waiting(explained, part)
        if part.starts:
            render.line(f"  {part.starts:,} of them would fit now")
        elif part.fits and job.lacks and part.reason not in ("LIMIT", "NEVER"):
            needs = f"it needs {job.lacks:,} at once" if job.gang_min else "a gang starts as a whole"
            render.line(f"  room for {part.fits:,} of them; {needs}")
        for line in explained.advice(part) if part.fits < part.unplaced or explained.delay else ():
            render.line(f"  {line}")
        if part.fits < part.unplaced:
            _show_steps(explained, part, verbose=verbose)
            _show_lacking(explained.lacking(part))
    if not explained.explanation.parts or explained.explanation.reason in SELF_EXPLANATORY:
        render.line(f"  {MEANING[explained.explanation.reason]}")
    for line in sentences(explained.pool) if explained.pool else ():
        render.line(f"  {line}")
    for line in share_sentences(explained.share) if explained.share else ():
        render.line(f"  {line}")
    for line in loss_lines(losses(explained.cell, explained.job)):
        render.line(f"  {line}")
    _show_past(app, past_reasons(explained.cell.schedulers, explained.job.id))
    if remedies := explained.remedies():
        render.line("  would fit after: " + " · or ".join(each["text"] for each in remedies))


def counted(explained: Explained) -> str:
    """Return the state of a job with its unplaced tasks, and the copies of slow tasks that wait."""
    job, head = explained.job, explained.head
    tasks = f"{head['unplaced']:,} of {units.count(head['total'], 'task')} unplaced"
    waiting = job.unplaced - head["unplaced"]
    copies = f", {units.count(waiting, 'copy', 'copies')} waiting" if waiting else ""
    return f"{job.name} is {head['state']}: {tasks}{copies}"


def _show_waiting(explained: Explained, part: "GroupExplanation") -> None:
    """Print the pending tasks of an array."""
    waiting = explained.waiting(part)
    if explained.tasks.is_array(part.group) and waiting["indices"]:
        render.line(f"  pending: {waiting['task_name']}")


def _show_lacking(lacking: Sequence[Mapping[str, Any]]) -> None:
    """Print resources that are free in all and not on one machine."""
    for each in lacking:
        if each["free"] < each["need"] <= each["largest"]:
            continue  # there is less than a task needs on all machines together
        name = each["resource"]
        need, free, most, largest = (format_amount(name, each[key]) for key in ("need", "free", "most_free", "largest"))
        never = "" if each["need"] <= each["largest"] else f", and no machine has more than {largest}"
        render.line(f"  {name}: {free} free in all, at most {most} on one machine; a task needs {need}{never}")


def _show_past(app: App, past: Sequence[Mapping[str, Any]]) -> None:
    """Print the last reasons, each with the time from which it held."""
    if past:
        texts = (f"{clock(each['at_ms'], app.now_ms())[:-4]} {each['reason']} ({each['by']})" for each in past)
        render.line("  last reasons: " + " · ".join(texts))


SELF_EXPLANATORY = ("WAITING", "LOCALITY", "NO_SCHEDULER", "NO_MACHINE", "NO_EXECUTOR", "SIMULATED")
"""Reasons that need no details."""


def _headline(begin: str, reason: str) -> str:
    return f"{begin:<{WIDTH}}  reason: {reason}"


def _show_steps(explained: Explained, part: "GroupExplanation", *, verbose: bool) -> None:
    steps: Sequence[DemandStep] = part.steps
    width = max((len(step.what) for step in steps), default=0)
    of: Mapping[str, str] = {
        "NO_MACHINE": "{} unavailable (drained, down or unfit)",
        "RESOURCES": "insufficient on {}",
        "TOO_LARGE": "{} too small",
        "NO_EXECUTOR": "{} offline",
        "SIMULATED": "{} simulated",
    }
    machines = before = explained.explanation.machines
    for step in steps:
        if not before:
            break  # no machine remains
        if not step.excludes:
            text = "excludes none"
        elif step.reason in of:
            rest = "" if step.remaining else "; none remains"
            text = of[step.reason].format(units.count(step.excludes, "machine")) + rest
        elif not step.remaining and before < machines:
            text = f"excludes the remaining {step.excludes:,}"
        else:
            text = f"excludes {step.excludes:,} of {units.count(before, 'machine')}"
        render.line(f"  {step.what:<{width}}  {text}")
        if verbose and step.machines:
            more = step.excludes - len(step.machines)
            render.line(f"    {', '.join(explained.names_of(step))}" + (f" and {more:,} more" if more else ""))
        before = step.remaining

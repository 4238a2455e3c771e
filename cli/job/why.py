"""``omega job why``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cellstate.resources import Dimensions
from cli import render, words
from cli.app import App
from cli.event_words import clock
from cli.job import losses as loss_lines
from omega.queries.explanations import Explained, explain_machine, past_reasons, settled, waits
from omega.queries.finding import find_job
from omega.queries.job_state import state
from omega.queries.losses import losses

if TYPE_CHECKING:
    from schedulers.constraints.explanation import GroupExplanation, Step

WIDTH = 72
"""Where the reason stands in the first line."""


@click.command()
@click.argument("job")
@click.option("--machine", metavar="NAME", help="Check this machine: each demand with the machine's values.")
@click.pass_obj
def command(app: App, job: str, machine: str | None) -> None:
    """Why JOB is pending: what each of its demands excludes, machine by machine, and what would help.

    Nothing is changed: it is decided on a working copy of the cell, as its scheduler would.
    """
    cell = app.open()
    found = find_job(cell, job)
    if machine is not None:
        checked = explain_machine(cell, found, machine)
        if app.as_json:
            render.document(checked)
        else:
            _show_machine(cell.dimensions, checked)
        return
    if not waits(found):
        _show_settled(app, settled(cell, found))
        return
    said = Explained.of(cell, found)
    if app.as_json:
        render.document(said.as_json())
    else:
        _show(app, said)


def _show_machine(dimensions: Dimensions, said: Mapping[str, Any]) -> None:
    """Print the demands of a job on one machine, those that it does not satisfy with their reason."""
    machine = said["machine"]
    free = [words.in_use(name, machine["free"][name], machine["capacity"][name]) for name in dimensions.names]
    amounts = " · ".join(f"{name} {text} free" for name, text in zip(dimensions.names, free, strict=True))
    attributes = "".join(f" · {name}={value}" for name, value in machine["attributes"].items())
    render.line(f"{said['name']} on {machine['name']} ({machine['state']}): {amounts}{attributes}")
    for group in said["groups"]:
        if len(said["groups"]) > 1:
            render.line(f"  group {group['name']}:")
        width = max((len(check["what"]) for check in group["checks"]), default=0)
        for check in group["checks"]:
            render.line(f"  {check['what']:<{width}}  {'ok' if check['holds'] else check['reason']}")
        render.line(f"  {group['fits']:,} of {words.count(group['unplaced'], 'unplaced task')} would fit")
    if not said["groups"]:
        render.line("  no task of it is unplaced")


def _show_settled(app: App, said: Mapping[str, Any]) -> None:
    """Print the explanation of a job that does not wait for a machine."""
    from schedulers.constraints.reasons import MEANING

    if app.as_json:
        render.document(said)
        return
    waiting = f"{said['unplaced']:,} tasks wait" if said["unplaced"] else "none of its tasks waits"
    render.line(_headline(f"{said['name']} is {said['state']}: {waiting}", said["reason"]))
    render.line(f"  {said['detail'] or MEANING[said['reason']]}")
    for line in loss_lines.lines(said["losses"]):
        render.line(f"  {line}")
    _show_past(app, said["past_reasons"])
    if said["reason"] == "HELD":
        render.line(f"  would be placed after: omega job release {said['name']}")


def _show(app: App, said: Explained) -> None:
    from schedulers.constraints.reasons import MEANING

    total = sum(group.total for group in said.job.groups)
    begin = f"{said.job.name} is {state(said.job)}: {said.job.unplaced:,} of {words.count(total, 'task')} unplaced"
    render.line(_headline(begin, said.said.reason))
    if said.said.detail:
        render.line(f"  {said.said.detail}")
    for part in said.said.parts:
        if len(said.job.groups) > 1:
            render.line(f"  group {said.groups[part.group]}: {part.unplaced:,} unplaced · {part.reason}")
        if part.fits:
            render.line(f"  {part.fits:,} of them would fit now")
        if part.fits < part.unplaced:
            _show_steps(part, said.said.machines)
    if not said.said.parts or said.said.reason in PLAIN:
        render.line(f"  {MEANING[said.said.reason]}")
    for line in loss_lines.lines(losses(said.cell, said.job)):
        render.line(f"  {line}")
    _show_past(app, past_reasons(said.cell, said.job.id))
    if remedies := said.remedies():
        render.line("  would fit after: " + " · or ".join(each["text"] for each in remedies))


def _show_past(app: App, found: Sequence[Mapping[str, Any]]) -> None:
    """Print the last reasons, each with the time from which it held."""
    if found:
        texts = (f"{clock(each['at_ms'], app.now_ms())[:-4]} {each['reason']} ({each['by']})" for each in found)
        render.line("  last reasons: " + " · ".join(texts))


PLAIN = ("WAITING", "LOCALITY", "NO_SCHEDULER", "NO_MACHINE", "NO_EXECUTOR", "SIMULATED")
"""Reasons whose meaning is the complete answer."""


def _headline(begin: str, reason: str) -> str:
    return f"{begin:<{WIDTH}}  reason: {reason}"


def _show_steps(part: "GroupExplanation", machines: int) -> None:
    steps: Sequence[Step] = part.steps
    width = max((len(step.what) for step in steps), default=0)
    of: Mapping[str, str] = {
        "NO_MACHINE": "{} {are} not up", "RESOURCES": "no room on {}", "TOO_LARGE": "{} {are} too small",
        "NO_EXECUTOR": "{} {are} offline", "SIMULATED": "{} only simulate tasks",
    }  # fmt: skip
    before = machines
    for step in steps:
        if not before:
            break  # nothing is left to exclude
        if not step.excludes:
            text = "excludes none"
        elif step.reason in of:
            rest = "" if step.remaining else ": none is left"
            text = of[step.reason].format(f"{step.excludes:,}", are="is" if step.excludes == 1 else "are") + rest
        elif not step.remaining and before < machines:
            text = f"excludes the remaining {step.excludes:,}"
        else:
            text = f"excludes {step.excludes:,} of {words.count(before, 'machine')}"
        render.line(f"  {step.what:<{width}}  {text}")
        before = step.remaining

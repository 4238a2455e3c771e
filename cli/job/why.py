"""``omega job why``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli import render, words
from cli.app import App
from cli.job import losses as loss_lines
from omega.queries.explanations import Explained, settled, waits
from omega.queries.finding import find_job
from omega.queries.job_state import state
from omega.queries.losses import losses

if TYPE_CHECKING:
    from schedulers.constraints.explanation import Part, Step

WIDTH = 72
"""Where the reason stands in the first line."""


@click.command()
@click.argument("job")
@click.pass_obj
def command(app: App, job: str) -> None:
    """Why JOB is pending: what each of its demands excludes, machine by machine, and what would help.

    Nothing is changed: it is decided on a private copy of the cell, as its scheduler would.
    """
    cell = app.open()
    found = find_job(cell, job)
    if not waits(found):
        _show_settled(app, settled(cell, found))
        return
    said = Explained.of(cell, found)
    if app.as_json:
        render.document(said.as_json())
    else:
        _show(said)


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
    if said["reason"] == "HELD":
        render.line(f"  would be placed after: omega job release {said['name']}")


def _show(said: Explained) -> None:
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
    if not said.said.parts or said.said.reason in ("WAITING", "NO_SCHEDULER", "NO_MACHINE"):
        render.line(f"  {MEANING[said.said.reason]}")
    for line in loss_lines.lines(losses(said.cell, said.job)):
        render.line(f"  {line}")
    if remedies := said.remedies():
        render.line("  would fit after: " + " · or ".join(each["text"] for each in remedies))


def _headline(begin: str, reason: str) -> str:
    return f"{begin:<{WIDTH}}  reason: {reason}"


def _show_steps(part: "Part", machines: int) -> None:
    steps: Sequence[Step] = part.steps
    width = max((len(step.what) for step in steps), default=0)
    of: Mapping[str, str] = {
        "NO_MACHINE": "{} {are} not up", "RESOURCES": "no room on {}", "TOO_LARGE": "{} {are} too small",
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

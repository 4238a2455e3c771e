"""``omega job why``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cellstate.model import JobState
from cli import render, words
from cli.app import App
from cli.job import losses as loss_lines
from cli.job.status import waits_for
from omega.queries import losses
from omega.queries.finding import find_job
from omega.queries.job_state import Room, group_names, state
from omega.queries.private_copy import live_kinds, look_up, private_copy

if TYPE_CHECKING:
    from cellstate.cell import KindUse
    from cellstate.model import Job
    from cellstate.redis import RedisCell
    from cellstate.view import View
    from schedulers.constraints.explanation import Explanation, Part, Step

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
    if not found.pending or found.state is JobState.HELD:
        _no_machine_matters(app, cell, found)
        return
    told = Told(cell, found, private_copy(cell), cell.kinds().get(found.kind), scheduled=found.kind in live_kinds(cell))
    if app.as_json:
        render.document(told.as_json())
    else:
        told.show()


def _no_machine_matters(app: App, cell: "RedisCell", job: "Job") -> None:
    """Tell of a job that does not wait for a machine."""
    from schedulers.constraints.reasons import MEANING

    reason = Room(cell).reason(job) or ("PLACED" if state(job) == "running" else "DONE")
    detail = f"waits for {waits_for(cell, job)}" if reason == "DEPENDENCY" else ""
    if app.as_json:
        render.document(_head(cell, job) | {"reason": reason, "detail": detail, "groups": [], "fits_after": [],
                                              "losses": losses.losses(cell, job)})  # fmt: skip
        return
    waiting = f"{job.unplaced:,} tasks wait" if job.unplaced else "none of its tasks waits"
    render.line(_headline(f"{job.name} is {state(job)}: {waiting}", reason))
    render.line(f"  {detail or MEANING[reason]}")
    for line in loss_lines.lines(losses.losses(cell, job)):
        render.line(f"  {line}")
    if reason == "HELD":
        render.line(f"  would be placed after: omega job release {job.name}")


class Told:
    """What is told of one pending job."""

    def __init__(self, cell: "RedisCell", job: "Job", view: "View", use: "KindUse | None", *, scheduled: bool) -> None:
        from schedulers.constraints.explanation import explain
        from schedulers.work import Work

        self.cell, self.job, self.view = cell, job, view
        self.work = Work.of(job)
        look_up(cell, view, [self.work])
        self.said: Explanation = explain(self.work, view, use, cell.dimensions.names, scheduled=scheduled)
        self.groups = group_names(job)

    def as_json(self) -> dict[str, Any]:
        """The explanation as plain values."""
        groups = [
            {"group": part.group, "name": self.groups[part.group], "unplaced": part.unplaced, "fits": part.fits,
             "reason": part.reason, "steps": [
                 {"reason": step.reason, "what": step.what, "excludes": step.excludes, "remaining": step.remaining}
                 for step in part.steps]} for part in self.said.parts
        ]  # fmt: skip
        return _head(self.cell, self.job) | {
            "reason": self.said.reason, "detail": self.said.detail, "machines": self.said.machines, "groups": groups,
            "losses": losses.losses(self.cell, self.job),
            "fits_after": [{name: value for name, value in each.items() if name != "text"} for each in self.remedies()],
        }  # fmt: skip

    def show(self) -> None:
        """Print it."""
        from schedulers.constraints.reasons import MEANING

        total = sum(group.total for group in self.job.groups)
        begin = f"{self.job.name} is {state(self.job)}: {self.job.unplaced:,} of {words.count(total, 'task')} unplaced"
        render.line(_headline(begin, self.said.reason))
        if self.said.detail:
            render.line(f"  {self.said.detail}")
        for part in self.said.parts:
            if len(self.job.groups) > 1:
                render.line(f"  group {self.groups[part.group]}: {part.unplaced:,} unplaced · {part.reason}")
            if part.fits:
                render.line(f"  {part.fits:,} of them would fit now")
            if part.fits < part.unplaced:
                _show_steps(part, self.said.machines)
        if not self.said.parts or self.said.reason in ("WAITING", "NO_SCHEDULER", "NO_MACHINE"):
            render.line(f"  {MEANING[self.said.reason]}")
        for line in loss_lines.lines(losses.losses(self.cell, self.job)):
            render.line(f"  {line}")
        if remedies := self.remedies():
            render.line("  would fit after: " + " · or ".join(each["text"] for each in remedies))

    def remedies(self) -> list[dict[str, Any]]:
        """What would let the rest fit, each with its ``text``."""
        return [*self._evictions(), *self._more_machines()]

    def _evictions(self) -> Iterator[dict[str, Any]]:
        """How many less important tasks stand in the way of all that is left, if that is all."""
        from schedulers.remedies import evictions

        found = evictions(self.work, self.view, self.cell)
        if found:
            below, may = self.job.precedence, may_evict(self.cell, self.job.kind)
            who = "its scheduler may" if may else "its scheduler may not"
            yield {
                "evictions": found, "precedence_below": below, "allowed": may,
                "text": f"{words.count(found, 'task')} of precedence < {below:,} evicted ({who})",
            }  # fmt: skip

    def _more_machines(self) -> Iterator[dict[str, Any]]:
        from schedulers.remedies import more_machines

        for part in self.said.parts:
            more = more_machines(self.work, part, self.view)
            if more is None:
                continue
            capacity = tuple(int(amount) for amount in self.view.capacity[:, more.like])
            name = self.cell.described([more.like])[0][0]
            apart = "".join(f", in {words.count(n, f'more {domain}')}" for domain, n in more.apart.items())
            size = words.amounts(self.cell.dimensions, capacity)
            yield {
                "machines": more.count, "like": name, "capacity": self.cell.dimensions.numbers(capacity),
                "apart": dict(more.apart), "group": part.group,
                "text": f"{words.count(more.count, 'more machine')} like {name} ({size}){apart}",
            }  # fmt: skip


def may_evict(cell: "RedisCell", kind: str) -> bool:
    """Whether schedulers of a kind evict: those that live, else those that would be started."""
    from cellstate.errors import BadInput
    from schedulers import registry

    said = [
        figures["evicts"] for name, (_, alive, figures) in cell.members().items()
        if alive and name.partition("/")[0] == kind and "evicts" in figures
    ]  # fmt: skip
    if said:
        return any(said)
    try:
        return registry.scheduler(kind).preemption.evicts
    except BadInput:
        return False


def _head(cell: "RedisCell", job: "Job") -> dict[str, Any]:
    total = sum(group.total for group in job.groups)
    return {"cell": cell.name, "id": job.id, "name": job.name, "kind": job.kind, "state": state(job),
            "unplaced": job.unplaced, "total": total}  # fmt: skip


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

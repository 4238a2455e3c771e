"""Copies of slow tasks in the twin (semantics 41); ``lua/parts/copies.lua``."""

from typing import NamedTuple

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.losses import keep_losses
from omega.cellstate.memory.ranges import NONE, Spans, span_add, span_count, span_split, span_take
from omega.cellstate.memory.records import GroupRow, MachineRow
from omega.cellstate.model import JobState
from omega.cellstate.tasks import EndKind

OUTRUN = "outrun"
"""Reason of a task that was stopped because its copy, or its original, finished first."""


class Copied(NamedTuple):
    """Copies of tasks that end: their group, their runs (machine, placement), and those that wait.

    `kept`: the tasks that continue as their copies; `ends`: the copies end with the tasks.
    """

    group: GroupRow
    kept: Spans
    runs: list[tuple[MachineRow, int]]
    waiting: Spans
    ends: bool


def apart(g: GroupRow, m: MachineRow, claimed: int, count: int) -> int:
    """Return how many of the next copies of a group come before the first whose original is on this machine."""
    following = span_take(span_take(g.waiting, claimed)[1], count)[0]
    for loss in g.losses:
        if loss.machine == m.index and span_split(following, loss.tasks)[0]:
            following = span_split(following, (0, loss.tasks[0] - 1))[0] if loss.tasks[0] else NONE
    return span_count(following)


def meet(ledger: Ledger, g: GroupRow, gone: Spans, how: EndKind, reason: str) -> Copied | None:
    """Return the copies of tasks that end; None when they have none."""
    j, number = g.job, g.number + 1
    if g.copies or number == len(j.groups) or not j.groups[number].copies or not j.groups[number].losses:
        return None
    c = j.groups[number]
    ends = how in (EndKind.FINISHED, EndKind.STOPPED) or j.state > JobState.HELD
    ends = ends and not (how is EndKind.STOPPED and reason == OUTRUN)
    kept, waiting, runs = NONE, NONE, []
    placed = {ledger.M[index].runs[placement][1]: (ledger.M[index], placement)
              for placement, index in c.runs.items() if placement > 0}  # fmt: skip
    for loss in sorted(c.losses, key=lambda each: each.tasks):
        if not span_split(gone, loss.tasks)[0]:
            continue
        if loss.tasks in placed:
            runs.append(placed[loss.tasks])
            kept = kept if ends else span_add(kept, loss.tasks)
        else:
            waiting = span_add(waiting, loss.tasks)
    return Copied(c, kept, runs, waiting, ends) if runs or waiting else None


def promote(ledger: Ledger, g: GroupRow, m: MachineRow, placement: int, how: str) -> None:
    """Make the run of a copy one of the group of its original, which ended in this way."""
    original, (_, task) = g.job.groups[g.number - 1], m.runs[placement]
    ledger.touch(m, ledger.transaction)
    m.runs[placement] = original, task
    del g.runs[placement]
    original.runs[placement] = m.index
    _forget(g, task)
    g.placed, g.total, original.placed = g.placed - 1, g.total - 1, original.placed + 1
    ledger.fact("promote", placement, m.index, original, task, how)


def remove(ledger: Ledger, g: GroupRow, tasks: Spans) -> None:
    """Remove waiting copies."""
    j, count = g.job, span_count(tasks)
    _forget(g, tasks)
    g.waiting = span_split(g.waiting, tasks)[1]
    g.unplaced, g.total, j.unplaced = g.unplaced - count, g.total - count, j.unplaced - count
    ledger.touch_job(j)
    ledger.fact("unneeded", j.id, g.number, tasks)


def _forget(g: GroupRow, tasks: Spans) -> None:
    keep_losses(g, [loss.of(span_split(loss.tasks, tasks)[1]) for loss in g.losses])

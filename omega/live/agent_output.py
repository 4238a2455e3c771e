"""Output of a task from the files of the agent that has them, for clients on other computers.

A client asks, and looks for the answer until it gives up and reads the stored output instead (`RedisTasks.tail`). Each
function but `agent_part` is one bounded call that does not wait.
"""

import time
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from omega.cellstate import ranges
from omega.cellstate.errors import NotFound
from omega.cellstate.events import Place, parse
from omega.cellstate.executors import simulates
from omega.cellstate.model import MachineState
from omega.cellstate.tasks import OutputPart, OutputRequest
from omega.queries import units
from omega.queries.job_history import job_log
from omega.queries.job_state import gone
from omega.queries.task_results import group_of_output, last_machine

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.tasks import RedisTasks

ANSWER_SECONDS = 2.0
"""Time in which an agent answers; it renews its lease in another thread."""
LOOK_SECONDS = 0.02
"""Time between looks for its answer."""
AWAY, EXPIRED, SIMULATED, NEVER_RAN = "agent away", "expired", "simulated", "not run yet"
"""Why output comes from the store, or is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlace:
    """Where the output of a task is.

    `source` is the group that it was placed in, that of the copies once a copy continued as the task; `agent` the
    mailbox of the agent that has it, None without one, for the reason `why`; `over`: the job has ended. `placement`
    is 0 for the newest one.
    """

    job: str
    source: int
    task: int
    agent: int | None
    over: bool
    placement: int = 0
    submitted_ms: int
    why: str = AWAY


def find_output(cell: "Cell", record: "Job", group: int, task: int, placement: int = 0) -> OutputPlace:
    """Find the output of a task (0: of its newest placement). Raises NotFound for a placement that is not known.

    A `placement` of -1 is the one before the newest.
    """
    source = group_of_output(cell, record, group, task)
    machine: int | None
    if placement:
        source, machine, placement = _earlier(cell, record, (group, source), task, placement)
    else:
        machine = last_machine(cell, record, source, task)
    agent, why = None, NEVER_RAN
    if machine is not None:
        there, why = cell.machines.at([machine]), AWAY
        if there and simulates(there[0].executor):
            why = SIMULATED
        elif there and there[0].state is not MachineState.OFFLINE:
            agent = there[0].executor
    return OutputPlace(
        job=record.id, source=source, task=task, agent=agent, over=gone(record), placement=placement,
        submitted_ms=record.submitted_ms, why=why,
    )  # fmt: skip


def _earlier(cell: "Cell", job: "Job", groups: tuple[int, int], task: int, placement: int) -> tuple[int, int, int]:
    """Return group, machine and id of a placement of a task, from what is kept of the job's past."""
    _, history, read = job_log(cell, job)
    kept = [event for each in history.events for event in parse(each[3])] if history else []
    known = {
        event.placement: (event.group, event.machine)
        for event in (*kept, *(fact.event for fact in read.facts))
        if isinstance(event, Place) and event.job == job.id and event.group in groups
        and task in ranges.indices(event.tasks)
    }  # fmt: skip
    ids = sorted(known)
    if placement == -1:
        placement = ids[-2] if len(ids) > 1 else 0
    if placement not in known:
        which = ", ".join(map(str, ids)) or "none"
        raise NotFound(f"job {job.name}: no such placement of task {task} is known; known are {which}")
    return *known[placement], placement


def ask_agent(tasks: "RedisTasks", place: OutputPlace, stream: str, start: int) -> str | None:
    """Ask the agent for output from a byte on (below 0: from the end); returns the name of the request, if any."""
    if place.agent is None:
        return None
    request = OutputRequest(
        token_hex(8),
        place.job,
        place.source,
        place.task,
        stream,
        start,
        placement=place.placement,
        submitted_ms=place.submitted_ms,
    )
    return request.name if tasks.request_output(place.agent, request) else None


def agent_part(cell: "RedisCell", place: OutputPlace, stream: str, start: int) -> OutputPart | None:
    """Return output from a byte on, from the agent; waits for its answer, None when there is none in time."""
    name = ask_agent(cell.tasks, place, stream, start)
    until = time.monotonic() + ANSWER_SECONDS
    while name is not None and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        if (found := cell.tasks.output_part(name)) is not None:
            return found
    return None


def missing(cut: int, why: str | None, most: int = 0) -> str | None:
    """Return what is missing of output, with its reason; None when nothing is.

    `cut` bytes are missing: before the text, of which only `most` are shown, or (0) in it, since they were dropped;
    `why`: the reason for which the agent did not show it.
    """
    dropped = units.count(cut, "byte")
    at = f"cut at {most >> 10} KiB: {dropped} before it" if most else f"cut: {dropped} of the middle"
    return "; ".join(each for each in (why, at if cut else None) if each) or None

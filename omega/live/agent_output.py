"""Output of a task from the files of the agent that has them, for clients on other computers.

Each function is one bounded call that does not wait: a client asks, and looks for the answer until it gives up and
reads the stored output instead (`Queries.tail`).
"""

from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from omega.cellstate.executors import simulates
from omega.cellstate.task_output import OutputRequest
from omega.live.task_log import task_of
from omega.queries.job_state import ended
from omega.queries.jobs import find_job
from omega.queries.task_results import group_of_output, last_machine

if TYPE_CHECKING:
    from omega.cellstate.ports import JobStore

ANSWER_SECONDS = 2.0
"""Time in which an agent answers; it renews its lease in another thread."""


class OutputPlace(NamedTuple):
    """Where the output of a task is.

    `source` is the group that it was placed in, that of the copies once a copy continued as the task; `agent` the
    mailbox of the agent that ran it last, None without one; `over`: the job has ended.
    """

    job: str
    source: int
    task: int
    agent: int | None
    over: bool


def find_output(
    cell: "JobStore", job: str, task: int, *, group: str | None, generation: int | None, index: int | None
) -> OutputPlace:  # fmt: skip
    """Find the output of a task, which is named as in `TaskLog.of`. Raises Refused."""
    record = find_job(cell, job)
    number, task = task_of(record, task, group, generation, index)
    source = group_of_output(cell, record, number, task)
    machine = last_machine(cell, record, source, task)
    there = cell.machines_at([machine]) if machine is not None else []
    agent = there[0].executor if there and not simulates(there[0].executor) else None
    return OutputPlace(record.id, source, task, agent, ended(record))


def ask_agent(cell: "JobStore", place: OutputPlace, stream: str, start: int) -> str | None:
    """Ask the agent for output from a byte on (below 0: from the end); returns the name of the request, if any."""
    if place.agent is None:
        return None
    request = OutputRequest(token_hex(8), place.job, place.source, place.task, stream, start)
    return request.name if cell.request_output(place.agent, request) else None

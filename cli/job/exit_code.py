"""The exit code of `omega job run`: that of the first of its tasks that failed.

As in shells: 128 plus the signal's number for a signal, 127 for an unknown command, 126 for one that cannot be run, 124
for a time limit (as ``timeout``). A task without an exit code (stopped, abandoned, lost) counts as 1.
"""

import re
import signal
from typing import TYPE_CHECKING

from omega.cellstate import ranges
from omega.live.waiting import OTHERWISE, exit_status
from omega.queries.events import events, extent, since_time
from omega.queries.job_state import state

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries

_EXIT = re.compile(r"exit (\d+)", re.ASCII)
_KILLED = re.compile(r"killed by (?:signal (\d+)|(SIG\w+))", re.ASCII)
_CODES = {
    "command not found: ": 127,
    "not executable: ": 126,
    "cannot run ": 126,
    "time limit ": 124,
    "out of memory ": 137,
}


def code_of(reason: str) -> int:
    """Return the exit code that the reason of a failed task stands for; never 0."""
    if found := _EXIT.match(reason):
        return min(int(found[1]), 255) or OTHERWISE
    if found := _KILLED.match(reason):
        number = int(found[1]) if found[1] else getattr(signal, found[2], 0)
        return 128 + int(number) if 0 < number < 128 else OTHERWISE
    return next((code for start, code in _CODES.items() if reason.startswith(start)), OTHERWISE)


def exit_code(cell: "Queries", job: "Job") -> int:
    """Return 0 when all of a job finished, else the code of the first task, by group and index, that failed."""
    if state(job) != "failed":
        return exit_status([job])
    kept = extent(cell)
    failed = (
        ((event.more["group"], ranges.indices(event.more["tasks"])[0]), event.more.get("reason", ""))
        for event in events(cell, since_time(cell, job.submitted_ms, kept), kept.newest)
        if event.job == job.id and event.kind == "failed"
    )
    first = min(failed, default=None)
    return OTHERWISE if first is None else code_of(first[1])

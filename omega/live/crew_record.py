"""The processes that `omega up` started, on disk: so that `omega down` finds them when `omega up` was killed.

One file for each `omega up`, in the state directory: ``up/CELL.PID``. A process is its id, the time it started and the
boot of the computer, so none is mistaken for another one that got its id later.
"""

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from omega.live.agent.kept import Kept
from omega.live.agent.lease_file import held, write
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process_tree import processes, send, started

BOOT = Path("/proc/sys/kernel/random/boot_id")
OWNER = "up"
PAUSE_SECONDS = 0.05
LEAVING_SECONDS = 30.0
"""How long a process may take for leaving: an agent ends its tasks first. It is killed after that."""


class Recorded(NamedTuple):
    """A process of a record; `member` is ``batch/0``, ``agent/NAME`` and so on, or ``up`` for `omega up` itself."""

    member: str
    pid: int
    started: str

    @property
    def lives(self) -> bool:
        """Whether this very process runs."""
        found = processes().get(self.pid)
        return found is not None and found.started == self.started and not found.ended


@dataclass(frozen=True, slots=True)
class CrewRecord:
    """The record of one `omega up` at `path`."""

    path: Path
    cell: str

    @classmethod
    def begin(cls, state: Path, cell: str) -> "CrewRecord":
        """Begin the record of this process. Raises OSError."""
        (state / "up").mkdir(mode=0o700, parents=True, exist_ok=True)
        made = cls(state / "up" / f"{cell}.{os.getpid()}", cell)
        made.note({OWNER: os.getpid()})
        return made

    def note(self, pids: dict[str, int]) -> None:
        """Record the present processes by member."""
        pids = {OWNER: os.getpid(), **pids}
        found = [Recorded(member, pid, started(pid)) for member, pid in pids.items()]
        write(self.path, json.dumps({"boot": _boot(), "processes": found}))

    def living(self) -> list[Recorded]:
        """Those of its processes that run."""
        try:
            said = json.loads(self.path.read_text("utf-8"))
            found = [Recorded(*each) for each in said["processes"]] if said["boot"] == _boot() else []
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [each for each in found if each.lives]

    def agents(self) -> list[str]:
        """The names of its agents, living or not."""
        try:
            members = [each[0] for each in json.loads(self.path.read_text("utf-8"))["processes"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [member.partition("/")[2] for member in members if member.startswith("agent/")]

    def end(self) -> None:
        """Remove the record: nothing is left of what it names."""
        self.path.unlink(missing_ok=True)


def _boot() -> str:
    with suppress(OSError):
        return BOOT.read_text("utf-8").strip()
    return ""


def records(state: Path, cell: str | None) -> Iterator[CrewRecord]:
    """The records of a cell, or of all cells, in a state directory."""
    place = state / "up"
    for path in sorted(place.iterdir()) if place.is_dir() else []:
        name, _, pid = path.name.rpartition(".")
        if pid.isdigit() and cell in (None, name):
            yield CrewRecord(path, name)


def end_all(record: CrewRecord, state: Path) -> list[tuple[Recorded, bool]]:
    """End what a record names: `omega up` first, which ends the others, then who is left, then tasks left behind.

    Returns each process with whether it had to be killed.
    """
    there = record.living()
    killed = _end([each for each in there if each.member == OWNER])
    killed |= _end([each for each in record.living() if each.member != OWNER])
    for name in record.agents():
        _end_tasks(AgentPlaces(state, record.cell, name))
    record.end()
    return [(each, each in killed) for each in there]


def _end(members: Sequence[Recorded]) -> set[Recorded]:
    """Ask processes to leave; returns those that had to be killed."""
    for each in members:
        send(each.pid, each.started, signal.SIGTERM)
        send(each.pid, each.started, signal.SIGCONT)
    deadline = time.monotonic() + LEAVING_SECONDS
    while time.monotonic() < deadline:
        if not any(each.lives for each in members):
            return set()
        time.sleep(PAUSE_SECONDS)
    late = {each for each in members if each.lives}
    for each in late:
        send(each.pid, each.started, signal.SIGKILL)
    return late


def _end_tasks(places: AgentPlaces) -> None:
    """End the tasks of an agent that no longer lives: their supervisors would run them until the lease ends."""
    if held(places.top / "lock"):
        return  # another one was started under this name since
    kept = [Kept(key, places.task(key)) for key in places.found()]
    deadline = time.monotonic() + LEAVING_SECONDS
    while (left := [each for each in kept if each.lives]) and time.monotonic() < deadline:
        for each in left:
            each.stop()
        time.sleep(PAUSE_SECONDS)

"""Record on disk of the processes that `omega up` started, so that `omega down` finds them when it was killed.

One file per `omega up` in the state directory, ``up/CELL.PID``, names the process and, before each is started, its
members. The members themselves say to which record they belong, by the last words of their command line: there is no
moment in which one runs and is not found. A process is identified by id, start time and boot of the computer, so that
a reused id is not mistaken for it.
"""

import json
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from omega.file_lock import held
from omega.live.agent.kept import Kept
from omega.live.agent.lease_file import write
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process_tree import command_lines, processes, send, started
from omega.live.processes.bound import LEAVING_SECONDS

BOOT = Path("/proc/sys/kernel/random/boot_id")
OWNER = "up"
PAUSE_SECONDS = 0.05
OWNER_SECONDS = 5.0
"""Time beyond that of its members for `omega up`, which ends them."""


class Recorded(NamedTuple):
    """A process of a record; `member` is ``batch/0``, ``agent/NAME`` and so on, or ``up`` for `omega up` itself."""

    member: str
    pid: int
    started: str

    @property
    def lives(self) -> bool:
        """Return whether this process still runs."""
        process = processes().get(self.pid)
        return process is not None and process.started == self.started and not process.ended


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """The record of one `omega up` at `path`."""

    path: Path
    cell: str

    @classmethod
    def begin(cls, state: Path, cell: str) -> "ProcessRecord":
        """Start the record of this process. Raises OSError."""
        (state / "up").mkdir(mode=0o700, parents=True, exist_ok=True)
        made = cls(state / "up" / f"{cell}.{os.getpid()}", cell)
        made.note(())
        return made

    def note(self, members: Iterable[str]) -> None:
        """Record the members of this process. Call it before one is started."""
        own = Recorded(OWNER, os.getpid(), started(os.getpid()))
        write(self.path, json.dumps({"boot": _boot(), "owner": own, "members": sorted(members)}))

    def words(self, member: str) -> tuple[str, str]:
        """Return the last words of a member's command line, by which it is found."""
        return member, str(self.path)

    def _read(self) -> tuple[str, Recorded | None, list[str]]:
        """Return boot, owner and members of the record; none of a file that cannot be read."""
        try:
            document = json.loads(self.path.read_text("utf-8"))
            return document["boot"], Recorded(*document["owner"]), list(document["members"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", None, []

    def living(self) -> list[Recorded]:
        """Return the processes of the record that still run, `omega up` itself first.

        A scheduler's process, which has the words of the one that watches it, ends with that.
        """
        boot, owner, _ = self._read()
        there = [owner] if owner is not None and boot == _boot() and owner.lives else []
        running, found = processes(), dict[int, str]()
        for pid, words in sorted(command_lines()):
            if words[1:2] == ["-m"] and words[4:] == [str(self.path)]:  # as `ProcessSupervisor.start` writes them
                found[pid] = words[3]
        for pid, member in found.items():
            watched = pid in running and found.get(running[pid].parent) == member
            each = Recorded(member, pid, started(pid))
            there += [each] if each.lives and not watched else []
        return there

    def agents(self) -> list[str]:
        """Return the names of its agents, running or not."""
        return [member.partition("/")[2] for member in self._read()[2] if member.startswith("agent/")]

    def end(self) -> None:
        """Remove the record; call it when all recorded processes have ended."""
        self.path.unlink(missing_ok=True)


def _boot() -> str:
    with suppress(OSError):
        return BOOT.read_text("utf-8").strip()
    return ""


def records(state: Path, cell: str | None) -> Iterator[ProcessRecord]:
    """Yield the records of a cell, or of all cells, in a state directory."""
    place = state / "up"
    for path in sorted(place.iterdir()) if place.is_dir() else []:
        name, _, pid = path.name.rpartition(".")
        if pid.isdigit() and cell in (None, name):
            yield ProcessRecord(path, name)


def end_all(record: ProcessRecord, state: Path) -> list[tuple[Recorded, bool]]:
    """End a record's processes: `omega up` first, which ends the others, then remaining ones and their tasks.

    Returns each process and whether it had to be killed.
    """
    there = record.living()
    killed = _end([each for each in there if each.member == OWNER], LEAVING_SECONDS + OWNER_SECONDS)
    killed |= _end([each for each in record.living() if each.member != OWNER], LEAVING_SECONDS)
    for name in record.agents():
        _end_tasks(AgentPlaces(state, record.cell, name))
    record.end()
    return [(each, each in killed) for each in there]


def _end(members: Sequence[Recorded], seconds: float) -> set[Recorded]:
    """Ask processes to leave and kill late ones; returns the killed ones."""
    for each in members:
        send(each.pid, each.started, signal.SIGTERM)
        send(each.pid, each.started, signal.SIGCONT)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(each.lives for each in members):
            return set()
        time.sleep(PAUSE_SECONDS)
    late = {each for each in members if each.lives}
    for each in late:
        send(each.pid, each.started, signal.SIGKILL)
    return late


def _end_tasks(places: AgentPlaces) -> None:
    """End the tasks of an ended agent, which their supervisors would otherwise run until the lease ends."""
    if held(places.top / "lock"):
        return  # another agent of this name was started since
    kept = [Kept(key, places.task(key)) for key in places.task_keys()]
    deadline = time.monotonic() + LEAVING_SECONDS
    while (left := [each for each in kept if each.lives]) and time.monotonic() < deadline:
        for each in left:
            each.stop()
        time.sleep(PAUSE_SECONDS)

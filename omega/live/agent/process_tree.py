"""The processes of this computer: their descent, and termination of complete trees.

A process id may be reused at any time, so a process is identified by its id and its start time.
Standard library only.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
ROUNDS, PAUSE_SECONDS = 50, 0.002
"""Number of reads of a tree that keeps forking, and the wait for killed processes between two reads."""


class ProcessInfo(NamedTuple):
    """One process; `started` is opaque text to compare, `ended` marks a zombie."""

    parent: int
    group: int
    session: int
    started: str
    ended: bool


Table = Mapping[int, ProcessInfo]


def started(pid: int) -> str:
    """Return a process's start time as opaque text; empty when it does not exist."""
    if (PROC / "self/stat").exists():
        process = _read(pid)
        return process.started if process else ""
    return subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], check=False, capture_output=True, text=True
    ).stdout.strip()


def children() -> set[int] | None:
    """Return the ids of this process's children, of its only thread; None where the system does not list them.

    An empty answer is sure, another one may lack a child while a sibling of it ends (proc(5)). Without children nothing
    is below a process that adopts what its descendants leave behind.
    """
    try:
        return set(map(int, (PROC / f"self/task/{os.getpid()}/children").read_text().split()))
    except (OSError, ValueError):
        return None


def processes() -> Table:
    """Return every process of this computer by id."""
    if not (PROC / "self/stat").exists():
        return _from_ps()
    entries = ((int(each.name), _read(int(each.name))) for each in PROC.iterdir() if each.name.isdigit())
    return {pid: process for pid, process in entries if process is not None}


def _read(pid: int) -> ProcessInfo | None:
    try:
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return ProcessInfo(int(fields[1]), int(fields[2]), int(fields[3]), fields[19], fields[0] in "ZX")
    except (OSError, IndexError):
        return None


def _from_ps() -> Table:
    """As `processes`, for systems without /proc; the session is unavailable and set to the group."""
    listed = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart="], check=False, capture_output=True, text=True
    ).stdout
    rows = (line.split(None, 4) for line in listed.splitlines())
    return {
        int(pid): ProcessInfo(int(parent), int(group), int(group), since.strip(), state.startswith("Z"))
        for pid, parent, group, state, since in rows
    }


def below(roots: Iterable[int], table: Table) -> set[int]:
    """Return the ids of all descendants of some processes, without the processes themselves."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    descendants, waiting = set[int](), list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in descendants:
                descendants.add(child)
                waiting.append(child)
    return descendants


def marked(mark: bytes) -> set[int]:
    """Return the processes with ``NAME=value`` in their environment, as far as readable."""
    return {pid for place in PROC.glob("[0-9]*") if has_mark(pid := int(place.name), mark)}


def has_mark(pid: int, mark: bytes) -> bool:
    """Return whether a process has ``NAME=value`` in its environment; no for one that cannot be read."""
    try:
        return mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def command_lines() -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the words of each process's command line, which also those that hide their memory show."""
    if not (PROC / "self/stat").exists():
        listed = subprocess.run(["ps", "-axwwo", "pid=,args="], check=False, capture_output=True, text=True).stdout
        yield from ((int(pid), words) for pid, *words in map(str.split, listed.splitlines()))
        return
    for place in PROC.glob("[0-9]*"):
        with suppress(OSError):
            yield int(place.name), (place / "cmdline").read_text(errors="surrogateescape").rstrip("\0").split("\0")


def send(pid: int, since: str, number: signal.Signals) -> None:
    """Send a signal to the process with this id and start time only."""
    with suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            if started(pid) == since:
                os.kill(pid, number)
            return
        handle = os.pidfd_open(pid)
        try:
            if started(pid) == since:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def kill_all(find: Callable[[Table], set[int]]) -> bool:
    """Kill the processes that `find` selects from a table, even if they fork; returns whether none is left.

    They are stopped first and then killed together, so that none can start an unseen child.
    """
    for _ in range(ROUNDS):
        halted: dict[int, str] = {}
        for _ in range(ROUNDS):
            table = processes()
            new = {
                pid: table[pid].started
                for pid in find(table) - halted.keys() - {os.getpid()}
                if pid in table and not table[pid].ended
            }
            if not new:
                break
            for pid, since in new.items():
                send(pid, since, signal.SIGSTOP)
            halted |= new
        if not halted:
            return True
        for pid, since in halted.items():
            send(pid, since, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)
    return False


def kill_cgroup(place: str) -> None:
    """Kill all processes of a cgroup at once, with cgroups of version 2 (Linux 5.14 and later)."""
    if place:
        with suppress(OSError):
            (Path(place) / "cgroup.kill").write_text("1")

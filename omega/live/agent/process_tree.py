"""The processes of this computer: their descent, and termination of complete trees.

A process id may be reused at any time, so a process is identified by its id and its start time.
Standard library only.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from omega.cellstate.descriptors import with_spare

PROC = Path("/proc")
LISTED = (PROC / f"self/task/{os.getpid()}/children").exists()
"""Whether the system lists the children of a process (CONFIG_PROC_CHILDREN); otherwise all processes are read."""
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
        process = read_process(pid)
        return process.started if process else ""
    return subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], check=False, capture_output=True, text=True
    ).stdout.strip()


def children() -> set[int]:
    """Return the ids of this process's children, ended ones that it did not wait for included.

    It has one thread, so none of them leaves the kernel's list while that is read: the answer is sure.
    """
    if LISTED:
        return _children(os.getpid())
    return {pid for pid, each in processes().items() if each.parent == os.getpid()}


def _children(pid: int) -> set[int]:
    """Return the children of a process. One may lack while a sibling of it ends, unless the process is halted."""
    found, place = set[int](), f"{PROC}/{pid}/task"

    def read() -> None:
        for thread in os.listdir(place):  # noqa: PTH208 - Path takes twice the time
            with open(f"{place}/{thread}/children") as file:  # noqa: PTH123
                found.update(map(int, file.read().split()))

    with suppress(OSError):
        with_spare(read)
    return found


def tree(roots: Iterable[int]) -> Table:
    """Return some processes and all below them, without reading other processes where the system lists children."""
    if not LISTED:
        table = processes()
        wanted = {*roots}
        return {pid: table[pid] for pid in wanted | below(wanted, table) if pid in table}
    found, waiting = dict[int, ProcessInfo](), list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found and (process := read_process(pid)) is not None:
            found[pid] = process
            waiting += _children(pid)
    return found


def processes() -> Table:
    """Return every process of this computer by id."""
    if not (PROC / "self/stat").exists():
        return _from_ps()
    entries = ((int(each.name), read_process(int(each.name))) for each in PROC.iterdir() if each.name.isdigit())
    return {pid: process for pid, process in entries if process is not None}


def read_process(pid: int) -> ProcessInfo | None:
    """Return a process; None when it does not exist."""
    try:
        text = with_spare(lambda: (PROC / str(pid) / "stat").read_text(errors="replace"))
        fields = text.rpartition(")")[2].split()
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


def label(place: Path | str) -> int:
    """Return the soft limit RLIMIT_RSS that all processes of a task have, by which each is known whatever it changed.

    The limit has had no effect since Linux 2.4.30 (getrlimit(2)). It passes to children and through other programs,
    sessions, users and empty environments; any process may read that of one of its own user.
    """
    return 1 << 61 | int.from_bytes(str(place).encode(), "big") % ((1 << 61) - 1)  # a prime


def set_label(value: int) -> None:
    """Give this process a label. None where the hard limit is lower."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RSS, (value, resource.getrlimit(resource.RLIMIT_RSS)[1]))


def labelled(pid: int) -> int:
    """Return the label of a process, also of an ended one that was not waited for; 0 where it cannot be read."""
    try:
        return resource.prlimit(pid, resource.RLIMIT_RSS)[0]
    except (AttributeError, OSError, ValueError):
        return 0


def marked(mark: bytes) -> set[int]:
    """Return the processes with ``NAME=value`` in their environment, as far as readable."""
    return {pid for place in PROC.glob("[0-9]*") if has_mark(pid := int(place.name), mark)}


def has_mark(pid: int, mark: bytes) -> bool:
    """Return whether a process has ``NAME=value`` in its environment; no for one that cannot be read."""
    return mark in environment(pid)


def environment(pid: int) -> set[bytes]:
    """Return the environment of a process, in which it began; empty for one that cannot be read."""
    try:
        return set((PROC / str(pid) / "environ").read_bytes().split(b"\0")) - {b""}
    except OSError:
        return set()


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


def kill_all(find: Callable[[Table], set[int]], read: Callable[[], Table] = processes) -> bool:
    """Kill the processes that `find` selects from a table, even if they fork; returns whether none is left.

    They are stopped first and then killed together, so that none can start an unseen child. `read` returns the table.
    """
    for _ in range(ROUNDS):
        halted: dict[int, str] = {}
        for _ in range(ROUNDS):
            table = read()
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


def kill_trees(roots: Callable[[], Iterable[int]]) -> bool:
    """Kill some processes with all below them, reading no others; returns whether none is left."""
    return kill_all(set, lambda: tree(roots()))


def kill_cgroup(place: str) -> None:
    """Kill all processes of a cgroup at once, with cgroups of version 2 (Linux 5.14 and later)."""
    if place:
        with suppress(OSError):
            (Path(place) / "cgroup.kill").write_text("1")

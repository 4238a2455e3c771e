"""The guard of one machine: a process apart from the agent that starts task supervisors and holds their deadlines.

It is the parent of every supervisor it starts and adopts the processes of a killed supervisor. When the lease ends
it kills whole process trees, also those of supervisors that stand still (semantics 28). It outlives its agent for as
long as tasks run; a restarted agent starts another guard, which watches the tasks of both. When a guard is
killed the agent starts another one, or without an agent a supervisor does.

The agent sends lines of JSON through a socket: ``{"start": DIRECTORY, "store": URL}`` and ``{"ping": true}``. It
receives ``{"started": DIRECTORY, "pid": N}``, ``{"refused": DIRECTORY, "why": …}``, ``{"pong": true}`` and
``{"ended": DIRECTORY}``. Standard library only.
"""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omega.file_lock import held, take_lock
from omega.live.agent.lease_file import KILLED, Lease, now, read_lease
from omega.live.agent.process_control import adopt_orphans, hide_memory, name_process
from omega.live.agent.process_tree import Table, below, kill_all, kill_cgroup, marked, processes
from omega.live.agent.supervisor import supervise
from omega.live.agent.task_start import MARK, clean_up

SCAN_SECONDS = 1.0
"""Interval of the search for tasks that another guard started, and of recording their processes."""
SOON_SECONDS = 0.05
LOCK = "guard.lock"
"""Held as a shared lock by all running guards of a machine."""
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
"""A guard ends when no task runs; an orderly shutdown stops the agent."""
MOST_DESCRIPTORS = 64
"""A supervisor has about ten open."""


def mark(place: Path) -> bytes:
    """Return the environment entry that identifies a task's processes: the task's own directory."""
    return f"{MARK}={place}".encode()


def task_group(place: Path, table: Table) -> set[int]:
    """Return the processes of a task's original session and group, unless their ids were reused."""
    try:
        group, since, _ = (place / "running").read_text().split()
    except (OSError, ValueError):
        return set()
    leader = table.get(int(group))
    if leader is not None and leader.started != since:
        return set()
    return {pid for pid, each in table.items() if int(group) in (each.group, each.session)}


@dataclass(slots=True)
class Foreign:
    """A task with a supervisor that is not a child of this guard; `seen` are its processes: id → start."""

    order: dict[str, Any]
    seen: dict[int, str] = field(default_factory=dict)

    def tree(self, place: Path, supervisor: int, table: Table, known: AbstractSet[int] = frozenset()) -> set[int]:
        """Return its processes, the supervisor apart: those seen, in its group or `known`, and all below them."""
        roots = {pid for pid, since in self.seen.items() if pid in table and table[pid].started == since}
        roots |= task_group(place, table) | (known & table.keys())
        return below({*roots, supervisor} - {0}, table) | roots - {supervisor}


class Guard:
    """Watches the tasks in `top`/tasks. `channel` leads to the agent; None for a guard that a supervisor started."""

    def __init__(self, top: Path, channel: socket.socket | None, lock: int) -> None:
        self.top, self.channel, self.lock = top, channel, lock
        self.own: dict[int, Path] = {}
        self.orders: dict[Path, dict[str, Any]] = {}
        self.foreign: dict[Path, Foreign] = {}
        self.over: set[tuple[str, int]] = set()
        """Tasks that ended, by directory and time of their order: a name may be used again."""
        self.deadlines: dict[str, Lease] = {}
        """The last lease seen, by incarnation."""
        self.cleaning: dict[Path, subprocess.Popen[bytes]] = {}
        """Running clean-ups after runners of tasks that were killed."""
        self.scanned, self.unread = 0.0, b""
        self.wakes, self.waker = socket.socketpair()
        for end in (self.wakes, self.waker):
            end.setblocking(False)

    def run(self) -> None:
        """Watch until the agent is gone and all tasks have ended."""
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        while True:
            due = self.enforce()
            self._reap()
            if now() - self.scanned >= SCAN_SECONDS:
                self._scan()
            if self.channel is None and not self.own and (not self.foreign or self._relieved()):
                return
            heard = [self.wakes, *([self.channel] if self.channel is not None else [])]
            # The signal may end a long halt of this process: the next round checks deadlines first.
            ready, _, _ = select.select(heard, [], [], max(0.0, min(due, self.scanned + SCAN_SECONDS) - now()))
            if self.wakes in ready:
                with suppress(BlockingIOError):
                    self.wakes.recv(4096)
            if self.channel in ready:
                self._hear()

    # Deadlines

    def enforce(self) -> float:
        """Kill tasks without a lease; returns when to check again, by the clock of `now`."""
        lease_now = read_lease(self.top / "lease")
        if lease_now.incarnation:
            self.deadlines[lease_now.incarnation] = lease_now
        at, due = now(), float("inf")
        for pid, place in list(self.own.items()):
            lease = self._lease(self.orders[place])
            if lease.end <= at:
                self._kill(place, self.orders[place], lambda table, pid=pid: below([pid], table))
                due = min(due, at + SOON_SECONDS)
                if lease.last <= at:
                    os.kill(pid, signal.SIGKILL)
            due = min(due, max(lease.end, at + SOON_SECONDS))
        for place, task in list(self.foreign.items()):
            lease = self._lease(task.order)
            if lease.end <= at:
                self._kill_foreign(place, task, supervisor_too=lease.last <= at)
            due = min(due, max(lease.end, at + SOON_SECONDS))
        return due

    def _lease(self, order: dict[str, Any]) -> Lease:
        return self.deadlines.get(str(order["incarnation"]), Lease(0.0, 0.0, ""))

    def _kill(self, place: Path, order: dict[str, Any], find: Any) -> None:
        with suppress(OSError):
            (place / KILLED).touch()  # the supervisor may see it when the lease has been renewed
        kill_cgroup(order["cgroup"])
        kill_all(find)
        self._clean_up(place, order)

    def _clean_up(self, place: Path, order: dict[str, Any]) -> None:
        """Start the clean-up of a task's runner, if it has one that does not run; nothing here waits for its end."""
        running = self.cleaning.get(place)
        if running is None or running.poll() is not None:
            with suppress(OSError, subprocess.SubprocessError):
                started = clean_up(order)
                if started is not None:
                    self.cleaning[place] = started

    def _kill_foreign(self, place: Path, task: Foreign, *, supervisor_too: bool) -> None:
        """Kill the tree of a task of another guard: the supervisor's descendants and its recorded processes."""
        alive = held(place / "lock")
        supervisor = _number(place / "supervisor") if alive else 0
        known = marked(mark(place)) - {supervisor}

        self._kill(place, task.order, lambda table: task.tree(place, supervisor, table, known))
        if alive and supervisor_too and supervisor:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(supervisor, signal.SIGKILL)
        if not alive:
            self._forget(place)

    # Supervisors

    def _reap(self) -> None:
        """Record supervisors that ended, and kill the processes that this one inherited from them."""
        ended = self._reap_children()
        table = processes() if ended else {}
        spared = self.own.keys() | {each.pid for each in self.cleaning.values()}
        if any(each.parent == os.getpid() and pid not in spared for pid, each in table.items()):
            for place in ended:
                kill_cgroup(self.orders[place]["cgroup"])
            kill_all(lambda table: below([os.getpid()], table) - spared - below(spared, table))
            ended += self._reap_children()
        for place in ended:
            order = self.orders.pop(place)
            if not _number(place / "result"):  # its supervisor was killed
                self._clean_up(place, order)
            self._say({"ended": str(place)})

    def _reap_children(self) -> list[Path]:
        ended = []
        with suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                if pid in self.own:
                    ended.append(self.own.pop(pid))
            # Popen finds an ended child reaped and counts it as ended.
        self.cleaning = {place: each for place, each in self.cleaning.items() if each.poll() is None}
        return ended

    def _start(self, place: Path, store: str) -> dict[str, Any]:
        try:
            order = json.loads((place / "order.json").read_text())
            lock = take_lock(place / "lock")
        except (OSError, ValueError) as error:
            return {"refused": str(place), "why": str(error)}
        if lock is None:
            return {"refused": str(place), "why": "its lock is held"}
        (place / KILLED).unlink(missing_ok=True)
        parent = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            pid = os.fork()
            if pid == 0:
                self._be_supervisor(place, store, parent, lock)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            os.close(lock)
        self.own[pid], self.orders[place] = place, order
        return {"started": str(place), "pid": pid}

    def _be_supervisor(self, place: Path, store: str, guard: int, lock: int) -> None:
        """Become the supervisor of a task in a forked process; never returns."""
        try:
            os.setsid()
            top = self.top
            self._close()
            for number in IGNORED:
                signal.signal(number, signal.SIG_DFL)
            supervise(place, store, lambda: replace(top, lock), guard)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing may return into the guard's own loop
            traceback.print_exc()
            os._exit(1)

    def _close(self) -> None:
        """Close what belongs to the guard alone, in a process forked from it."""
        signal.set_wakeup_fd(-1)
        for each in (self.wakes, self.waker, self.channel):
            if each is not None:
                each.close()
        os.close(self.lock)

    # Tasks of other guards

    def _scan(self) -> None:
        """Find tasks that run without being started here, and record which processes they have."""
        self.scanned = now()
        own = set(self.own.values())
        with suppress(OSError):
            for entry in os.scandir(self.top / "tasks"):
                place = Path(entry.path)
                with suppress(OSError, ValueError):
                    if place in own or place in self.foreign or _life(place) in self.over:
                        continue
                    if (place / "lock").exists():  # otherwise it was not started
                        self.foreign[place] = Foreign(json.loads((place / "order.json").read_text()))
        if not self.foreign:
            return
        table = processes()
        for place, task in list(self.foreign.items()):
            if not held(place / "lock"):
                if _number(place / "result") or (place / "told").exists():
                    self._forget(place)
                else:
                    self._kill_foreign(place, task, supervisor_too=False)
                continue
            tree = task.tree(place, _number(place / "supervisor"), table)
            task.seen = {pid: table[pid].started for pid in tree if pid in table}

    def _forget(self, place: Path) -> None:
        self.foreign.pop(place, None)
        with suppress(OSError):
            self.over.add(_life(place))

    def _relieved(self) -> bool:
        """Return whether another guard watches the same tasks."""
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self.lock, fcntl.LOCK_SH)
        return False

    # The agent

    def _hear(self) -> None:
        """Execute the agent's requests; a closed channel means that the agent ended."""
        if self.channel is None:
            return
        try:
            data = self.channel.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.channel.close()
            self.channel = None
            return
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "start" in asked:
                self._say(self._start(Path(asked["start"]), asked["store"]))
            else:
                self._say({"pong": True})

    def _say(self, what: dict[str, Any]) -> None:
        if self.channel is not None:
            with suppress(OSError):  # a halted agent must not block its guard
                self.channel.send(json.dumps(what).encode() + b"\n", socket.MSG_DONTWAIT)


def _life(place: Path) -> tuple[str, int]:
    return place.name, (place / "order.json").stat().st_mtime_ns


def _number(path: Path) -> int:
    """Return the number in a file; 1 for other text, 0 without a file."""
    try:
        text = path.read_text().strip()
    except (OSError, ValueError):
        return 0
    return int(text) if text.isdigit() else int(bool(text))


def replace(top: Path, task_lock: int) -> int:
    """Fork a guard from a supervisor, unless the machine has one; returns its process id, or 0.

    It gives up `task_lock` and all other descriptors of the supervisor, which it may outlive.
    """
    lock = take_lock(top / LOCK)
    if lock is None:
        return 0
    pid = os.fork()
    if pid:
        os.close(lock)
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.closerange(3, lock)
        os.closerange(lock + 1, max(lock, task_lock) + MOST_DESCRIPTORS)
        be_guard(top, None, lock)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - nothing may return into the supervisor's loop
        traceback.print_exc()
        os._exit(1)


def be_guard(top: Path, channel: socket.socket | None, lock: int) -> None:
    """Run a guard until all tasks have ended."""
    hide_memory()
    name_process("omega-guard")
    adopt_orphans()
    fcntl.flock(lock, fcntl.LOCK_SH)
    Guard(top, channel, lock).run()


def main(top: str, channel: str) -> None:
    """Run the guard that an agent started; `channel` is the socket's descriptor number."""
    place = Path(top)
    lock = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    be_guard(place, socket.socket(fileno=int(channel)), lock)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The guard of one machine: a process apart from the agent that starts task supervisors and holds their deadlines.

It is the parent of every supervisor it starts and adopts the processes of a killed supervisor. When the lease ends
it kills whole process trees, also those of supervisors that stand still (semantics 28). It outlives its agent for as
long as tasks run; a restarted agent starts another guard, which watches the tasks of both. When a guard is
killed the agent starts another one, or without an agent a supervisor does.

A supervisor has at most `MOST_TASKS` tasks, all of one incarnation of the agent. It gets lines of JSON with the task's
lock, ``{"start": DIRECTORY, "store": URL}``, and says ``{"ended": DIRECTORY, "unfit": BOOLEAN}``: whether the machine
could not start it.

The agent sends lines of JSON through a socket: ``{"start": DIRECTORY, "store": URL}``, ``{"try": true}`` and
``{"ping": true}``. It receives ``{"started": DIRECTORY}``, ``{"refused": DIRECTORY, "why": …}``, ``{"tried": WHY}``,
``{"pong": true}`` and ``{"ended": DIRECTORY}``. Standard library only.
"""

import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omega.cellstate.descriptors import keep_spare
from omega.file_lock import held, take_lock
from omega.live.agent.lease_file import KILLED, Lease, now, read_lease
from omega.live.agent.process_control import adopt_orphans, hide_memory, name_process
from omega.live.agent.process_tree import (
    Table,
    below,
    children,
    environment,
    kill_all,
    kill_cgroup,
    kill_trees,
    label,
    labelled,
    processes,
    tree,
)
from omega.live.agent.supervisor import supervise
from omega.live.agent.task_start import CLEAN_SECONDS, MARK, clean_up, end_clean_up

SCAN_SECONDS = 1.0
"""Interval of the search for tasks that another guard started."""
LOOK_SECONDS = 5.0
"""Interval in which it looks which of those have ended, while an agent lives."""
SOON_SECONDS = 0.05
MOST_TASKS = 32
"""Tasks of a supervisor: as many are lost with it, and share its memory of some 8 MB."""
DESCRIPTORS = 10
"""Descriptors that the start of a task needs here and in its supervisor, with some to spare."""
SENDS = 3
"""Supervisors that a task is sent to, of which the first may just have been killed."""
HALT_SECONDS, SOON_AGAIN_SECONDS, MOST_HALTS = 3.0, 60.0, 3
"""A supervisor that stands still for so long is resumed; one that does so again within a minute, so many times."""
LOCK = "guard.lock"
"""Held as a shared lock by all running guards of a machine."""
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
"""A guard ends when no task runs; an orderly shutdown stops the agent."""
MOST_DESCRIPTORS = 1 << 16
GRAIN_NS = 1_000_000_000
"""Bound of the grain of a file system's times."""


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


def kill_tasks(places: Sequence[Path], supervisors: AbstractSet[int] = frozenset()) -> bool:
    """Kill the processes of tasks: with their labels or marks, in their groups, below `supervisors`, and all below.

    The supervisors themselves stay.
    """
    labels, marks = {label(place) for place in places}, {mark(place) for place in places}
    known = {pid for pid in processes() if labelled(pid) in labels or marks & environment(pid)} - {os.getpid()}

    def find(table: Table) -> set[int]:
        roots = {pid for pid in table if pid in known or labelled(pid) in labels}
        roots = roots.union(*(task_group(place, table) for place in places))
        return (below({*roots, *supervisors} - {0}, table) | roots) - supervisors

    return kill_all(find)


@dataclass(slots=True)
class Helper:
    """A supervisor that this guard started, and its tasks with their orders."""

    pid: int
    line: socket.socket
    incarnation: str
    tasks: dict[Path, dict[str, Any]] = field(default_factory=dict)
    alone: bool = False
    """Whether it takes no further task."""
    halted: float = 0.0
    """Since when it stands still; 0 while it does not."""
    halts: int = 0
    """How often it was resumed, one soon after the other."""
    resumed: float = 0.0
    unread: bytes = b""


class Guard:
    """Watches the tasks in `top`/tasks. `channel` leads to the agent; None for a guard that a supervisor started."""

    def __init__(self, top: Path, channel: socket.socket | None, lock: int) -> None:
        self.top, self.channel, self.lock = top, channel, lock
        self.own: dict[int, Helper] = {}
        """Its supervisors by process id."""
        self.foreign: dict[Path, str] = {}
        """Incarnations of the tasks whose supervisors are no children of this guard."""
        self.over: set[tuple[str, int]] = set()
        """Tasks that ended, by directory and time of their order: a name may be used again."""
        self.deadlines: dict[str, Lease] = {}
        """The last lease seen, by incarnation."""
        self.cleaning: dict[Path, tuple[subprocess.Popen[bytes], float]] = {}
        """Running clean-ups after runners of tasks that were killed, each with its end."""
        self.scanned = self.looked = 0.0
        self.listed = 0
        """When the directory of the tasks had changed as it was listed last, in nanoseconds; 0 to list it again."""
        self.unread = b""
        self.wakes, self.waker = socket.socketpair()
        for end in (self.wakes, self.waker):
            end.setblocking(False)
        self.selector = selectors.DefaultSelector()
        for heard in (self.wakes, *([channel] if channel is not None else [])):
            self.selector.register(heard, selectors.EVENT_READ)

    def run(self) -> None:
        """Watch until the agent is gone and all tasks have ended."""
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        while True:
            # The signal may end a long halt of this process: deadlines come first, then the agent, which may ping.
            due = min(self.enforce(), self._resume(), self._end_clean_ups(), self.scanned + SCAN_SECONDS)
            for key, _ in self.selector.select(max(0.0, due - now())):
                if key.fileobj is self.wakes:
                    with suppress(BlockingIOError):
                        self.wakes.recv(4096)
                    self._reap()
                elif key.fileobj is self.channel:
                    self._hear()
                elif key.data is not None:
                    self._hear_of(key.data)
            if now() - self.scanned >= SCAN_SECONDS:
                self._scan()
            if (
                self.channel is None
                and not (self.own_tasks or self.cleaning)
                and (not self.foreign or self._relieved())
            ):
                return

    @property
    def own_tasks(self) -> bool:
        """Whether a supervisor of its own has tasks."""
        return any(each.tasks for each in self.own.values())

    # Deadlines

    def enforce(self) -> float:
        """Kill tasks without a lease; returns when to check again, by the clock of `now`."""
        lease_now = read_lease(self.top / "lease")
        if lease_now.incarnation:
            self.deadlines[lease_now.incarnation] = lease_now
        at, due = now(), float("inf")
        for pid, helper in list(self.own.items()):
            if not helper.tasks:
                continue
            lease = self._lease(helper.incarnation)
            if lease.end <= at:
                self._kill(helper)
                due = min(due, at + SOON_SECONDS)
                if lease.last <= at:
                    os.kill(pid, signal.SIGKILL)
            due = min(due, max(lease.end, at + SOON_SECONDS))
        for incarnation in set(self.foreign.values()):
            lease = self._lease(incarnation)
            if lease.end <= at:
                places = [place for place, its in self.foreign.items() if its == incarnation]
                self._kill_foreign(places, supervisors_too=lease.last <= at)
            due = min(due, max(lease.end, at + SOON_SECONDS))
        return due

    def _lease(self, incarnation: str) -> Lease:
        return self.deadlines.get(incarnation, Lease(0.0, 0.0, ""))

    def _kill(self, helper: Helper) -> None:
        """Kill the processes of a supervisor's tasks, whose lease is over."""
        for place, order in helper.tasks.items():
            with suppress(OSError):
                (place / KILLED).touch()  # the supervisor may see it when the lease has been renewed
            kill_cgroup(order["cgroup"])
        kill_trees(lambda: tree([helper.pid]).keys() - {helper.pid})
        for place, order in helper.tasks.items():
            self._clean_up(place, order)

    def _clean_up(self, place: Path, order: dict[str, Any]) -> None:
        """Start the clean-up of a task's runner, if it has one that does not run; nothing here waits for its end."""
        running = self.cleaning.get(place)
        if running is None or running[0].poll() is not None:
            with suppress(OSError, subprocess.SubprocessError):
                started = clean_up(order, place)
                if started is not None:
                    self.cleaning[place] = started, now() + CLEAN_SECONDS

    def _resume(self) -> float:
        """Resume supervisors that stand still, and end one that is stopped again and again; returns when to look again.

        A task can stop its supervisor, whose other tasks then neither end nor are reported.
        """
        due = float("inf")
        for pid, helper in self.own.items():
            if not helper.halted:
                continue
            if now() - helper.halted < HALT_SECONDS:
                due = min(due, helper.halted + HALT_SECONDS)
                continue
            helper.halts = helper.halts + 1 if now() - helper.resumed < SOON_AGAIN_SECONDS else 1
            helper.halted, helper.resumed = 0.0, now()
            os.kill(pid, signal.SIGCONT if helper.halts <= MOST_HALTS else signal.SIGKILL)
        return due

    def _end_clean_ups(self) -> float:
        """End clean-ups whose time is over; returns when the next one's is."""
        for place, (process, until) in list(self.cleaning.items()):
            if until <= now():
                end_clean_up(place, process, lambda: tree(children()))
                process.poll()
                del self.cleaning[place]
        return min((until for _, until in self.cleaning.values()), default=float("inf"))

    def _kill_foreign(self, places: Sequence[Path], *, supervisors_too: bool) -> None:
        """Kill the processes of tasks of another guard, whose lease is over or whose supervisors were killed."""
        live = {place for place in places if held(place / "lock")}
        supervisors = {_number(place / "supervisor") for place in live} - {0}
        for place in places:
            with suppress(OSError, ValueError):
                (place / KILLED).touch()
                kill_cgroup(_order(place)["cgroup"])
        kill_tasks(places, supervisors)
        for place in places:
            with suppress(OSError, ValueError):
                self._clean_up(place, _order(place))
        for pid in supervisors if supervisors_too else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for place in places:
            if place not in live:
                self._forget(place)

    # Supervisors

    def _reap(self) -> None:
        """Record supervisors that ended, and kill the processes that this one inherited from them."""
        ended = self._reap_children()
        spared = self.own.keys() | {each.pid for each, _ in self.cleaning.values()}
        if children() - spared:
            for helper in ended:
                for order in helper.tasks.values():
                    kill_cgroup(order["cgroup"])
            kill_trees(lambda: children() - spared)
            ended += self._reap_children()
        for helper in ended:
            self._hear_of(helper)
            self.selector.unregister(helper.line)
            helper.line.close()
            for place, order in helper.tasks.items():
                if not _number(place / "result"):  # its supervisor was killed
                    self._clean_up(place, order)
                self._say({"ended": str(place)})

    def _reap_children(self) -> list[Helper]:
        ended, options = list[Helper](), os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, options)
                if not pid:
                    break
                halts = os.WIFSTOPPED(status) or os.WIFCONTINUED(status)
                if halts and pid in self.own:
                    self.own[pid].halted = now() if os.WIFSTOPPED(status) else 0.0
                elif not halts and pid in self.own:
                    ended.append(self.own.pop(pid))
            # Popen finds an ended child reaped and counts it as ended.
        self.cleaning = {place: each for place, each in self.cleaning.items() if each[0].poll() is None}
        return ended

    def _hear_of(self, helper: Helper) -> None:
        """Learn which tasks of a supervisor ended; let it go when it has none and another one takes tasks."""
        try:
            data = helper.line.recv(1 << 16)
        except OSError:
            return
        *lines, helper.unread = (helper.unread + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            place = Path(said["ended"])
            helper.tasks.pop(place, None)
            helper.alone = helper.alone or said["unfit"]
            self._say({"ended": str(place)})
        if not data:  # it has ended, or is about to
            helper.alone = True
        idle = [each for each in self.own.values() if not each.tasks and not each.alone]
        if not helper.tasks and (helper.alone or len(idle) > 1 or self.channel is None):
            helper.alone = True
            with suppress(OSError):
                helper.line.shutdown(socket.SHUT_WR)

    def _start(self, place: Path, store: str) -> dict[str, Any]:
        why = ""
        try:
            order = _order(place)
            (place / KILLED).unlink(missing_ok=True)
            for _ in range(SENDS):
                # Forked before the lock is open: it would hold that for as long as it lives.
                helper = self._helper(str(order["incarnation"]), alone=bool(order.get("alone")))
                lock = take_lock(place / "lock")
                if lock is None:
                    return {"refused": str(place), "why": "its lock is held"}
                try:
                    line = json.dumps({"start": str(place), "store": store}).encode() + b"\n"
                    socket.send_fds(helper.line, [line], [lock], socket.MSG_DONTWAIT)
                except OSError as error:  # it was killed a moment ago
                    why, helper.alone = str(error), True
                else:
                    helper.tasks[place] = order
                    return {"started": str(place)}
                finally:
                    os.close(lock)
        except (OSError, ValueError) as error:
            why = str(error)
        return {"refused": str(place), "why": why}

    def _helper(self, incarnation: str, *, alone: bool) -> Helper:
        """Return a supervisor for a task, which is to be its only one if `alone`. Raises OSError."""
        for each in () if alone else self.own.values():
            if len(each.tasks) < MOST_TASKS and not (each.alone or each.halted) and each.incarnation == incarnation:
                return each
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            pid = os.fork()
            if pid == 0:
                ours.close()  # else it would hold its own line open when this process was killed
                self._be_supervisor(theirs, parent)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            theirs.close()
        ours.setblocking(False)
        helper = self.own[pid] = Helper(pid, ours, incarnation, alone=alone)
        self.selector.register(ours, selectors.EVENT_READ, helper)
        return helper

    def _be_supervisor(self, line: socket.socket, guard: int) -> None:
        """Become a supervisor in a forked process; never returns."""
        try:
            os.setsid()
            top = self.top
            self._close()
            for number in IGNORED:
                signal.signal(number, signal.SIG_DFL)
            supervise(line, guard, lambda: replace(top))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing may return into the guard's own loop
            traceback.print_exc()
            os._exit(1)

    def _close(self) -> None:
        """Close what belongs to the guard alone, in a process forked from it."""
        signal.set_wakeup_fd(-1)
        self.selector.close()
        for each in (self.wakes, self.waker, self.channel, *(helper.line for helper in self.own.values())):
            if each is not None:
                each.close()
        self.own.clear()
        os.close(self.lock)

    # Tasks of other guards

    def _scan(self) -> None:
        """Find tasks that run without being started here, and forget those that ended."""
        self.scanned = now()
        tasks = self.top / "tasks"
        with suppress(OSError):
            changed = tasks.stat().st_mtime_ns
            if changed != self.listed:
                # A change within the grain of the file system's clock leaves the time as it is.
                self.listed = changed if time.time_ns() - changed > GRAIN_NS else 0  # noqa: TID251 - as files have it
                self._list(tasks)
        if self.foreign and now() - self.looked >= (LOOK_SECONDS if self.channel is not None else SCAN_SECONDS):
            self.looked = now()
            ended = [place for place in self.foreign if not held(place / "lock")]
            killed = [place for place in ended if not (_number(place / "result") or (place / "told").exists())]
            for place in set(ended) - set(killed):
                self._forget(place)
            if killed:
                self._kill_foreign(killed, supervisors_too=False)

    def _list(self, tasks: Path) -> None:
        own = {place for helper in self.own.values() for place in helper.tasks}
        for entry in os.scandir(tasks):
            place = Path(entry.path)
            with suppress(OSError, ValueError):
                if place in own or place in self.foreign or _life(place) in self.over:
                    continue
                if (place / "lock").exists():  # otherwise it was not started
                    if not held(place / "lock") and (place / "told").exists():
                        self.over.add(_life(place))
                    else:
                        self.foreign[place] = str(_order(place)["incarnation"])
                else:
                    self.listed = 0

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
            self.selector.unregister(self.channel)
            self.channel.close()
            self.channel = None
            return
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "start" in asked:
                self._say(self._start(Path(asked["start"]), asked["store"]))
            else:
                self._say({"tried": self._try()} if "try" in asked else {"pong": True})

    def _try(self) -> str:
        """Do what the start of a task needs: a process, and descriptors. Return why it is not possible, or nothing."""
        handles = list[int]()
        try:
            for _ in range(DESCRIPTORS):
                handles.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            if os.fork() == 0:
                os._exit(0)
        except OSError as error:
            return error.strerror or str(error)
        finally:
            for handle in handles:
                os.close(handle)
        return ""

    def _say(self, what: dict[str, Any]) -> None:
        if self.channel is not None:
            with suppress(OSError):  # a halted agent must not block its guard
                self.channel.send(json.dumps(what).encode() + b"\n", socket.MSG_DONTWAIT)


def _life(place: Path) -> tuple[str, int]:
    return place.name, (place / "order.json").stat().st_mtime_ns


def _order(place: Path) -> dict[str, Any]:
    order: dict[str, Any] = json.loads((place / "order.json").read_bytes())
    return order


def _number(path: Path) -> int:
    """Return the number in a file; 1 for other text, 0 without a file."""
    try:
        text = path.read_text().strip()
    except (OSError, ValueError):
        return 0
    return int(text) if text.isdigit() else int(bool(text))


def replace(top: Path) -> int:
    """Fork a guard from a supervisor, unless the machine has one; returns its process id, or 0.

    It gives up the locks of tasks and all other descriptors of the supervisor, which it may outlive.
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
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(3, lock)
        os.closerange(lock + 1, MOST_DESCRIPTORS)
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
    keep_spare()
    fcntl.flock(lock, fcntl.LOCK_SH)
    Guard(top, channel, lock).run()


def main(top: str, channel: str) -> None:
    """Run the guard that an agent started; `channel` is the socket's descriptor number."""
    place = Path(top)
    lock = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    be_guard(place, socket.socket(fileno=int(channel)), lock)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The supervisor of some tasks: runs each, keeps its output, and ends it in time.

The guard forks it (guard.py) and sends it tasks, all of one incarnation of the agent. It needs only their directories,
so a task outlives the agent that requested it, and a restarted agent finds it. It has one thread; each task is a
generator that waits by yielding the time at which it goes on at the latest. Standard library only.

    order.json   command and settings (orders.py); read-only when the agent wants the task to end, and SIGUSR2 tells
    lock         held while the supervisor lives and the task has not ended; the kernel releases it, also after kill -9
    supervisor   the supervisor's process id
    killed       made by the guard before it kills the task at the end of the lease
    notice       seconds from the agent's request to end on, where they are not the order's grace (kept.py)
    running      the task's process group, when its leader started, the number of the attempt
    stdout.0, stderr.0, …    its output (task_output.py)
    result       the task's result, written once; blank before, with the room it needs
"""

import errno
import gc
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

from omega.cellstate.descriptors import keep_spare, with_spare
from omega.live.agent import task_start
from omega.live.agent.lease_file import (
    KILLED,
    NOTICE,
    OF_MACHINE,
    ROOM,
    Lease,
    is_asked_to_end,
    now,
    read_lease,
    write,
    write_within,
)
from omega.live.agent.output_files import OutputFiles
from omega.live.agent.process_control import adopt_orphans, hide_memory, name_process, signal_at_parents_death
from omega.live.agent.process_tree import (
    ProcessInfo,
    children,
    kill_cgroup,
    kill_trees,
    label,
    labelled,
    read_process,
    send,
    started,
    tree,
)
from omega.live.agent.task_health import NEVER, TaskHealth
from omega.live.agent.task_output import Output

CHUNK = 1 << 16
MOST_LOCKS = 253
"""Descriptors in a message (SCM_MAX_FD of Linux)."""
DRAIN_BYTES = 1 << 20
"""Bytes of output read on after a task's end: the most a pipe holds, while another process may write on."""
LONGEST_DELAY_SECONDS = 300.0
LONG = 3600.0
CLEAN_TRIES, CLEAN_PAUSE_SECONDS = 3, 0.5
"""Attempts to clean up after a runner, and the pause after one that failed."""
KILL_SECONDS = 0.05
"""Time after which a task that was killed, and has not ended, is killed again."""
GUARD_SECONDS, GUARD_TRIES = 0.5, 3
"""Time for the agent to replace an ended guard before a supervisor does, and number of attempts."""

Waits = Generator[float, None, None]
"""Yields times of `now`, until which it waits at the longest."""


class Task:
    """One task. Its lock is `lock`, -1 where none is held; `store` is the store's URL for a task that may have it."""

    def __init__(self, directory: Path, host: "Supervisor", lock: int = -1, store: str = "") -> None:
        self.directory, self.host, self.lock, self.store = directory, host, lock, store
        self.order: dict[str, Any] = json.loads(with_spare((directory / "order.json").read_bytes))
        self.order["umask"] = host.umask
        self.order["label"] = self.label = label(directory)
        self.order["protected"] = host.protected
        self.outputs = {name: Output(directory, name, self.order["log_bytes"]) for name in ("stdout", "stderr")}
        self.files = OutputFiles(self.order)
        self.limit = now() + self.order["time_limit_ms"] / 1000 if self.order["time_limit_ms"] else NEVER
        self.group = self.oom_kills = 0
        self.asked = is_asked_to_end(directory)
        self.elsewhere = False
        """Whether the agent asked to end; whether the task cannot start here, and may elsewhere."""
        self.ending = ""
        """Why the task is being ended: stopped, lease or limit."""
        self.unfit = False
        """Whether the machine could not start it."""
        self.health, self.unhealthy = TaskHealth(self), ""
        """Its health commands; why the present attempt is being ended, "" while it is not."""
        self.kill_at = NEVER
        self.used = {"cpu": 0.0, "peak": 0.0}
        """Processor seconds, and the largest memory, of its ended processes."""
        self.due, self.waits = 0.0, self._supervised()
        """When it goes on at the latest, and how."""

    def go_on(self) -> bool:
        """Do what is due; return whether the task goes on. After any error no process of it is left running."""
        try:
            self.due = next(self.waits)
        except StopIteration:
            return False
        except Exception:  # noqa: BLE001 - the other tasks go on; this one is lost
            traceback.print_exc()
            self.kill()
            with suppress(OSError, subprocess.SubprocessError):
                if (process := task_start.clean_up(self.order, self.directory)) is not None:
                    self.waits_for(process)
            return False
        return True

    def _supervised(self) -> Waits:
        began = now()
        result = yield from self._run()
        unit = 1 if sys.platform == "darwin" else 1024
        # As `omega.cellstate.tasks` names it.
        cpu_ms, peak = round(self.used["cpu"] * 1000), int(self.used["peak"]) * unit
        measured = {"tasks": 1, "cpu_ms": cpu_ms, "run_ms": round((now() - began) * 1000), "peak_bytes": peak}
        # In place: a full disk has room for it.
        write_within(self.directory / "result", json.dumps(result | {"measured": measured}).encode().ljust(ROOM))

    def count(self, used: "resource.struct_rusage") -> None:
        """Add what an ended process used."""
        self.used["cpu"] += used.ru_utime + used.ru_stime
        self.used["peak"] = max(self.used["peak"], used.ru_maxrss)

    def close(self) -> None:
        """Release what the task holds; its lock last, by which others see that it ended."""
        for output in self.outputs.values():
            output.close()
        self.files.close()
        if self.lock >= 0:
            os.close(self.lock)

    def _run(self) -> Generator[float, None, dict[str, Any]]:
        """Run the task, repeatedly after failures as ordered; returns its result and time of end (`now`)."""
        restart, attempt, used, since = self.order["restart"], 1, 0, now()
        delay, interval = restart["delay_ms"] / 1000, restart.get("interval_ms", 0) / 1000
        while True:
            how, reason = yield from self._attempt(attempt)
            if interval and now() - since > interval:
                used, since, delay = 0, now(), restart["delay_ms"] / 1000
            if how == "failed" and used < restart["attempts"] and not self.ending:
                self.health.fail()
                if (yield from self._pause(min(delay, LONGEST_DELAY_SECONDS))):
                    delay *= restart["factor"]
                    attempt, used = attempt + 1, used + 1
                    continue
                how, reason = self._ended(reason)
            # A time limit is for the task, wherever it runs.
            again = how == "failed" and not self.ending and restart.get("elsewhere", False)
            self.files.settle(finished=how == "finished")
            if how == "finished" and self.files.failed:  # a full disk: what the user has is not whole
                how, reason = "failed", self.files.failed
            return {
                "how": how, "reason": reason, "attempts": attempt, "elsewhere": again or self.elsewhere, "at": now(),
            }  # fmt: skip

    def _attempt(self, attempt: int) -> Generator[float, None, tuple[str, str]]:
        before = self._oom_kills()
        self._look()
        if self._ends():
            return self._ended("")
        try:
            self.files.open()
        except OSError as error:  # the directory is not on this machine, perhaps on another
            self.elsewhere, self.order["restart"]["attempts"] = True, 0
            return "failed", f"output {error.filename}: {(error.strerror or str(error)).lower()}"
        task = None
        while task is None:
            lease_end = self.host.lease.end
            try:
                task = self._start(attempt)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                if isinstance(error, subprocess.SubprocessError) and lease_end <= now():  # this process stood still
                    if self.host.read_lease().end > now():
                        continue
                    self.end("lease", 0.0)
                    return self._ended("")
                if isinstance(error, OSError) and error.errno in OF_MACHINE:
                    self.unfit = True
                    return "unfit", error.strerror or str(error)
                self.order["restart"]["attempts"] = 0  # a command that cannot be started fails again
                return "failed", task_start.why_not(self.order, error)
        self.group, self.oom_kills = task.pid, before
        self.health.begin()
        with suppress(OSError):  # a full disk: its processes are known by their labels
            write(self.directory / "running", f"{task.pid} {started(task.pid)} {attempt}")
        while self._look() or task.returncode is None:
            yield self._next()
        self.health.end()
        self.kill()  # processes that the task left behind end with it, in any process group
        self.group = 0
        if task.returncode:
            yield from self._clean_up()
        self._close(task)
        self.files.close()
        killed = task.returncode == -signal.SIGKILL and self.host.read_lease().end <= now()
        if task.returncode and (killed or (self.directory / KILLED).exists()):
            self.end("lease", 0.0)  # the guard killed it while this process stood still; the lease may go on since
        if self.ending:
            return self._ended(self._failure(task.returncode))
        if unhealthy := self.unhealthy:
            self.unhealthy, self.kill_at = "", NEVER
            return "failed", unhealthy
        if task.returncode and task.returncode == self.order.get("final"):
            self.order["restart"] |= {"attempts": 0, "elsewhere": False}
        if task.returncode:
            return "failed", self._failure(task.returncode)
        return ("failed", self.files.failed) if self.files.failed else ("finished", "")

    def _start(self, attempt: int) -> "subprocess.Popen[bytes]":
        environment = {**self.order["environment"], "OMEGA_ATTEMPT": str(attempt)}
        if self.order.get("progress"):
            with suppress(OSError):  # there is none, or the task made something else of it
                Path(self.order["progress"]).unlink()  # of the attempt before
        task = task_start.start(self.order, self.order["command"], environment, self.host.lease.end, self.store)
        self.waits_for(task)
        for stream, name in ((task.stdout, "stdout"), (task.stderr, "stderr")):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self.host.selector.register(stream, selectors.EVENT_READ, (self, name))
        return task

    def _failure(self, code: int) -> str:
        if self._oom_kills() > self.oom_kills:
            return f"out of memory ({self.order['memory_bytes'] >> 20} MiB)"
        if code >= 0:
            return f"exit {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"

    def _oom_kills(self) -> int:
        """Return the number of processes of its cgroup killed for lack of memory."""
        with suppress(OSError, ValueError):
            text = Path(self.order["cgroup"], "memory.events").read_text().partition("oom_kill ")[2]
            return int(text.split("\n")[0])
        return 0

    def _ends(self) -> bool:
        return bool(self.ending)

    def _ended(self, reason: str) -> tuple[str, str]:
        if self.ending == "limit":
            return "failed", f"time limit of {self.order['time_limit_ms'] / 1000:g} s"
        return self.ending, reason

    # Time

    def _look(self) -> bool:
        """End the task if a deadline passed or the agent asked."""
        at, grace = now(), self.order["grace_ms"] / 1000
        if self.kill_at <= at:
            self.kill()
        if self.asked:
            self.end("stopped", at + self._notice(grace))
        if self.limit <= at:
            self.end("limit", at + grace)
        if not (self.ending or self.unhealthy) and (why := self.health.look(self.host.lease.end)):
            self.unhealthy, self.kill_at = why, min(self.kill_at, at + grace)
            self._warn()
        return False

    def _notice(self, grace: float) -> float:
        """Return the time of a task that the agent asks to end: as the agent wrote, else its grace (seconds)."""
        with suppress(OSError, ValueError):
            return float((self.directory / NOTICE).read_text())
        return grace

    def end(self, why: str, kill_at: float) -> None:
        """Ask the task to end, and kill it later; the first reason and the earliest time apply."""
        self.kill_at = min(self.kill_at, kill_at)
        if not self.ending:
            self.ending, self.asked, self.limit = why, False, NEVER
            if self.kill_at > now() and self.group:
                self._warn()

    def _warn(self) -> None:
        """Send SIGTERM to the task's process group, without the command itself where that would end at once."""
        with suppress(ProcessLookupError, PermissionError):
            if not self.order.get("warns_below"):
                os.killpg(self.group, signal.SIGTERM)
                return
            for pid, each in tree([self.group]).items():
                if each.group == self.group and pid != self.group:
                    send(pid, each.started, signal.SIGTERM)

    def _clean_up(self) -> Waits:
        """Remove what the task's runner left outside of its processes, before its end is known (semantics 2)."""
        for _ in range(CLEAN_TRIES):
            with suppress(OSError, subprocess.SubprocessError):
                process = task_start.clean_up(self.order, self.directory)
                if process is None:
                    return
                self.waits_for(process)
                until = now() + task_start.CLEAN_SECONDS
                while process.returncode is None and now() < until:
                    yield until
                task_start.end_clean_up(self.directory, process, lambda: tree(children()))
                self.wait(process)
                if process.returncode == 0:
                    return
            yield now() + CLEAN_PAUSE_SECONDS

    def kill(self) -> None:
        """Kill the task with all descendants; orphans of its processes are children of the supervisor."""
        kill_cgroup(self.order["cgroup"] if self.group else "")
        if self.group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)
        if self.below():
            kill_trees(self.below)
            self.host.reap()

    def waits_for(self, process: "subprocess.Popen[bytes]") -> None:
        """Set the return code of a process that was started for the task, and go on with it, when the process ends."""
        self.host.waited[process.pid] = process, self

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for such a process that was killed."""
        self.host.wait(process)

    def below(self) -> set[int]:
        """Return the processes of the task that are children of the supervisor."""
        return self.host.below(self)

    def _next(self) -> float:
        """Return the time of the next deadline; a killed task ends in a moment."""
        due = min(self.kill_at, self.limit, self.health.at)
        return max(due, now() + KILL_SECONDS) if self.kill_at < NEVER else due

    def _pause(self, seconds: float) -> Generator[float, None, bool]:
        """Wait before the next attempt; returns whether it is still wanted."""
        until = now() + seconds
        while not (self._look() or self.ending) and now() < until:
            yield min(until, self._next())
        return not self.ending

    # Output

    def read(self, stream: Any, name: str) -> int:
        """Keep what a stream of the task has to say; return how many bytes it was."""
        try:
            data = os.read(stream.fileno(), CHUNK)
        except BlockingIOError:
            return 0
        if data:
            self.outputs[name].take(data)
            self.files.take(name, data)
        else:
            self.host.selector.unregister(stream)
        return len(data)

    def _close(self, task: "subprocess.Popen[bytes]") -> None:
        for stream, name in ((task.stdout, "stdout"), (task.stderr, "stderr")):
            if stream is not None:
                left = DRAIN_BYTES
                with suppress(KeyError):
                    self.host.selector.get_key(stream)
                    while left > 0 and (size := self.read(stream, name)):
                        left -= size
                    self.host.selector.unregister(stream)
                stream.close()


class Supervisor:
    """Runs tasks that come through `line`, and ends when that is closed and the last one has ended.

    SIGTERM stops all tasks, as the agent does with one, and the supervisor ends with the last.

    `replace_guard` returns the id of a new guard, or 0.
    """

    def __init__(self, line: socket.socket | None = None, replace_guard: Callable[[], int] = lambda: 0) -> None:
        self.line, self.replace_guard = line, replace_guard
        self.listens = line is not None
        """Whether tasks may come."""
        self.umask = os.umask(0o077)  # other users may pass through the directory but not read it
        self.protected = task_start.is_protected()
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # for all tasks
        gc.freeze()  # what no collection writes to, a fork shares
        self.tasks: dict[int, Task] = {}
        """By label."""
        self.waited: dict[int, tuple[subprocess.Popen[bytes], Task]] = {}
        """Children that tasks started, by id."""
        self.strays: dict[int, set[int]] = {}
        """Children that no longer say whose they are, with the labels of the running tasks they may be of."""
        self.woken: set[Task] = set()
        self.lease, self.over_at = Lease(0.0, 0.0, ""), NEVER
        self.guard, self.guard_at, self.guard_tries = 0, NEVER, 0
        """A guard that it started; when to replace the guard, and the attempts left."""
        self.stops = self.stops_all = False
        """Whether to look for tasks that are to stop; whether all are, and this process with them."""
        self.unread, self.unsent, self.locks = b"", b"", list[int]()
        self.selector = selectors.DefaultSelector()
        self.wakes, self.waker = socket.socketpair()
        for each in (self.wakes, self.waker, *([line] if line is not None else [])):
            each.setblocking(False)
        self.selector.register(self.wakes, selectors.EVENT_READ)
        if line is not None:
            self.selector.register(line, selectors.EVENT_READ)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop_all)
        signal.signal(signal.SIGUSR1, self.guard_ended)
        signal.signal(signal.SIGUSR2, self._stop)

    def _stop(self, *_: object) -> None:
        self.stops = True

    def _stop_all(self, *_: object) -> None:
        self.stops = self.stops_all = True

    def guard_ended(self, *_: object) -> None:
        """Replace the guard soon, unless the agent does."""
        self.guard_at, self.guard_tries = now() + GUARD_SECONDS, GUARD_TRIES

    def run(self) -> None:
        """Run until no task is left and none may come."""
        while True:
            self._look()
            for task in [task for task in self.tasks.values() if task in self.woken or task.due <= now()]:
                self.woken.discard(task)
                if not task.go_on():
                    self._end(task)
            if not (self.listens or self.tasks):
                return
            due = min(self.over_at, self.guard_at, *(task.due for task in self.tasks.values()), now() + LONG)
            for key, _ in self.selector.select(0.0 if self.woken or self.stops else max(0.0, due - now())):
                if key.data is not None:
                    task, name = key.data
                    task.read(key.fileobj, name)
                elif key.fileobj is self.wakes:
                    with suppress(BlockingIOError):
                        self.wakes.recv(CHUNK)
                    self.reap()
                else:
                    self._hear()

    def _look(self) -> None:
        """End tasks whose lease is over or that are to stop: after a halt this comes before all else."""
        if self.over_at <= now():
            self.read_lease()
            if self.over_at <= now():
                self.over_at = NEVER
                for task in self.tasks.values():
                    task.end("lease", min(now() + task.order["grace_ms"] / 1000, self.lease.end))
                    self.woken.add(task)
        if self.stops:
            self.stops = False
            if self.stops_all and self.line is not None:  # what is on the way still comes; the guard asks another one
                self.line.shutdown(socket.SHUT_RD)
            for task in self.tasks.values():
                if not task.ending and (self.stops_all or is_asked_to_end(task.directory)):
                    task.asked = True
                    self.woken.add(task)
        if self.guard_at <= now():  # another process may hold the guard's lock for a moment
            new = self.replace_guard()
            self.guard, self.guard_tries = new or self.guard, self.guard_tries - 1
            self.guard_at = NEVER if new or self.guard_tries <= 0 else now() + GUARD_SECONDS
        if self.unsent:
            self._say(b"")

    def read_lease(self) -> Lease:
        """Read the agent's lease. A later incarnation's lease is void for these tasks, which it lost (semantics 15)."""
        order = next(iter(self.tasks.values())).order
        lease = read_lease(Path(order["lease"]))
        self.lease = lease if lease.incarnation == str(order["incarnation"]) else Lease(0.0, 0.0, "")
        self.over_at = self.lease.over
        return self.lease

    # Tasks

    def add(self, directory: Path, lock: int = -1, store: str = "") -> None:
        """Take up a task. Raises OSError, ValueError."""
        write_within(directory / "supervisor", str(os.getpid()).encode())
        write_within(directory / "result", b" " * ROOM)
        task = Task(directory, self, lock, store)
        task.asked = task.asked or self.stops_all
        self.tasks[task.label] = task
        self.read_lease()
        self.woken.add(task)

    def _end(self, task: Task) -> None:
        del self.tasks[task.label]
        self.woken.discard(task)
        task.close()
        self._say(json.dumps({"ended": str(task.directory), "unfit": task.unfit}).encode() + b"\n")

    def _hear(self) -> None:
        """Take up tasks that the guard sends, each with its lock."""
        if self.line is None:
            return
        try:
            data, locks, _, _ = socket.recv_fds(self.line, CHUNK, MOST_LOCKS)
        except BlockingIOError:
            return
        except OSError:
            data, locks = b"", []
        if not data:
            self.selector.unregister(self.line)
            self.listens = False
            return
        self.locks += locks
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            asked, lock = json.loads(line), self.locks.pop(0) if self.locks else -1
            place = Path(asked["start"])
            try:
                if lock < 0:  # the kernel drops what this process may not open
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                os.set_inheritable(lock, False)
                self.add(place, lock, asked["store"])
            except Exception as error:  # noqa: BLE001 - the other tasks go on; this one did not start
                traceback.print_exc()
                why = error.strerror if isinstance(error, OSError) else ""
                result = {"how": "unfit", "reason": why or str(error), "attempts": 1, "at": now()}
                with suppress(OSError):
                    write_within(place / "result", json.dumps(result).encode().ljust(ROOM))
                if lock >= 0:
                    os.close(lock)
                self._say(json.dumps({"ended": asked["start"], "unfit": True}).encode() + b"\n")

    def _say(self, what: bytes) -> None:
        """Tell the guard; what a halted one does not take is sent later."""
        self.unsent += what
        try:
            self.unsent = self.unsent[self.line.send(self.unsent) :] if self.line is not None else b""
        except BlockingIOError:
            pass
        except OSError:  # nobody is there
            self.unsent = b""

    # Children

    def reap(self) -> None:
        """Wait for all ended children, and wake the tasks whose processes they were."""
        with suppress(ChildProcessError):
            while True:
                pid, orphan = -1, None
                if hasattr(os, "waitid"):
                    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    pid = ended.si_pid if ended is not None else -1
                    if pid not in self.waited and pid > 0:
                        orphan = self.owner(pid)  # which nothing says any more afterwards
                pid, status, used = os.wait4(pid, os.WNOHANG)
                if not pid:
                    return
                self._ended(pid, status, used, orphan)

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for one child that was killed."""
        if process.returncode is None:
            self._ended(*os.wait4(process.pid, 0), None)

    def _ended(self, pid: int, status: int, used: "resource.struct_rusage", owner: Task | None) -> None:
        self.strays.pop(pid, None)
        if pid in self.waited:
            process, owner = self.waited.pop(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            if owner in self.tasks.values():
                self.woken.add(owner)
        if owner is not None:
            owner.count(used)

    def owner(self, pid: int) -> Task | None:
        """Return the task that an orphan is of, by its label, else by its group and session."""
        found = self.tasks.get(labelled(pid))
        process: ProcessInfo | None = None if found else read_process(pid)
        if process is None:
            return found
        return next((each for each in self.tasks.values() if each.group in (process.group, process.session)), None)

    def below(self, task: Task) -> set[int]:
        """Return the children that are of a task; also those that are of no other task that runs."""
        found, known = set[int](), self.waited
        for pid in children() - {self.guard}:
            if pid in known:
                if known[pid][1] is task:
                    found.add(pid)
                continue
            owner = self.owner(pid)
            if owner is None:
                may_be = self.strays.setdefault(pid, set(self.tasks))
                may_be &= self.tasks.keys()
                owner = task if may_be <= {task.label} else None
            if owner is task:
                found.add(pid)
        return found


def supervise(
    line: socket.socket | None, guard: int = 0, replace_guard: Callable[[], int] = lambda: 0, *places: Path
) -> None:
    """Supervise tasks. `guard` is the parent's process id, if the parent is a guard."""
    hide_memory()
    name_process("omega-task")
    adopt_orphans()
    keep_spare()
    host = Supervisor(line, replace_guard)
    if guard:
        signal_at_parents_death(signal.SIGUSR1)
        if os.getppid() != guard:
            host.guard_at, host.guard_tries = now(), GUARD_TRIES
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    for place in places:
        host.add(place)
    host.run()

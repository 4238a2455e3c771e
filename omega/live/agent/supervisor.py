"""The supervisor of one task: runs it, keeps its output, and ends it in time.

The guard forks it (guard.py). It needs only its directory, so a task outlives the agent that requested it, and a
restarted agent finds it. Standard library only.

    order.json   command and settings (orders.py)
    lock         held while the supervisor lives; the kernel releases it, also after kill -9
    supervisor   its process id
    killed       made by the guard before it kills the task at the end of the lease
    notice       seconds from the agent's request to end on, where they are not the order's grace (kept.py)
    running      the task's process group, when its leader started, the number of the attempt
    stdout.0, stderr.0, …    its output (task_output.py)
    result       the task's result, written once; blank before, with the room it needs
"""

import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from omega.live.agent import task_start
from omega.live.agent.lease_file import KILLED, NOTICE, ROOM, Lease, now, read_lease, write
from omega.live.agent.output_files import OutputFiles
from omega.live.agent.process_control import adopt_orphans, hide_memory, name_process, signal_at_parents_death
from omega.live.agent.process_tree import below, children, kill_all, kill_cgroup, processes, send, started
from omega.live.agent.task_health import NEVER, TaskHealth
from omega.live.agent.task_output import Output

CHUNK = 1 << 16
DRAIN_SECONDS = 1.0
"""Time to read on after a task's end: another process may hold its output open."""
LONGEST_DELAY_SECONDS = 300.0
LONG = 3600.0
CLEAN_TRIES, CLEAN_SECONDS, CLEAN_PAUSE_SECONDS = 3, 10.0, 0.5
"""Attempts to clean up after a runner, the time of each, and the pause after one that failed."""
GUARD_SECONDS, GUARD_TRIES = 0.5, 3
"""Time for the agent to replace an ended guard before a supervisor does, and number of attempts."""


class Supervisor:
    """Runs its directory's order to the end. `replace_guard` returns the id of a new guard, or 0."""

    def __init__(self, directory: Path, store: str = "", replace_guard: Callable[[], int] = lambda: 0) -> None:
        """Read the order without running it. `store` is the store's URL for a task that may have it."""
        self.directory, self.store, self.replace_guard = directory, store, replace_guard
        self.order: dict[str, Any] = json.loads((directory / "order.json").read_text())
        self.order["umask"] = os.umask(0o077)  # other users may pass through the directory but not read it
        self.outputs = {name: Output(directory, name, self.order["log_bytes"]) for name in ("stdout", "stderr")}
        self.files = OutputFiles(self.order)
        self.lease = self._lease()
        self.over_at = self.lease.over
        self.limit = now() + self.order["time_limit_ms"] / 1000 if self.order["time_limit_ms"] else NEVER
        self.group = self.oom_kills = self.guard = 0
        self.guard_at, self.guard_tries = NEVER, 0
        """When to replace the guard, and the attempts left."""
        self.asked = self.elsewhere = False
        """Whether the agent asked to end; whether the task cannot start here, and may elsewhere."""
        self.ending = ""
        """Why the task is being ended: stopped, lease or limit."""
        self.health, self.unhealthy = TaskHealth(directory, self.order), ""
        """Its health commands; why the present attempt is being ended, "" while it is not."""
        self.kill_at = NEVER
        self.selector = selectors.DefaultSelector()
        self.wakes, self.waker = socket.socketpair()
        for end in (self.wakes, self.waker):
            end.setblocking(False)
        self.selector.register(self.wakes, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGUSR1, self._guard_ended)

    def _ask(self, *_: object) -> None:
        self.asked = not self.ending

    def _guard_ended(self, *_: object) -> None:
        self.guard_at, self.guard_tries = now() + GUARD_SECONDS, GUARD_TRIES

    def run(self) -> dict[str, Any]:
        """Run the task, repeatedly after failures as ordered; returns its result and time of end (`now`)."""
        restart, attempt, used, since = self.order["restart"], 1, 0, now()
        delay, interval = restart["delay_ms"] / 1000, restart.get("interval_ms", 0) / 1000
        while True:
            how, reason = self._attempt(attempt)
            if interval and now() - since > interval:
                used, since, delay = 0, now(), restart["delay_ms"] / 1000
            if how == "failed" and used < restart["attempts"] and not self.ending:
                self.health.fail()
                if self._pause(min(delay, LONGEST_DELAY_SECONDS)):
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

    def _attempt(self, attempt: int) -> tuple[str, str]:
        before = self._oom_kills()
        self._look()
        if self._ends():
            return self._ended("")
        try:
            self.files.open()
        except OSError as error:  # the directory is not on this machine, perhaps on another
            self.elsewhere, self.order["restart"]["attempts"] = True, 0
            return "failed", f"output {error.filename}: {(error.strerror or str(error)).lower()}"
        try:
            task = self._start(attempt)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.order["restart"]["attempts"] = 0  # a command that cannot be started fails again
            return "failed", task_start.why_not(self.order, error)
        self.group, self.oom_kills = task.pid, before
        self.health.begin()
        write(self.directory / "running", f"{task.pid} {started(task.pid)} {attempt}")
        while self._look() or task.poll() is None:
            self._read(self._patience())
        self.health.end()
        self.kill()  # processes that the task left behind end with it, in any process group
        self.group = 0
        if task.returncode:
            self.clean_up()
        self._close(task)
        self.files.close()
        killed = task.returncode == -signal.SIGKILL and self._lease().end <= now()
        if task.returncode and (killed or (self.directory / KILLED).exists()):
            self._end("lease", 0.0)  # the guard killed it while this process stood still; the lease may go on since
        if self._ends():
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
        task = task_start.start(self.order, self.order["command"], environment, self.lease.end, self.store)
        for stream, name in ((task.stdout, "stdout"), (task.stderr, "stderr")):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self.selector.register(stream, selectors.EVENT_READ, name)
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
        """End the task if a deadline passed or the agent asked. Kills overdue tasks before all else."""
        at, grace = now(), self.order["grace_ms"] / 1000
        if self.over_at <= at:
            self.lease = self._lease()
            self.over_at = self.lease.over
            if self.over_at <= at:
                self.over_at = NEVER
                self._end("lease", min(at + grace, self.lease.end))
        if self.kill_at <= at:
            self.kill()
        if self.asked:
            self._end("stopped", at + self._notice(grace))
        if self.limit <= at:
            self._end("limit", at + grace)
        if not (self.ending or self.unhealthy) and (why := self.health.look(self.lease.end)):
            self.unhealthy, self.kill_at = why, min(self.kill_at, at + grace)
            self._warn()
        if self.guard_at <= at:
            self._guard_again()
        return False

    def _notice(self, grace: float) -> float:
        """Return the time of a task that the agent asks to end: as the agent wrote, else its grace (seconds)."""
        with suppress(OSError, ValueError):
            return float((self.directory / NOTICE).read_text())
        return grace

    def _guard_again(self) -> None:
        """Start a guard unless one runs; retry, since another process may hold its lock for a moment."""
        started_now = self.replace_guard()
        self.guard, self.guard_tries = started_now or self.guard, self.guard_tries - 1
        self.guard_at = NEVER if started_now or self.guard_tries <= 0 else now() + GUARD_SECONDS

    def _end(self, why: str, kill_at: float) -> None:
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
            table = processes()
            for pid in below([self.group], table):
                if table[pid].group == self.group:
                    send(pid, table[pid].started, signal.SIGTERM)

    def clean_up(self) -> None:
        """Remove what the task's runner left outside of its processes, before its end is known (semantics 2)."""
        for _ in range(CLEAN_TRIES):
            with suppress(OSError, subprocess.SubprocessError):
                process = task_start.clean_up(self.order)
                if process is None:
                    return
                try:
                    if process.wait(CLEAN_SECONDS) == 0:
                        return
                finally:
                    process.kill()
                    process.wait()
            time.sleep(CLEAN_PAUSE_SECONDS)

    def kill(self) -> None:
        """Kill the task with all descendants; orphans of its processes are children of this process."""
        kill_cgroup(self.order["cgroup"] if self.group else "")
        if self.group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)
        if children() != set():  # a scan of all processes takes longer than the start of a task
            kill_all(lambda table: below([os.getpid()], table) - {self.guard})
        self._reap_orphans()

    def _reap_orphans(self) -> None:
        """Reap the ended orphans of the task's processes, where the system lists them."""
        for pid in (children() or set()) - {self.group, self.guard} - self.health.pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _lease(self) -> Lease:
        """Return the agent's lease. A later incarnation's lease is void for this task, which it lost (semantics 15)."""
        lease = read_lease(Path(self.order["lease"]))
        return lease if lease.incarnation == str(self.order["incarnation"]) else Lease(0.0, 0.0, "")

    def _patience(self) -> float:
        """Return the seconds until the next deadline; a killed task ends in a moment."""
        left = min(self.over_at, self.kill_at, self.limit, self.health.at, self.guard_at) - now()
        return min(max(left, 0.05 if self.kill_at < NEVER else 0.0), LONG)

    def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; returns whether it is still wanted."""
        until = now() + seconds
        while not (self._look() or self._ends()) and (left := until - now()) > 0:
            self._read(min(left, self._patience()))
        return not self.ending

    # Output

    def _read(self, seconds: float) -> bool:
        """Keep the task's output, waiting at most `seconds`; returns whether there was any."""
        said = False
        for key, _ in self.selector.select(seconds):
            if key.data is None:
                with suppress(BlockingIOError):
                    self.wakes.recv(CHUNK)
                self._reap_orphans()
                continue
            with suppress(BlockingIOError):
                data = os.read(key.fd, CHUNK)
                said = True
                if data:
                    self.outputs[key.data].take(data)
                    self.files.take(key.data, data)
                else:
                    self.selector.unregister(key.fileobj)
        return said

    def _close(self, task: "subprocess.Popen[bytes]") -> None:
        until = now() + DRAIN_SECONDS
        while now() < until and self._read(0.0):
            pass
        for stream in (task.stdout, task.stderr):
            if stream is not None:
                with suppress(KeyError):
                    self.selector.unregister(stream)
                stream.close()


def _measured(seconds: float) -> dict[str, int]:
    """Return what the ended processes of the task used in all attempts, as `omega.cellstate.consumption` names it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    cpu_ms, run_ms = round((used.ru_utime + used.ru_stime) * 1000), round(seconds * 1000)
    return {"tasks": 1, "cpu_ms": cpu_ms, "run_ms": run_ms, "peak_bytes": used.ru_maxrss * unit}


def supervise(directory: Path, store: str = "", replace_guard: Callable[[], int] = lambda: 0, guard: int = 0) -> None:
    """Supervise the task of a directory. `guard` is the parent's process id, if the parent is a guard."""
    hide_memory()
    name_process("omega-task")
    adopt_orphans()
    write(directory / "supervisor", str(os.getpid()))
    write(directory / "result", "", ROOM)
    task = Supervisor(directory, store, replace_guard)
    if guard:
        signal_at_parents_death(signal.SIGUSR1)
        if os.getppid() != guard:
            task.guard_at, task.guard_tries = now(), GUARD_TRIES
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    began = now()
    try:
        result = task.run()
    finally:
        left = task.group  # of an attempt that an error ended
        task.kill()  # after any error, no process is left running
        if left:
            task.clean_up()
    write(directory / "result", json.dumps(result | {"measured": _measured(now() - began)}), ROOM)

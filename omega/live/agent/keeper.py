"""The keeper of one task: a process of its own that runs it, reads what it says, and ends it in time.

It needs nothing but its directory, so a task outlives the agent that started it, and an agent that comes
back finds it. It is run as a file and imports the standard library only, which halves what starting costs.

    order.json   what to run (orders.py)
    lock         held for as long as the keeper lives; the kernel gives it back, kill -9 included
    keeper       its process id
    running      the task's process group, when its leader started, which attempt it is
    stdout.0, stderr.0, …    what it said, see Output
    result       how it ended, written once; nothing before that, in the room it will need
"""

import ctypes
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

CHUNK = 1 << 16
DRAIN_SECONDS = 1.0
"""How long to read on after a task ended: somebody else may hold its output open."""
LONGEST_DELAY_SECONDS = 300.0
LONG, NEVER = 3600.0, float("inf")
ROOM = 512
"""What a file takes on the disk that must be written again when that is full, in bytes."""
PR_SET_CHILD_SUBREAPER = 36
"""<linux/prctl.h>: who is left behind by its parent becomes our child."""


def now() -> float:
    """Seconds since this computer started, its sleep included: a lease runs out while it sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def started(pid: int) -> str:
    """When a process started, as text that is compared; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        if Path("/proc/self/stat").exists():
            return ""
    return subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], check=False, capture_output=True, text=True
    ).stdout.strip()


def write(path: Path, text: str, room: int = 0) -> None:
    """Write a file as a whole or not at all; on a disk that is full, into the `room` (bytes) it was given before."""
    new, data = path.with_name(f"{path.name}.new"), text.encode().ljust(room)
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError:
        if not room:
            raise
        with path.open("r+b", buffering=0) as file:
            file.write(data)


class Output:
    """One stream of a task in two files at most, the older one removed when the newer is full.

    Each is named after the place of its first byte in the stream, so who reads while it is written knows
    where he is, and how much is gone.
    """

    def __init__(self, place: Path, stream: str, limit: int) -> None:
        """Keep at most `limit` bytes, the newest."""
        self.place, self.stream, self.half = place, stream, max(1, limit // 2)
        self.starts = [0]
        self.at = 0
        self.file = self._open()

    def _open(self) -> BinaryIO:
        return (self.place / f"{self.stream}.{self.starts[-1]}").open("wb", buffering=0)

    def take(self, data: bytes) -> None:
        """Keep what the task said; a disk that is full loses it and does not stop the task."""
        with suppress(OSError):
            while data:
                room = self.starts[-1] + self.half - self.at
                if not room:
                    self._turn()
                    continue
                written = self.file.write(data[:room]) or 0
                self.at += written
                data = data[written:]

    def _turn(self) -> None:
        self.file.close()
        if len(self.starts) == 2:
            (self.place / f"{self.stream}.{self.starts.pop(0)}").unlink()
        self.starts.append(self.at)
        self.file = self._open()


class Check:
    """The health command of a task: run now and then beside it, in its directory; what it says is not kept."""

    def __init__(self, order: dict[str, Any]) -> None:
        """Read the order; without a health command nothing is ever due."""
        self.order, self.said = order, order.get("health") or {"command": []}
        self.process: subprocess.Popen[bytes] | None = None
        self.at = NEVER

    def begin(self) -> None:
        """The task started: the first check is due after its grace."""
        self.at = now() + self.said["grace_ms"] / 1000 if self.said["command"] else NEVER

    def look(self) -> str:
        """Start what is due, see how it ended; returns why the task is not healthy, if it is not."""
        code = None if self.process is None else self.process.poll()
        if code is not None:
            self.process, self.at = None, now() + self.said["every_ms"] / 1000
            return f"health command: exit {code}" if code else ""
        if self.at > now():
            return ""
        if self.process is not None:
            self.end()
            return f"health command: no answer in {self.said['timeout_ms'] / 1000:g} s"
        self.at = now() + self.said["timeout_ms"] / 1000
        try:
            self.process = subprocess.Popen(
                self.said["command"], cwd=self.order["directory"], env=self.order["environment"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return f"health command: {(error.strerror or str(error)).lower()}"
        return ""

    def end(self) -> None:
        """The task ends, and so does this."""
        self.at = NEVER
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


class Keeper:
    """Runs what the directory orders, until it ends for good."""

    def __init__(self, directory: Path) -> None:
        """Read the order; nothing runs yet."""
        self.directory = directory
        self.order: dict[str, Any] = json.loads((directory / "order.json").read_text())
        self.outputs = {name: Output(directory, name, self.order["log_bytes"]) for name in ("stdout", "stderr")}
        self.lease_over, self.lease_end = self._lease()
        self.limit = now() + self.order["time_limit_ms"] / 1000 if self.order["time_limit_ms"] else NEVER
        self.group = self.oom_kills = 0
        self.asked = False
        self.ending = ""
        """Why the task is being ended: stopped, lease, limit or health."""
        self.check, self.unhealthy = Check(self.order), ""
        self.kill_at = NEVER
        self.selector = selectors.DefaultSelector()
        self.wakes, self.waker = socket.socketpair()
        for end in (self.wakes, self.waker):
            end.setblocking(False)
        self.selector.register(self.wakes, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = not self.ending

    def run(self) -> dict[str, Any]:
        """Run the task, again after a failure as often as ordered; returns how it ended."""
        restart, attempt = self.order["restart"], 1
        delay = restart["delay_ms"] / 1000
        while True:
            how, reason = self._attempt(attempt)
            if how != "failed" or attempt > restart["attempts"] or self.ending:
                return {"how": how, "reason": reason, "attempts": attempt}
            if not self._pause(min(delay, LONGEST_DELAY_SECONDS)):
                return {**self._ended(reason), "attempts": attempt}
            delay *= restart["factor"]
            attempt += 1

    def _attempt(self, attempt: int) -> tuple[str, str]:
        before = self._oom_kills()
        try:
            task = self._start(attempt)
        except (OSError, ValueError) as error:
            self.order["restart"]["attempts"] = 0  # what cannot be started will not be next time
            return "failed", self._why_not(error)
        self.group, self.oom_kills = task.pid, before
        self.check.begin()
        write(self.directory / "running", f"{task.pid} {started(task.pid)} {attempt}")
        while task.poll() is None:
            self._look()
            self._read(self._patience())
        self.check.end()
        self.tell(signal.SIGKILL)  # whoever of its group is left has nothing to live for
        self.group = 0
        with suppress(PermissionError):  # nor who made a group of its own; what sudo started is beyond us
            while left := self._left_behind():
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        self._close(task)
        if self.ending:
            found = self._ended("")
            return found["how"], found["reason"]
        return ("failed", self._failure(task.returncode)) if task.returncode else ("finished", "")

    def _start(self, attempt: int) -> "subprocess.Popen[bytes]":
        task = subprocess.Popen(
            self.order["command"],
            cwd=self.order["directory"],
            env={**self.order["environment"], "OMEGA_ATTEMPT": str(attempt)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=self._confine,  # noqa: PLW1509 - a keeper has one thread
        )
        for stream, name in ((task.stdout, "stdout"), (task.stderr, "stderr")):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self.selector.register(stream, selectors.EVENT_READ, self.outputs[name])
        return task

    def _confine(self) -> None:
        """Between fork and exec: no core files, no more memory than asked for, the cgroup that was made for it."""
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = self.order["memory_bytes"]
        if self.order["cgroup"]:
            with suppress(OSError):
                Path(self.order["cgroup"], "cgroup.procs").write_text(str(os.getpid()))
                limit = 0 if Path(self.order["cgroup"], "memory.max").exists() else limit
        if limit:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def _why_not(self, error: OSError | ValueError) -> str:
        command, directory = self.order["command"][0], self.order["directory"]
        if isinstance(error, ValueError):  # a zero byte, or a variable's name that is none
            return f"cannot run {command!r}: {error}"
        if error.filename == directory:
            return f"directory {directory}: {(error.strerror or str(error)).lower()}"
        if isinstance(error, FileNotFoundError):
            return f"command not found: {command}"
        if isinstance(error, PermissionError):
            return f"not executable: {command}"
        return f"cannot run {command}: {(error.strerror or str(error)).lower()}"

    def _failure(self, code: int) -> str:
        if self._oom_kills() > self.oom_kills:
            return f"out of memory ({self.order['memory_bytes'] >> 20} MiB)"
        if code > 0:
            return f"exit {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"

    def _oom_kills(self) -> int:
        """How many processes of its cgroup the kernel has killed for want of memory."""
        with suppress(OSError, ValueError):
            text = Path(self.order["cgroup"], "memory.events").read_text().partition("oom_kill ")[2]
            return int(text.split("\n")[0])
        return 0

    def _ended(self, reason: str) -> dict[str, str]:
        if self.ending == "health":
            return {"how": "failed", "reason": self.unhealthy}
        if self.ending == "limit":
            return {"how": "failed", "reason": f"time limit of {self.order['time_limit_ms'] / 1000:g} s"}
        return {"how": self.ending, "reason": reason}

    def _left_behind(self) -> list[int]:
        """Processes that the task started and nobody waits for any more, where the system tells."""
        with suppress(OSError):
            text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
            own = {self.group, self.check.process.pid if self.check.process else 0}
            return [pid for pid in map(int, text.split()) if pid not in own]
        return []

    # Time

    def _look(self) -> None:
        """See whether a time is over, or the agent wants the task to end."""
        at, grace = now(), self.order["grace_ms"] / 1000
        if self.asked:
            self._end("stopped", at + grace)
        if self.limit <= at:
            self._end("limit", at + grace)
        if not self.ending and (why := self.check.look()):
            self.unhealthy = why
            self._end("health", at + grace)
        if self.lease_over <= at:
            self.lease_over, self.lease_end = self._lease()
            if self.lease_over <= at:
                self.lease_over = NEVER
                self._end("lease", min(at + grace, self.lease_end))
        if self.kill_at <= at:
            self.tell(signal.SIGKILL)

    def _end(self, why: str, kill_at: float) -> None:
        """Ask the task to end, and kill it later; the first reason stands, and the earliest time."""
        self.kill_at = min(self.kill_at, kill_at)
        if not self.ending:
            self.ending, self.asked, self.limit = why, False, NEVER
            self.tell(signal.SIGTERM)

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to what runs."""
        if self.group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)

    def _lease(self) -> tuple[float, float]:
        """When to begin to end the task, and when it must be gone, unless the agent renews its lease.

        The lease of a later incarnation is none for this task: that one has lost it (semantics 15).
        """
        try:
            over, end, incarnation = Path(self.order["lease"]).read_text().split()
            if incarnation == str(self.order["incarnation"]):
                return float(over), float(end)
        except (OSError, ValueError):
            pass
        return 0.0, 0.0

    def _patience(self) -> float:
        """How long nothing is due; a task that was killed is gone in a moment."""
        left = min(self.lease_over, self.kill_at, self.limit, self.check.at) - now()
        return min(max(left, 0.05 if self.kill_at < NEVER else 0.0), LONG)

    def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; returns whether it is still wanted."""
        until = now() + seconds
        while not self.ending and (left := until - now()) > 0:
            self._read(min(left, self._patience()))
            self._look()
        return not self.ending

    # What it says

    def _read(self, seconds: float) -> bool:
        """Take what the task says, waiting at most so long; whether it said anything."""
        said = False
        for key, _ in self.selector.select(seconds):
            if key.data is None:
                with suppress(BlockingIOError):
                    self.wakes.recv(CHUNK)
                for pid in self._left_behind():
                    os.waitpid(pid, os.WNOHANG)
                continue
            with suppress(BlockingIOError):
                data = os.read(key.fd, CHUNK)
                said = True
                if data:
                    key.data.take(data)
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


def main(directory: str) -> None:
    """Keep the task of a directory."""
    place = Path(directory)
    write(place / "keeper", str(os.getpid()))
    write(place / "result", "", ROOM)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    task = Keeper(place)
    try:
        result = task.run()
    finally:
        task.tell(signal.SIGKILL)  # whatever went wrong here, nothing is left running
    write(place / "result", json.dumps(result), ROOM)


if __name__ == "__main__":
    main(sys.argv[1])

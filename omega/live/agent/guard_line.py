"""An agent's side of its guard: starts it, sends it requests, and replaces one that ended or does not answer."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from omega.live.agent.lease_file import now

ROOT = Path(__file__).resolve().parents[3]
"""Where the package `omega` is found: the guard runs without site-packages."""
PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); from omega.live.agent.guard import main; main(*sys.argv[1:])"
TIMEOUT_SECONDS = 5.0
"""Maximum time for a guard's answer; afterwards it is replaced, and the next one watches its tasks."""

LEAVING_SECONDS = 1.0
"""Time to wait for a guard without tasks."""


class UnansweredError(OSError):
    """The guard did not say whether it started a task: it may have."""


class GuardLine:
    """The guard of the agent with the files in `top`, started on first use. For one thread."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.process: subprocess.Popen[bytes] | None = None
        self.ended: set[str] = set()
        """Directories of tasks of which the guard said that they ended, until the agent takes them out."""
        self._channel: socket.socket | None = None
        self._unread = b""
        self._asked = 0.0
        """Time of the unanswered ping; 0 when there is none."""

    @property
    def pid(self) -> int:
        """The guard's process id; 0 when there is none."""
        return self.process.pid if self.process is not None else 0

    def fileno(self) -> int:
        """Descriptor that becomes readable when a task or the guard ended; -1 without a guard."""
        return self._channel.fileno() if self._channel is not None else -1

    def start(self, place: Path, store: str) -> int:
        """Start a supervisor for a task's directory; returns the guard's process id. Raises OSError."""
        self.ensure()
        what = f"task {place.name}"

        def is_answer(said: dict[str, Any]) -> bool:
            return str(place) in (said.get("started"), said.get("refused"))

        said = self._ask({"start": str(place), "store": store}, what, is_answer)
        if "refused" in said:
            raise OSError(f"{what}: {said['why']}")
        return self.pid

    def try_start(self) -> None:
        """Have a guard that runs do what the start of a task needs. Raises OSError."""
        if self.process is not None:
            said = self._ask({"try": True}, "a trial", lambda said: "tried" in said)
            if said["tried"]:
                raise OSError(said["tried"])

    def _ask(self, what: dict[str, Any], name: str, is_answer: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the guard's answer to a request. Raises UnansweredError."""
        self._send(what)
        limit = now() + TIMEOUT_SECONDS
        while True:
            for said in self._read(max(0.0, limit - now())):
                if is_answer(said):
                    return said
            if self.process is None:
                raise UnansweredError(f"{name}: its guard ended; see {self.top / 'guard.log'}")
            if now() >= limit:
                self.end()
                raise UnansweredError(f"{name}: no answer from its guard in {TIMEOUT_SECONDS:g} s")

    def look(self) -> None:
        """Replace a guard that ended or does not answer; ping the current one."""
        self.hear()
        if self._asked and now() - self._asked > TIMEOUT_SECONDS:
            self.end()
        self.ensure()
        if not self._asked:
            self._asked = now()
            self._send({"ping": True})

    def hear(self) -> bool:
        """Read the guard's reports; return whether a task or the guard ended. The answer to a ping is no reason."""
        before = self.process
        reports = self._read(0.0)
        return self.process is not before or any("pong" not in said for said in reports)

    def ensure(self) -> None:
        """Start a guard if none runs. Raises OSError."""
        if self.process is not None:
            return
        ours, theirs = socket.socketpair()
        log = os.open(self.top / "guard.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT), str(self.top), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        finally:
            theirs.close()
            os.close(log)
        self._channel, self._unread, self._asked = ours, b"", 0.0

    def end(self) -> None:
        """Kill the guard; its supervisors keep their deadlines, and the next guard watches them."""
        if self.process is not None:
            with suppress(OSError):
                self.process.send_signal(signal.SIGKILL)
            if self._channel is not None:
                self._channel.close()
            self.process.wait()
        self.process = self._channel = None

    def close(self) -> None:
        """Detach from the guard; it ends after the last task."""
        if self._channel is not None:
            self._channel.close()
        if self.process is not None:
            try:
                self.process.wait(LEAVING_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.returncode = 0  # it keeps watching tasks and is not waited for
        self.process = self._channel = None

    def _send(self, what: dict[str, Any]) -> None:
        if self._channel is not None:
            try:
                self._channel.settimeout(TIMEOUT_SECONDS)
                self._channel.sendall(json.dumps(what).encode() + b"\n")
            except OSError:
                self.end()

    def _read(self, seconds: float) -> list[dict[str, Any]]:
        """Return the guard's reports, waiting at most `seconds`; a guard that closed the channel has ended."""
        if self._channel is None or not select.select([self._channel], [], [], seconds)[0]:
            return []
        try:
            data = self._channel.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.end()
            return []
        *lines, self._unread = (self._unread + data).split(b"\n")
        reports = [json.loads(line) for line in lines]
        self.ended.update(said["ended"] for said in reports if "ended" in said)
        if any("pong" in said for said in reports):
            self._asked = 0.0
        return reports

"""The processes of a cell on this computer: schedulers and executors, started, watched and stopped."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Self

from omega.cellstate.errors import StoreError
from omega.cellstate.model import MachineState
from omega.cellstate.replies import executor_of
from omega.live.agent.task_start import STORE_FD, giving
from omega.live.processes.bound import BOUND, LEAVING_SECONDS
from omega.live.processes.record import ProcessRecord
from omega.live.secrets import without_store
from omega.schedulers.process.endpoint import METRICS, parse
from omega.schedulers.process.signals import leave_signals
from omega.schedulers.sharing import LEASE_MS

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Executors

TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ")
"""The beginning of a line of a log (schedulers/process/log.py)."""
STARTING_SECONDS = 60.0
FIRST_RESTART_SECONDS, LONGEST_RESTART_SECONDS = 1.0, 60.0
"""Time after which a member that ended is started again: the first time, and at most. Each further time doubles it."""
STEADY_SECONDS = 60.0
"""Time that a member runs until its restarts are counted from the first one again."""


@dataclass(slots=True)
class ProcessSupervisor:
    """Processes of one cell; as a context manager it ends them all. `logs` has a file with the error stream of each.

    Inside the block a signal to leave raises KeyboardInterrupt, as Ctrl-C does.
    """

    url: str
    cell: str
    logs: Path
    lease_ms: int = LEASE_MS
    speed: float = 1.0
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the members' environment, such as OMEGA_DETECTION (see member.py)."""
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Variables for the members of one kind, by kind: OMEGA_SCHEDULER and so on."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Modules of members that are no schedulers or executors and hold no lease, by kind: the console."""
    ports: dict[str, str] = field(default_factory=dict)
    """Metrics endpoints of the members: the first at OMEGA_METRICS, each further one on the next port."""
    members: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    bound: bool = False
    """Whether the members end with this process, however it ends; members of `omega up` do not."""
    record: ProcessRecord | None = None
    """Where the processes are recorded, for `omega down`."""
    _line: tuple[int, int] | None = None
    """A pipe that nobody writes to: bound members read its end when this process has ended."""
    _interrupting: Sequence[int] = ()
    _started: dict[str, float] = field(default_factory=dict)
    _restarts: dict[str, int] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)
    """When members that ended are started again."""

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._interrupting = [each for each in leave_signals() if signal.getsignal(each) is signal.SIG_DFL]
        for each in self._interrupting:
            signal.signal(each, signal.default_int_handler)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
            if self.record is not None:
                self.record.end()
        finally:
            for descriptor in self._line or ():
                os.close(descriptor)
            self._line = None
            for each in self._interrupting:
                signal.signal(each, signal.SIG_DFL)

    def start(self, member: str) -> int:
        """Start ``batch/0``, ``simulated/NAME``, ``agent/NAME`` and so on; returns the process id."""
        self.logs.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs.mkdir(mode=0o700, exist_ok=True)
        self.logs.chmod(0o700)  # it may be there from before, with another mode
        environment = without_store(os.environ) | {
            "OMEGA_CELL": self.cell,
            "OMEGA_MEMBER": member,
            "OMEGA_LEASE_MS": str(self.lease_ms),
            "OMEGA_SPEED": str(self.speed),
            **self.settings,
            **self.choices.get(member.partition("/")[0], {}),
            **({} if member.partition("/")[0] in self.programs else self._metrics(member)),
        }
        words = [] if self.record is None else self.record.words(member)
        if self.record is not None:
            self.record.note({member, *self.members})
        with (self.logs / f"{member.replace('/', '-')}.log").open("ab") as log, giving(self.url) as source:
            # An own process group: Ctrl-C reaches the terminal's command first, which lets members finish.
            process = subprocess.Popen(
                [sys.executable, "-m", self.programs.get(member.partition("/")[0], "omega.live.member"), *words],
                stdin=self._bind() if self.bound else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment | {STORE_FD: str(source.fileno()), **({BOUND: "1"} if self.bound else {})},
                pass_fds=(source.fileno(),),
                start_new_session=True,
            )
        self.members[member], self._started[member] = process, time.monotonic()
        return process.pid

    def _bind(self) -> int:
        """Return the descriptor that bound members read."""
        self._line = self._line or os.pipe()
        return self._line[0]

    def _metrics(self, member: str) -> dict[str, str]:
        """Return the metrics variable; a restarted member keeps its port."""
        where = os.environ.get(METRICS)
        if not where:
            return {}
        if member not in self.ports:
            address, port = parse(where)
            self.ports[member] = f"{address}:{port + len(self.ports) if port else 0}"
        return {METRICS: self.ports[member]}

    def wait_ready(self, cell: "Cell") -> None:
        """Wait until every member holds its lease and its machines are up; StoreError when one of them ended."""
        wanted = {member for member in self.members if member.partition("/")[0] not in self.programs}
        deadline = time.monotonic() + STARTING_SECONDS
        while True:
            live = {member for member, (_, alive, _) in cell.schedulers.members().items() if alive}
            live |= {
                executor_of(name)
                for name, agent in cell.executors.agents().items()
                if agent.lives and cell.machines.index_of(name) is not None
            }
            live |= {f"simulated/{name}" for name in _serving(cell.executors, wanted - live)}
            if wanted <= live:
                return
            for member in sorted(wanted - live):
                code = self.members[member].poll()
                if code is not None:
                    raise StoreError(f"{_called(member)}: {self.end_of(member, code)}")
            if time.monotonic() > deadline:
                late = ", ".join(sorted(wanted - live))
                raise StoreError(f"members {late}: not ready after {STARTING_SECONDS:.0f} s; see {self.logs}")
            time.sleep(0.02)

    def last_words(self, member: str) -> str:
        """Return the last line of a member's error stream, without its time."""
        lines = (
            (self.logs / f"{member.replace('/', '-')}.log").read_text("utf-8", errors="replace").strip().splitlines()
        )
        return TIME.sub("", lines[-1]) if lines else "no output"

    def end_of(self, member: str, code: int) -> str:
        """Return how a member ended, as text: its signal, or its exit status with the last line of its error stream."""
        if code < 0:
            return f"killed by signal {-code}"
        if not code:
            return "ended in order"  # a warning that it printed earlier is not the reason
        return f"ended with code {code}: {self.last_words(member)}"

    def dead(self) -> dict[str, int]:
        """Return members that exited unexpectedly, with their exit codes."""
        return {name: code for name, process in self.members.items() if (code := process.poll()) is not None}

    def restart_dead(self) -> list[tuple[str, int, float]]:
        """Start members again that ended, each after a delay that grows while it keeps ending.

        Returns those that ended since the last call: name, exit code and delay in seconds. An agent that ended in order
        stays away, with an infinite delay: an operator removed its machine.
        """
        now, ended = time.monotonic(), list[tuple[str, int, float]]()
        for member, code in self.dead().items():
            if member.startswith("agent/") and not code:
                del self.members[member]
                ended.append((member, code, inf))
            elif member not in self._due:
                steady = now - self._started[member] >= STEADY_SECONDS
                count = self._restarts[member] = 0 if steady else self._restarts.get(member, -1) + 1
                delay = min(LONGEST_RESTART_SECONDS, FIRST_RESTART_SECONDS * 2 ** min(count, 16))
                self._due[member] = now + delay
                ended.append((member, code, delay))
            elif now >= self._due[member]:
                del self._due[member]
                self.start(member)
        return ended

    def kill(self, member: str) -> None:
        """Kill a member (SIGKILL), as a fault would."""
        process = self.members.pop(member)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Ask all members to finish and exit; kill those that do not after a time-out."""
        for process in self.members.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + LEAVING_SECONDS
        for process in self.members.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.members.clear()


def _serving(executors: "Executors", members: Iterable[str]) -> Iterator[str]:
    """Yield the live simulated executors among members without offline machines."""
    records = executors.records()
    for member in members:
        name = member.removeprefix("simulated/")
        lives = name != member and name in records and records[name].lives
        if lives and all(state is not MachineState.OFFLINE for _, state in executors.machines_of(name)):
            yield name


def _called(member: str) -> str:
    """Return a member's name in messages: ``scheduler batch/0``, ``agent/h1``, ``web/127.0.0.1:7070``."""
    return member if member.startswith(("agent/", "web/")) else f"scheduler {member}"

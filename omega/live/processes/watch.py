"""A process that watches another: it ends a scheduler in which a call of a policy does not return, and starts it again.

A thread cannot be ended, and a call in C may hold the interpreter's lock: only another process bounds foreign code. The
watching process forks the scheduler before there are threads, and looks at the memory that they share (beat.py). It
forwards signals to leave, and kills what has not left in the time for that.
"""

import faulthandler
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from signal import Signals
from sysconfig import get_paths

import omega
from omega.cellstate.errors import BadInput
from omega.live.agent.process_control import signal_at_parents_death
from omega.live.processes.bound import LEAVING_SECONDS
from omega.schedulers.failing import Hung
from omega.schedulers.process.beat import ALIVE, HEARTBEAT, INCARNATION, JOB, LOOP, TOGETHER, Beat
from omega.schedulers.process.log import log
from omega.schedulers.process.signals import leave_signals

CALL_SECONDS = 10.0
"""Time that a policy has for one job, and each other call of policies."""
LOCK_SECONDS = 1.5
"""The same for a call that holds the interpreter's lock: the lease, which nobody renews, must outlast it."""
LOOK_SECONDS = 0.25
KILLING_SECONDS = LEAVING_SECONDS - 5.0
"""Time from a signal to leave until the process is killed: before this one is killed itself."""
FIRST_DELAY, LONGEST_DELAY = 10.0, 3600.0
"""Seconds for which a job is set aside: after the first call that did not return, and at most. Each doubles them."""
SHORTEST_RUN = 60.0
"""A process that ran for so long before a call of no job did not return is started again without delay."""
PLACE = re.compile(r'^  File "(.+)", line (\d+) in (.+)$')
"""A frame as faulthandler writes it."""


def call_seconds(environment: Mapping[str, str]) -> float:
    """Return the time that a policy has for one job: that of OMEGA_CALL_SECONDS. Raises BadInput."""
    text = environment.get("OMEGA_CALL_SECONDS", "")
    try:
        seconds = float(text or CALL_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadInput(f"OMEGA_CALL_SECONDS: {text!r} is no number of seconds above 0")
    return seconds


@dataclass(slots=True)
class _Call:
    """How long a part of the process has been in one call of policies; the first of `numbers` is its counter."""

    words: memoryview
    numbers: tuple[int, ...]
    stalled: float = 0.0
    silent: float = 0.0
    """The same while the event loop has begun to turn, and does not turn either."""
    _seen: tuple[int, ...] = ()
    _turns: int = 0

    def look(self, passed: float) -> None:
        """Compare with the last look, `passed` seconds ago."""
        seen, turns = tuple(self.words[number] for number in self.numbers), self.words[ALIVE]
        if seen != self._seen or not seen[0] & 1:
            self.stalled = self.silent = 0.0
        else:
            self.stalled += passed
            self.silent = self.silent + passed if turns == self._turns and turns else 0.0
        self._seen, self._turns = seen, turns


@dataclass(slots=True)
class Watch:
    """Watches one process, which `call` is in a child; `call` gets what the watching process found out."""

    name: str
    seconds: float = CALL_SECONDS
    beat: Beat = field(default_factory=Beat)
    former: int = 0
    """The incarnation of the process before, which was killed; 0 for none."""
    text: str = ""
    """Why it was killed, if no job was the cause."""
    _hung: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    """Jobs at which a call did not return: text, how often, and until when they are set aside (monotonic)."""
    _alone: tuple[int, float] = (0, 0.0)
    """How often a call for several jobs did not return, and until when jobs are placed one after another."""
    _stacks: int = field(default_factory=lambda: os.memfd_create("stacks"))
    _child: int = 0

    def run(self, call: Callable[["Watch"], int]) -> int:
        """Run `call` in a child, again after each call that does not return; returns its exit code."""
        signals = {*leave_signals(), Signals.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            while True:
                began = time.monotonic()
                self._fork(call, before)
                code = self._until_end(signals)
                if code is not None:
                    return code
                if self.text and (left := began + SHORTEST_RUN - time.monotonic()) > 0:
                    waited = signal.sigtimedwait(leave_signals(), left)
                    if waited is not None and waited.si_signo in leave_signals():
                        return 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def hung(self) -> Mapping[str, Hung]:
        """Return the jobs at which a call did not return, with the seconds for which they are still set aside."""
        now = time.monotonic()
        return {job: Hung(text, max(0.0, until - now)) for job, (text, _, until) in self._hung.items()}

    def alone(self) -> float:
        """Return for how many seconds jobs are placed one after another."""
        return max(0.0, self._alone[1] - time.monotonic())

    def _fork(self, call: Callable[["Watch"], int], mask: set[Signals] | set[int]) -> None:
        self.beat.clear()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._child = os.fork()
        if self._child:
            return
        code = 1
        try:
            signal_at_parents_death(Signals.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            faulthandler.register(signal.SIGUSR2, file=self._stacks, all_threads=True)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            code = call(self)
        except BaseException:  # noqa: BLE001 - the process ends with it
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _until_end(self, signals: set[Signals]) -> int | None:
        """Wait until the child ends; return its exit code, or None when it was killed and is to be started again."""
        words, deadline, last = self.beat.words, float("inf"), time.monotonic()
        calls, leaving = [_Call(words, (LOOP, JOB)), _Call(words, (HEARTBEAT,))], signals - {Signals.SIGCHLD}
        while True:
            received = signal.sigtimedwait(signals, LOOK_SECONDS)
            pid, status = os.waitpid(self._child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            # Where a stop of this process outlasts the wait, Python answers with what no signal filled in.
            if received is not None and received.si_signo in leaving:
                if received.si_pid:  # a terminal sends its own to both
                    os.kill(self._child, received.si_signo)
                os.kill(self._child, Signals.SIGCONT)
                deadline = min(deadline, time.monotonic() + KILLING_SECONDS)
            now = time.monotonic()
            passed, last = min(now - last, 2 * LOOK_SECONDS), now  # this process may have stood still, too
            if now > deadline:
                log.warning("killed", member=self.name, why=f"it did not leave within {KILLING_SECONDS:g} s")
                self._kill()
                return 1
            for call in calls:
                call.look(passed)
                if call.stalled >= self.seconds or call.silent >= min(self.seconds, LOCK_SECONDS):
                    self._charge(call)
                    self._kill()
                    return None if deadline == float("inf") else 1

    def _charge(self, call: "_Call") -> None:
        """Find out where a call does not return, and for which jobs."""
        jobs = self.beat.jobs if LOOP in call.numbers else []
        together = bool(jobs) and self.beat.words[JOB] == TOGETHER
        self.former = self.beat.words[INCARNATION]
        os.ftruncate(self._stacks, 0)
        os.lseek(self._stacks, 0, os.SEEK_SET)
        os.kill(self._child, signal.SIGUSR2)
        time.sleep(LOOK_SECONDS)
        stacks = os.pread(self._stacks, 1 << 16, 0).decode(errors="replace")
        text = f"a policy did not return within {call.stalled:.1f} s{place_of(stacks)}; its process was started again"
        now, self.text = time.monotonic(), ""
        if together:
            count = self._alone[0] + 1
            self._alone = count, now + _delay(count)
        elif jobs:
            count = self._hung.get(jobs[0], ("", 0, 0.0))[1] + 1
            self._hung[jobs[0]] = text, count, now + _delay(count)
        else:
            self.text = text
        about = f"{len(jobs)} placed together" if together else jobs[0] if jobs else "none"
        log.warning("policy hangs", member=self.name, job=about, error=text)

    def _kill(self) -> None:
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _delay(count: int) -> float:
    return float(min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(count - 1, 16)))


def place_of(stacks: str) -> str:
    """Return the place of a call that does not return, by the stacks that faulthandler writes: `` (mine.py:14 in f)``.

    It is the innermost frame of a policy's file in the first thread in which there is one.
    """
    paths = get_paths()
    library, own = paths["stdlib"], tuple(omega.__path__)
    installed = paths["purelib"], paths["platlib"]
    roots = (*own, *(os.path.realpath(f"{each}/{part}") for each in own for part in ("schedulers", "cellstate", "cli")))
    for thread in stacks.split("\n\n"):
        frames = [match.groups() for line in thread.splitlines() if (match := PLACE.match(line))]
        if not any(file.endswith("/live_driver.py") for file, _, _ in frames):
            continue
        for file, line, name in frames:
            if file.startswith(library) and not file.startswith(installed):
                continue
            if not file.startswith(roots) or name != "calling":
                return f" ({file}:{line} in {name})"
    return ""

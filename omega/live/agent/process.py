"""An agent as a process: it iterates on a message, at the end of a task, and in time for its lease.

One thread makes all calls to the store except two. Waiting for the agent's mailbox has a thread and a connection of
its own, because one thread cannot wait for a mailbox and processes at once; so has the renewal of the lease, which
must not wait for other calls (renewal.py). SIGTERM and SIGINT stop the tasks, and the agent deregisters.
"""

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from omega.cellstate.descriptors import keep_spare
from omega.cellstate.durability import UNCHECKED
from omega.cellstate.errors import CellGone, Fenced, HistoryCut, Refused, StoreError
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import executor_of
from omega.cellstate.store import connect_cell
from omega.live.agent import offer, runners
from omega.live.agent.agent import LEASE_MS, Agent, BlindError
from omega.live.agent.cgroups import Cgroups
from omega.live.agent.lease_file import now
from omega.live.agent.output import KEEP_BYTES, TAIL_SECONDS
from omega.live.agent.output_answers import answer_requests
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process_control import hide_memory
from omega.live.agent.renewal import BEATS
from omega.live.agent.run_as import admit, task_user
from omega.live.metrics import shown
from omega.schedulers.process.endpoint import METRICS
from omega.schedulers.process.log import log
from omega.schedulers.process.signals import await_store, leave_signals, once_there

RING_SECONDS = 4.0
"""Time to wait at the mailbox per call; shorter than the reply timeout of a connection."""
AWAY_SECONDS = 0.5
SOON_SECONDS = 0.1
"""Poll interval while a task waits for the end of another."""
HEALTH_SECONDS = 1.0
"""Poll interval for the results of health commands."""
LATE_SECONDS = 5.0
"""Time beyond the grace of its tasks after which an agent that leaves kills what has not ended."""
FOUND_SECONDS = 0.25
"""Poll interval for the end of tasks of an earlier agent, which no guard reports."""


SPARE = 4
"""Descriptors kept for when no further file may be opened: one for files, and one for each connection to the store."""


class WakeUp:
    """Wakes the agent: a socket that signals and other threads write to."""

    def __init__(self) -> None:
        self.stopped = False
        self._reading, self._writing = socket.socketpair()
        for end in (self._reading, self._writing):
            end.setblocking(False)

    def wake(self) -> None:
        """Wake the agent."""
        with suppress(BlockingIOError, OSError):
            self._writing.send(b".")

    def wait(self, seconds: float, also: int = -1) -> bool:
        """Wait at most `seconds`, or until the descriptor `also` is readable; returns whether the agent was woken."""
        heard = [self._reading.fileno(), *([also] if also >= 0 else [])]
        ready, _, _ = select.select(heard, [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            while self._reading.recv(4096):
                pass
        return self._reading.fileno() in ready

    def sleep(self, seconds: float) -> None:
        """Wait until the time is over, or the agent is asked to stop."""
        until = now() + seconds
        while not self.stopped and now() < until:
            self.wait(until - now())

    def stop(self, *_: object) -> None:
        """Ask the agent to stop."""
        self.stopped = True
        self.wake()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let termination signals stop the agent and SIGCHLD wake it during the block."""
        before = {number: signal.signal(number, self.stop) for number in leave_signals()}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: self.wake())
        try:
            with self.opened():
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open the sockets during the block, without signals."""
        try:
            yield
        finally:
            self._reading.close()
            self._writing.close()


def wait_at_mailbox(url: str, cell: str, agent: Agent, wake_up: WakeUp) -> None:
    """Answer requests for output in the agent's mailbox, and ring whenever it has other messages, whatever they are."""
    own: RedisCell | None = None
    while not wake_up.stopped:
        try:
            own = own or connect_cell(url, cell)
            messages = own.executors.receive(own.executors.number(agent.executor), wait_seconds=RING_SECONDS)
            if not all(message.startswith("? ") for message in messages):
                wake_up.wake()
            answer_requests(own.tasks, agent.places, messages)
        except (StoreError, Refused, OSError):
            threading.Event().wait(AWAY_SECONDS)  # the agent's thread gets the same error and reports it
    if own is not None:
        own.close()


class AgentLoop:
    """Runs one agent until it is asked to stop."""

    def __init__(self, agent: Agent, wake_up: WakeUp) -> None:
        self.agent, self.wake_up = agent, wake_up
        self.log = log.bind(member=agent.executor)
        self.come = self.away = False
        self.looked = 0.0

    def run(self) -> None:
        """Iterate and wait; waits for an unavailable store, cell or name.

        Tasks continue until the deadline of the lease, which stops them when nothing renews it. They stop at once when
        the cell answers and another agent has this name: then no run is listed (semantics 16).
        """
        while not self.wake_up.stopped:
            try:
                self.step()
                if self.away:
                    self.log.warning("goes on")
                self.away = False
                if self.agent.removed:
                    self.log.warning("removed", why="an operator removed the machine from the cell; the agent ends")
                    break
                self.rest()
            except (StoreError, Refused, OSError) as error:  # OSError: full disk
                if not self.away:
                    self.log.warning(_away(error), error=str(error))
                if isinstance(error, BlindError) and self.come and now() - self.agent.blind > self.agent.lease.seconds:
                    self.log.warning("gives up its lease", error=str(error))
                    self.agent.give_up(str(error))
                    self.come = False
                    self.wake_up.sleep(self.agent.lease.seconds)
                elif isinstance(error, OSError):
                    self.agent.stumbled(error)
                if isinstance(error, Refused) and not isinstance(error, HistoryCut):
                    self.agent.stop()
                self.away = True
                self.wake_up.wait(AWAY_SECONDS)
        try:
            self.end()
        except OSError as error:  # its tasks end by their lease, and it says nothing of them
            self.log.warning("leaves its tasks", error=str(error))
            self.agent.guard.close()

    def step(self) -> None:
        """Register if necessary, else iterate."""
        self.looked = now()
        try:
            if self.come:
                self.agent.look()
                return
        except Fenced as error:
            self.come, lost = False, isinstance(error, HistoryCut)
            self.log.warning("fenced", why=str(error) if lost else "its lease lapsed; it registers again")
        self.agent.cell.check_there()  # each time: the cell that comes back may be another one
        self.agent.come(self.until_gone)
        self.come = True
        self.log.info("joined")

    def rest(self) -> None:
        """Wait for a reason to iterate."""
        due = self.looked + (0.0 if self.agent.behind else self.agent.lease_ms / 1000 / BEATS)
        while not self.agent.ended and (left := due - now()) > 0:
            if self.agent.waiting:
                left = min(left, SOON_SECONDS)
            elif self.agent.unwatched:
                left = min(left, FOUND_SECONDS)
            checked = self.agent.health.watched(self.agent.kept.values())
            left = min(left, HEALTH_SECONDS) if checked else left
            left = min(left, TAIL_SECONDS) if self.agent.kept else left
            woken = self.wake_up.wait(left, self.agent.guard.fileno())
            woken = self.agent.guard.hear() or woken
            if woken or self.agent.waiting or self.agent.has_output:
                return
            if checked and self.agent.health.changed(checked):
                return

    def until_gone(self) -> None:
        """Wait until tasks that the cell does not list have ended."""
        while going := [kept for kept in self.agent.kept.values() if kept.unlisted and kept.lives]:
            for kept in going:
                kept.stop()  # again: a supervisor that has just begun is not told
            self.wake_up.wait(FOUND_SECONDS)

    def end(self) -> None:
        """Stop all tasks and deregister; an unavailable store detects it by the lease."""
        late = now() + self.agent.longest_grace + LATE_SECONDS
        while any(kept.lives for kept in self.agent.kept.values()):
            self.agent.stop()
            if now() >= late:  # a supervisor stands still
                self.agent.kill()
            self.wake_up.wait(FOUND_SECONDS)
            if now() - self.looked > self.agent.lease_ms / 1000 / BEATS:
                self.looked = now()
                with suppress(StoreError, Fenced):
                    self.agent.lease.renew(self.agent.cell)
        if self.come:
            with suppress(StoreError, Fenced):
                self.agent.leave()
                self.log.info("left")
        self.agent.guard.close()


def _away(error: Exception) -> str:
    if isinstance(error, CellGone):
        return "cell away"
    return "store away" if isinstance(error, StoreError) else "refused" if isinstance(error, Refused) else "no room"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """`amounts` and `attributes` override detected ones; tasks run as user `run_as`, else as the agent's."""

    amounts: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    lease_ms: int = LEASE_MS
    run_as: str | None = None
    keep_bytes: int = KEEP_BYTES
    """Bytes of disk that the directories of tasks, with their output, may take."""


def run_agent(
    url: str, cell: str, name: str, state: Path, options: AgentOptions, came: Callable[[Agent], None] = lambda _: None
) -> bool:
    """Offer this computer to a cell until a signal, or until an operator removes the machine: then return True.

    `state` is the state directory. `came` is called when the machine is offered. Raises OmegaError when it cannot join,
    or the cell was deleted.
    """
    hide_memory()
    keep_spare(SPARE)
    await_store(url, executor_of(name))
    places = AgentPlaces(state, cell, name)
    user = task_user(options.run_as) if options.run_as is not None else None
    places.make()
    if user is not None:
        admit(places, user)
    lock = places.lock()
    own = connect_cell(url, cell)
    try:
        detected = {"cpu": f"{offer.cpu_millicores()}m", "memory": f"{offer.memory_mib()}Mi"}
        amounts = {each: text for each, text in detected.items() if each in own.dimensions.names} | dict(
            options.amounts
        )
        capacity = own.dimensions.parse_capacity(amounts)
        there, of_runners = runners.found()
        cgroups = Cgroups.prepare(f"{cell}-{name}")
        known = offer.attributes() | {"cgroups": "v2" if cgroups.limit_memory else "none"} | of_runners
        machine = MachineSpec(name, capacity, known | dict(options.attributes))
        agent = Agent(
            own, machine, places, options.lease_ms, cgroups=cgroups, user=user, runners=there,
            keep_bytes=options.keep_bytes,
        )  # fmt: skip
        agent.find()
        numbers = {
            "omega_agent_tasks": ("Running tasks", lambda: sum(kept.lives for kept in list(agent.kept.values()))),
            "omega_agent_kept": ("Tasks of the agent, including unreported ended ones", lambda: len(agent.kept)),
        }
        with shown(os.environ.get(METRICS), cell, agent.executor, numbers):
            _stay(agent, url, cell, came)
        return agent.removed
    finally:
        own.close()
        os.close(lock)


def _stay(agent: Agent, url: str, cell: str, came: Callable[[Agent], None]) -> None:
    wake_up = WakeUp()
    with wake_up.on_signals():
        watch = AgentLoop(agent, wake_up)
        if agent.cell.unchecked:
            watch.log.warning(UNCHECKED)
        once_there(watch.step, agent.executor, lambda: wake_up.stopped)
        came(agent)
        if agent.cgroups.why_not:
            watch.log.warning("no cgroups", why=agent.cgroups.why_not)
        mailbox = threading.Thread(target=wait_at_mailbox, args=(url, cell, agent, wake_up), daemon=True)
        mailbox.start()
        stop = threading.Event()

        def connect(seconds: float) -> RedisCell:
            return connect_cell(url, cell, timeout=seconds)

        threading.Thread(target=agent.lease.run, args=(connect, stop), daemon=True).start()
        try:
            watch.run()
        finally:
            stop.set()
            wake_up.stop()  # the mailbox thread ends with the process

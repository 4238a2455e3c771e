"""An agent as a process: it looks when its box rings, when a task ends, and in time for its lease.

One thread makes every call to the store but two. One that waits at the agent's box has a thread and a connection of
its own, because that wait and the wait for processes cannot be one; so has the renewal of the lease, which waits for
no other call (renewal.py). SIGTERM and SIGINT end the tasks, and the agent leaves in order.
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

from cellstate.errors import CellGone, Fenced, Refused, StoreError
from cellstate.model import MachineSpec
from cellstate.redis import RedisCell
from cellstate.server import check_suitable, server_info
from omega.live.agent import offer
from omega.live.agent.agent import LEASE_MS, Agent
from omega.live.agent.cgroups import Cgroups
from omega.live.agent.lease_file import now
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process_control import hide_memory
from omega.live.agent.renewal import BEATS
from omega.live.agent.run_as import admit, task_user
from omega.live.metrics import shown
from schedulers.process_endpoint import METRICS
from schedulers.process_log import log
from schedulers.process_signals import leave_signals

RING_SECONDS = 4.0
"""How long to wait at the box before asking once more; shorter than what a connection waits for its reply."""
AWAY_SECONDS = 0.5
SOON_SECONDS = 0.1
"""How often to ask whether something may start that must wait for another's end."""
FOUND_SECONDS = 0.25
"""How often to see whether tasks ended that an earlier agent started: nobody tells their end."""


class Bell:
    """Wakes the agent: a socket that signals, and whoever rings, write to."""

    def __init__(self) -> None:
        """Nobody rang; nobody asked to stop."""
        self.stopped = False
        self._ear, self._rope = socket.socketpair()
        for end in (self._ear, self._rope):
            end.setblocking(False)

    def ring(self) -> None:
        """Wake the agent."""
        with suppress(BlockingIOError, OSError):
            self._rope.send(b".")

    def wait(self, seconds: float, also: int = -1) -> bool:
        """Wait for so long; returns whether somebody rang, or the descriptor `also` can be read."""
        heard = [self._ear.fileno(), *([also] if also >= 0 else [])]
        ready, _, _ = select.select(heard, [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            while self._ear.recv(4096):
                pass
        return bool(ready)

    def stop(self, *_: object) -> None:
        """Ask the agent to leave."""
        self.stopped = True
        self.ring()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let a signal to leave stop the agent and a child's end wake it, for as long as the block runs."""
        before = {number: signal.signal(number, self.stop) for number in leave_signals()}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: self.ring())
        try:
            with self.ringing():
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def ringing(self) -> Iterator[None]:
        """Be a bell for as long as the block runs, without signals."""
        try:
            yield
        finally:
            self._ear.close()
            self._rope.close()


def wait_at_box(url: str, cell: str, executor: str, bell: Bell) -> None:
    """Ring whenever the box of an executor has something; the messages say no more than that."""
    own: RedisCell | None = None
    while not bell.stopped:
        try:
            own = own or RedisCell.connect(url, cell)
            if own.receive(own.executor_number(executor), wait_seconds=RING_SECONDS):
                bell.ring()
        except (StoreError, Refused):
            threading.Event().wait(AWAY_SECONDS)  # whoever looks meets the same error and tells of it
    if own is not None:
        own.close()


class Watch:
    """Keeps one agent at work until its bell is told to stop."""

    def __init__(self, agent: Agent, bell: Bell) -> None:
        """The agent has not come yet."""
        self.agent, self.bell = agent, bell
        self.log = log.bind(member=agent.executor)
        self.come = self.away = False
        self.looked = 0.0

    def run(self) -> None:
        """Look, wait, look again; a store, a cell or a name that is away is waited for.

        Tasks run on until the deadline of the lease, which ends them when nothing renews it. They end at once when
        the cell answers and another has this agent's name: then nothing here is listed (semantics 16).
        """
        while not self.bell.stopped:
            try:
                self.step()
            except (StoreError, Refused, OSError) as error:  # so is a disk that is full
                if not self.away:
                    self.log.warning(_away(error), error=str(error))
                if isinstance(error, Refused):
                    self.agent.stop()
                self.away = True
                self.bell.wait(AWAY_SECONDS)
            else:
                if self.away:
                    self.log.warning("goes on")
                self.away = False
                self.rest()
        self.end()

    def step(self) -> None:
        """Come when it must, else look."""
        self.looked = now()
        try:
            if self.come:
                self.agent.look()
                return
        except Fenced:
            self.log.warning("fenced", why="its lease lapsed; it comes again")
            self.agent.cell.check_there()
        self.agent.come(self.until_gone)
        self.come = True
        self.log.info("joined")

    def rest(self) -> None:
        """Wait until there is a reason to look."""
        due = self.looked + (0.0 if self.agent.behind else self.agent.lease_ms / 1000 / BEATS)
        while not self.agent.ended and (left := due - now()) > 0:
            if self.agent.waiting:
                left = min(left, SOON_SECONDS)
            elif self.agent.unwatched:
                left = min(left, FOUND_SECONDS)
            rang = self.bell.wait(left, self.agent.guard.fileno())
            self.agent.guard.hear()
            if rang or self.agent.waiting:
                return

    def until_gone(self) -> None:
        """Wait until the tasks that are not ours any more are gone."""
        while any(kept.unlisted and kept.lives for kept in self.agent.kept.values()):
            self.bell.wait(FOUND_SECONDS)

    def end(self) -> None:
        """End all tasks and leave; a store that is away finds out by the lease."""
        while any(kept.lives for kept in self.agent.kept.values()):
            self.agent.stop()
            self.bell.wait(FOUND_SECONDS)
            if now() - self.looked > self.agent.lease_ms / 1000 / BEATS:
                self.looked = now()
                with suppress(StoreError, Fenced):
                    self.agent.renew()
        if self.come:
            with suppress(StoreError, Fenced):
                self.agent.leave()
                self.log.info("left")
        self.agent.guard.close()


def _away(error: Exception) -> str:
    """What an agent waits for."""
    if isinstance(error, CellGone):
        return "cell away"
    return "store away" if isinstance(error, StoreError) else "refused" if isinstance(error, Refused) else "no room"


def _nobody(agent: Agent) -> None:
    """Nobody wants to be told."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """`amounts` and `attributes` win over what the agent finds; tasks run as the user `run_as`, else as its own."""

    amounts: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    lease_ms: int = LEASE_MS
    run_as: str | None = None


def run_agent(
    url: str, cell: str, name: str, state: Path, options: AgentOptions, came: Callable[[Agent], None] = _nobody
) -> None:
    """Offer this computer to a cell until a signal; `state` is the state directory.

    `came` is called when the machine is offered. Raises OmegaError when it cannot join, or the cell is gone.
    """
    hide_memory()
    check_suitable(server_info(url))
    places = AgentPlaces(state, cell, name)
    user = task_user(options.run_as) if options.run_as is not None else None
    places.make()
    if user is not None:
        admit(places, user)
    lock = places.lock()
    own = RedisCell.connect(url, cell)
    try:
        found = {"cpu": f"{offer.cpu_millicores()}m", "memory": f"{offer.memory_mib()}Mi"}
        wanted = {each: text for each, text in found.items() if each in own.dimensions.names} | dict(options.amounts)
        machine = MachineSpec(name, own.dimensions.parse(wanted), offer.attributes() | dict(options.attributes))
        agent = Agent(own, machine, places, options.lease_ms, cgroups=Cgroups.prepare(f"{cell}-{name}"), user=user)
        agent.find()
        numbers = {
            "omega_agent_tasks": ("Tasks that run", lambda: sum(kept.lives for kept in list(agent.kept.values()))),
            "omega_agent_kept": ("Tasks in hand, ended ones not reported yet included", lambda: len(agent.kept)),
        }
        with shown(os.environ.get(METRICS), cell, agent.executor, numbers):
            _stay(agent, url, cell, came)
    finally:
        own.close()
        os.close(lock)


def _stay(agent: Agent, url: str, cell: str, came: Callable[[Agent], None]) -> None:
    bell = Bell()
    with bell.listening():
        watch = Watch(agent, bell)
        watch.step()
        came(agent)
        if agent.cgroups.why_not:
            watch.log.warning("no cgroups", why=agent.cgroups.why_not)
        box = threading.Thread(target=wait_at_box, args=(url, cell, agent.executor, bell), daemon=True)
        box.start()
        stop = threading.Event()

        def connect(seconds: float) -> RedisCell:
            return RedisCell.connect(url, cell, timeout=seconds)

        threading.Thread(target=agent.lease.run, args=(connect, stop), daemon=True).start()
        try:
            watch.run()
        finally:
            stop.set()
            bell.stop()  # who waits at the box ends with the process

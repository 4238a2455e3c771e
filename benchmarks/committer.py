"""A client process of ``omega bench commit``: commits as the product does, or writes the same bytes unchecked."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any

import redis

from benchmarks.ceiling import Command, Wire, pack, unchecked_call
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell
from omega.cellstate.transaction import Claim, Position, Transaction

Calls = list[list[Command]]
"""The writes of every call."""
EXECUTOR = 1
"""All machines of the measured cell belong to one executor, whose number is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRound:
    """What one client commits in a round: `calls` round trips of `per_call` transactions of `size` claims."""

    client: int
    size: int
    per_call: int
    calls: int
    machines: int
    incarnation: int

    @property
    def member(self) -> str:
        """Under which name it commits."""
        return f"bench/{self.client}"

    def job(self, number: int) -> str:
        """Id of its job of that number; each transaction places a whole job."""
        return f"{self.client}x{number:x}"

    def transactions(self) -> list[tuple[Transaction, ...]]:
        """The transactions of every call, the same in every round."""
        rng = Random(f"commit/{self.client}/{self.size}")
        calls, number = [], 0
        for _ in range(self.calls):
            call = []
            for _ in range(self.per_call):
                machines = rng.sample(range(self.machines), self.size)
                call.append(Transaction(self.job(number), tuple(Claim(m, 0, 1) for m in machines)))
                number += 1
            calls.append(tuple(call))
        return calls


@dataclass(slots=True)
class Timing:
    """When a round began and ended on the clock all processes share, CPU time used, tasks that stand."""

    began: float
    ended: float
    cpu: float
    placed: int


class Commits:
    """A round by the product's own path: the next call is sent as soon as the last one is answered."""

    def __init__(self, cell: RedisCell, plan: ClientRound, calls: Sequence[tuple[Transaction, ...]]) -> None:
        """Begin at the store's present version."""
        self._cell, self._calls, self._next = cell, calls, 0
        self._membership = Membership(plan.member, plan.incarnation)
        self._position = cell.schedulers.sync(Position()).position

    def run(self) -> int:
        """Make all calls; returns the tasks that stand."""
        return sum(self.step() for _ in self._calls)

    def step(self) -> int:
        """Make the next call; returns the tasks that stand."""
        call, self._next = self._calls[self._next], self._next + 1
        self._cell.schedulers.begin(
            CommitRequest(self._membership, self._next, call, self._position, now_ms(), executors=(EXECUTOR,))
        )
        reply = self._cell.schedulers.finish()
        self._position = reply.position
        return sum(outcome.placed for outcome in reply.outcomes)


class Unchecked:
    """Writes what commits would write, in three ways, and waits for one call before it sends the next."""

    def __init__(self, client: "redis.Redis", sha: bytes) -> None:
        """Use `client`; `sha` is the unchecked script's."""
        self.client, self.wire, self.sha = client, Wire(client), sha
        self.writes: Calls = []
        self.calls: list[list[bytes | int]] = []
        self.packed: list[bytes] = []

    def load(self, writes: Calls) -> None:
        """Take the commands of every call."""
        self.writes = writes
        self.calls = [unchecked_call(self.sha, commands) for commands in writes]
        self.packed = [pack(commands) for commands in writes]

    def run(self, kind: str) -> None:
        """Do a round: ``plain``, ``unchecked`` or ``packed``."""
        client: Any = self.client
        if kind == "plain":
            for commands in self.writes:
                pipeline = client.pipeline(transaction=False)
                for command in commands:
                    pipeline.execute_command(*command)
                pipeline.execute()
        elif kind == "unchecked":
            for call in self.calls:
                client.execute_command(*call)
        else:
            for data, commands in zip(self.packed, self.writes, strict=True):
                self.wire.send(data)
                self.wire.replies(len(commands))

    def close(self) -> None:
        """Drop the connections."""
        self.wire.close()
        self.client.close()


@contextmanager
def client_processes(
    target: Callable[..., None], arguments: Sequence[tuple[object, ...]], start: str = "spawn"
) -> Iterator[list[Connection]]:
    """Yield a pipe to a ready process for each of the arguments, which follow the pipe; all are gone afterwards.

    A process says that it is ready, and ends when it gets ``stop``, or by itself.
    """
    context: Any = multiprocessing.get_context(start)
    pipes, started = list[Connection](), list[BaseProcess]()
    try:
        for each in arguments:
            ours, theirs = context.Pipe()
            started.append(context.Process(target=target, args=(theirs, *each), daemon=True))
            started[-1].start()
            theirs.close()
            pipes.append(ours)
        for pipe in pipes:
            answer_of(pipe)
        yield pipes
        for pipe in pipes:
            pipe.send("stop")
        for process in started:
            process.join(10)
    finally:
        for process in started:
            process.kill()
            process.join()


def answer_of(pipe: Connection) -> Any:
    """Return the next answer of a process. Raises StoreError when it ended."""
    try:
        return pipe.recv()
    except EOFError:
        raise StoreError("a client of the measurement ended early; its error stands above") from None


def serve(pipe: Connection, url: str, cell_name: str, plan: ClientRound, sha: bytes) -> None:
    """Execute commands from the pipe until ``stop``.

    ``load`` passes the commands of every call; a kind answers ``ready`` and runs a round on ``go``.
    """
    cell = connect_cell(url, cell_name, timeout=60.0)
    unchecked, calls = Unchecked(connect(url, timeout=60.0), sha), plan.transactions()
    pipe.send("ready")
    while (order := pipe.recv()) != "stop":
        if order == "load":
            unchecked.load(pipe.recv())
            pipe.send("ready")
            continue
        commits = Commits(cell, plan, calls) if order == "checked" else None
        pipe.send("ready")
        pipe.recv()
        cpu, began, placed = _cpu(), time.monotonic(), 0
        if commits is not None:
            placed = commits.run()
        else:
            unchecked.run(order)
        pipe.send(Timing(began, time.monotonic(), _cpu() - cpu, placed))
    cell.close()
    unchecked.close()


def _cpu() -> float:
    times = os.times()
    return times.user + times.system

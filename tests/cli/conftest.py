"""Running `omega` in this process against a cell of a real server, and schedulers and machines for it in threads."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import click.testing
import pytest

from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.cli.main import omega as program
from omega.live.simulated.executor import SimulatedExecutor
from omega.schedulers import registry
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.scheduler import Scheduler

LEASE_MS = 60_000
DEADLINE_SECONDS = 30.0


class Omega:
    """The program, with the store and the cell of a test set. `cell` may be None for what needs none."""

    def __init__(self, url: str | None, cell: str | None = None) -> None:
        self.url, self.cell, self.user = url, cell, "ada"

    def run(self, *words: str, code: int = 0, given: str | None = None) -> click.testing.Result:
        """Run a command; it must end with `code`. `job run` is detached unless --follow is given."""
        if words[:2] == ("job", "run") or words[:3] == ("--json", "job", "run"):
            at = words.index("run") + 1
            words = words if {"--follow", "--detach"} & set(words) else (*words[:at], "--detach", *words[at:])
        named = [("--store", self.url), ("--cell", self.cell)]
        before = [word for option, value in named if value is not None for word in (option, value)]
        environment = {"OMEGA_STORE": None, "OMEGA_CELL": None, "OMEGA_USER": self.user}
        result = click.testing.CliRunner().invoke(program, [*before, *words], input=given, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result

    def text(self, *words: str, code: int = 0) -> str:
        """Return what a command prints on stdout."""
        return self.run(*words, code=code).stdout

    def json(self, *words: str, code: int = 0, given: str | None = None) -> Any:
        """The one JSON document a command prints."""
        return json.loads(self.run("--json", *words, code=code, given=given).stdout)

    def error(self, *words: str, code: int = 1, given: str | None = None) -> str:
        """The one line of a command that fails; it prints nothing else."""
        result = self.run(*words, code=code, given=given)
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("error: ")
        return result.stderr.removeprefix("error: ").removesuffix("\n")


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    """A new cell on a real server, without machines."""
    made = RedisCell.create(connect(store_url), f"cli-{uuid4().hex[:8]}", url=store_url)
    yield made
    made.delete()
    made.close()


@pytest.fixture
def omega(store_url: str, cell: RedisCell) -> Omega:
    """The program on the test's cell."""
    return Omega(store_url, cell.name)


def join(cell: RedisCell, number: int, capacity: tuple[int, ...] = (4000, 4096), prefix: str = "m") -> None:
    """Let machines join under the executor that `omega up` plays."""
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec(f"{prefix}{i}", capacity) for i in range(number)], 1_000)


def eventually(what: Callable[[], bool]) -> None:
    """Wait until `what` holds; fail when it does not in half a minute."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not what():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


@contextmanager
def scheduler(cell: RedisCell, member: str = "batch/0", made: Scheduler | None = None) -> Iterator[LiveDriver]:
    """A live scheduler in a thread, without a heartbeat: its lease is long. `made`: not that of the member's kind."""
    own, made = RedisCell.connect(cell.url, cell.name), made or registry.scheduler(member.partition("/")[0])
    live = LiveDriver(own, made, member, time.time, time.sleep, lease_ms=LEASE_MS)
    thread = threading.Thread(target=live.run)
    thread.start()
    try:
        yield live
    finally:
        live.stopping = True
        cell.client.rpush(f"omega:1:{{{cell.name}}}:wake:{member}", "1")
        thread.join(DEADLINE_SECONDS)
        own.close()


@contextmanager
def repeating(cell: RedisCell, begin: Callable[[RedisCell], Callable[[], object]]) -> Iterator[None]:
    """In a thread with a connection of its own: `begin`, then again and again the step that it gives."""
    own, stop = RedisCell.connect(cell.url, cell.name), threading.Event()

    def work() -> None:
        step = begin(own)
        while not stop.is_set():
            step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(DEADLINE_SECONDS)
        own.close()


def executor(cell: RedisCell, speed: float = 1.0) -> AbstractContextManager[None]:
    """The machines of the cell, played in a thread."""

    def play(own: RedisCell) -> Callable[[], object]:
        machines = SimulatedExecutor(own, "here", time.time, speed=speed)
        machines.resume()
        return lambda: machines.step(0.02)

    return repeating(cell, play)


@pytest.fixture
def at_work(cell: RedisCell) -> Iterator[Callable[..., None]]:
    """Start machines and schedulers for the rest of the test: `at_work(machines=3, members=["batch/0"])`."""
    with ExitStack() as stack:

        def start(
            machines: int = 3,
            members: Sequence[str] = ("batch/0",),
            *,
            simulated: bool = True,
            capacity: tuple[int, ...] = (4000, 4096),
        ) -> None:
            join(cell, machines, capacity)
            for member in members:
                stack.enter_context(scheduler(cell, member))
            if simulated:
                stack.enter_context(executor(cell))

        yield start

"""``omega bench durability``: what a commit and a submission cost with each durability of a cell.

Each setting has servers of its own on this computer, with replicas where it needs them, and rounds of all settings
alternate. Replicas on other computers add the time of the network to the round trip, and none to the primary.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from benchmarks.computer import computer, spread
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import join
from benchmarks.store import Store, own_server, server_directory
from omega.cellstate.clock import now_ms
from omega.cellstate.durability import Durability
from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.store import create_cell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction

NEED = (100, 64)
STARTING_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A durability, and the servers that it is measured on."""

    durability: Durability
    append: str = ""
    """``appendfsync`` of a server with an append-only file; "" without."""

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return self.durability.replicas


SETTINGS = {
    "none, no file": Setting(Durability()),
    "none, everysec": Setting(Durability(), "everysec"),
    "fsync": Setting(Durability(fsync=True), "always"),
    "replicas=1": Setting(Durability(1, 2_000)),
    "replicas=2": Setting(Durability(2, 2_000)),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Calls of each kind in a round; rounds; machines of the cell."""

    calls: int = 500
    rounds: int = 5
    machines: int = 100


@dataclass(slots=True)
class Bench:
    """A cell of one setting, its servers, and the figures of its rounds."""

    setting: Setting
    primary: Store
    replicas: list[Store]
    cell: RedisCell
    membership: Membership = field(init=False)
    position: Position = field(init=False)
    executors: tuple[int, ...] = field(init=False)
    number: int = 0
    figures: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Register the scheduler that commits."""
        self.membership = self.cell.schedulers.register("batch/0", "bench", 24 * 3600 * 1000, now_ms())
        self.position = self.cell.schedulers.sync(Position()).position
        self.executors = (self.cell.executors.number("bench"),)

    def round(self, calls: int) -> None:
        """Submit jobs one by one, and place them one by one; then end them."""
        names = [f"j{self.number}-{number}" for number in range(calls)]
        self._timed("submission", [partial(self._submit, name) for name in names])
        machines = sorted(machine.index for machine in self.cell.machines.all())
        self._timed("commit", [partial(self._place, name, at % len(machines)) for at, name in enumerate(names)])
        ends = [TaskEnd(run.machine, run.placement, EndKind.FINISHED, "*") for run in self.cell.machines.runs(machines)]
        self.cell.executors.end(ends, now_ms(), "bench")

    def _submit(self, name: str) -> None:
        self.cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup(NEED, 1),))], now_ms(), "bench")

    def _place(self, name: str, at: int) -> None:
        self.number += 1
        placing = (Transaction(name, (Claim(at, 0, 1),)),)
        reply = self.cell.schedulers.commit(
            CommitRequest(self.membership, self.number, placing, self.position, now_ms(), executors=self.executors)
        )
        if not reply.outcomes[0].accepted:
            raise StoreError(f"durability: job {name} was not placed")
        self.position = reply.position

    def _timed(self, call: str, todo: list[Callable[[], None]]) -> None:
        before = self._clocks()
        clock = []
        for each in todo:
            began = time.perf_counter()
            each()
            clock.append(time.perf_counter() - began)
        spent = [(last - first) / len(todo) for first, last in zip(before, self._clocks(), strict=True)]
        self.figures.setdefault(call, []).append((median(clock), *spent))

    def _clocks(self) -> tuple[float, float, float]:
        """Return processor seconds of the primary, of all replicas and of this process."""
        replicas = sum(each.cpu_seconds() for each in self.replicas)
        return self.primary.cpu_seconds(), replicas, time.process_time()

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield a row for each kind of call; times in microseconds."""
        for call, figures in self.figures.items():
            clock, primary, replicas, client = (
                [1e6 * value for value in column] for column in zip(*figures, strict=True)
            )
            yield {
                "setting": name, "call": call, "round_trip_us": round(median(clock)), "spread": spread(clock, 0),
                "primary_cpu_us": round(median(primary), 1),
                "replica_cpu_us": round(median(replicas) / max(1, len(self.replicas)), 1),
                "client_cpu_us": round(median(client), 1),
            }  # fmt: skip


@contextmanager
def benches(settings: Settings) -> Iterator[dict[str, Bench]]:
    """Start the servers of all settings, and make a cell on each."""
    with ExitStack() as stack:
        made = {}
        for name, setting in SETTINGS.items():
            port = _free_port() if setting.replicas else 0
            persisted = {"appendonly": "yes", "appendfsync": setting.append} if setting.append else {}
            primary = _store(stack, {"port": str(port), "repl-diskless-sync-delay": "0", **persisted})
            follow = {"replicaof": f"127.0.0.1 {port}"}
            replicas = [_store(stack, follow) for _ in range(setting.replicas)]
            _await_replicas(primary, len(replicas))
            cell = create_cell(primary.client, "bench", durability=setting.durability, url=primary.url)
            join(cell, settings.machines, lease_ms=24 * 3600 * 1000)
            made[name] = Bench(setting, primary, replicas, cell)
        yield made


def _store(stack: ExitStack, settings: dict[str, str]) -> Store:
    directory = server_directory()
    return Store(stack.enter_context(own_server(directory, settings=settings)), "bench", own=True, directory=directory)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _await_replicas(primary: Store, number: int) -> None:
    until = time.monotonic() + STARTING_SECONDS
    while True:
        facts: Any = primary.client.info("replication")
        if sum(facts.get(f"slave{each}", {}).get("state") == "online" for each in range(number)) == number:
            return
        if time.monotonic() > until:
            raise StoreError(f"the replicas of the server to measure did not follow it; see {primary.directory}")
        time.sleep(0.05)


def measure(settings: Settings) -> Document:
    """Run rounds of all settings in turn. Raises StoreError."""
    about = computer()
    with benches(settings) as made:
        for number in range(settings.rounds + 1):
            for bench in made.values():
                bench.round(settings.calls)
                if number == 0:
                    bench.figures.clear()  # the first round warms up
            progress(f"durability: round {number} of {settings.rounds}")
        rows = [row for name, bench in made.items() for row in bench.rows(name)]
        store = made["none, no file"].primary.describe()
    chosen = {"calls": settings.calls, "rounds": settings.rounds, "machines": settings.machines}
    return {"rows": rows, "store": store, "computer": about, "chosen": chosen}


if __name__ == "__main__":
    launch(Settings, measure)

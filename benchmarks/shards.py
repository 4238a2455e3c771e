"""``python -m benchmarks.shards``: the processor time of servers per commit, on one server and on Clusters.

N cells with four schedulers each commit on a Cluster, each cell on a shard of its own, and on one server that has all
of them. Each scheduler is a process that commits through the path of the product, one call in flight. The same
transactions are committed on each store, round after round in turn, so that equally many processes share the
processors. Processor time is that of the main threads of the servers, summed over the shards: on few cores the rates
of shards cannot add up, their processor times can.
"""

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any
from uuid import uuid4

from benchmarks.commit import CAPACITY, LEASE_MS, SUBMITTED_AT_ONCE, job_of
from benchmarks.committer import ClientRound, Commits
from benchmarks.computer import computer, middle, now_ms, spread
from benchmarks.launch import Document, launch, progress
from omega.cellstate.errors import StoreError
from omega.cellstate.model import MachineSpec
from omega.cellstate.ports import StoredCell
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell, create_cell
from omega.many_cells.new_cell import look, names_like
from omega.schedulers.presets import BATCH_JOBS
from tests.server_groups import cluster, single

TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to measure: `calls` round trips of `per_call` transactions of `size` claims by each scheduler of a cell."""

    shards: Sequence[int] = (1, 2, 4)
    schedulers: int = 4
    machines: int = 1_000
    size: int = 10
    per_call: int = BATCH_JOBS
    calls: int = 60
    rounds: int = 7


@dataclass(slots=True)
class Shards:
    """Cells on a store under measurement: its URL, the number of cells, its servers, and whether it is a Cluster."""

    url: str
    cells: int
    servers: Sequence[Any]
    cluster: bool = False
    rounds: list[float] = field(default_factory=list)
    """Microseconds of processor time of all servers per commit, by round."""

    def cpu_seconds(self) -> float:
        """Return the processor time of the servers' main threads so far."""
        names = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
        return sum(float(each.client.info("cpu")[name]) for each in self.servers for name in names)

    def names(self) -> list[str]:
        """Return the names of cells, on a Cluster one on each shard."""
        taken = list[str]()
        found = look(self.url)[1]
        owners = set[object]()
        for name in names_like("bench", (), None):
            owner = found.of(name) if found is not None else name
            if owner not in owners:
                owners.add(owner)
                taken.append(name)
            if len(taken) == self.cells:
                return taken
        raise StoreError("no names for all shards were found")


def measure(settings: Settings) -> Document:
    """Measure every store in turn and return the document."""
    about = computer()
    with ExitStack() as stack:
        alone = stack.enter_context(single())
        stores = list[Shards]()
        for count in settings.shards:
            nodes = stack.enter_context(cluster(count))
            stores += [
                Shards(alone.url_of(), count, alone.servers),
                Shards(nodes.url, count, nodes.servers, cluster=True),
            ]
        for number in range(settings.rounds):
            turn = number % len(stores)
            for store in (*stores[turn:], *stores[:turn]):
                store.rounds.append(_round(store, settings))
                where = f"{len(store.servers)} shards of a Cluster" if store.cluster else "one server"
                progress(f"shards: {store.cells} cells on {where}: {store.rounds[-1]:.1f} µs per commit")
    pairs = zip(stores[::2], stores[1::2], strict=True)
    names = ("schedulers", "machines", "size", "per_call", "calls", "rounds")
    return {
        "runs": [_figures(one, many, stores[0]) for one, many in pairs],
        "computer": about,
        "settings": {name: getattr(settings, name) for name in names},
    }


def _figures(one: Shards, many: Shards, first: Shards) -> Mapping[str, object]:
    """Return the figures of a number of cells; `first`: a single cell on one server."""
    return {
        "cells": many.cells,
        "one_server_us": round(middle(one.rounds), 1),
        "one_server_spread": spread(one.rounds, 1),
        "shards_us": round(middle(many.rounds), 1),
        "shards_spread": spread(many.rounds, 1),
        **_ratio("to_one_server", many, one),
        **_ratio("to_one_cell", many, first),
    }


def _ratio(name: str, store: Shards, other: Shards) -> Mapping[str, object]:
    """Return the median of the ratios of rounds, and their spread."""
    ratios = [mine / its for mine, its in zip(store.rounds, other.rounds, strict=True)]
    return {f"ratio_{name}": round(middle(ratios), 3), f"ratio_{name}_spread": spread(ratios, 3)}


def _round(store: Shards, settings: Settings) -> float:
    """Return the microseconds of the servers per commit, in new cells."""
    names = store.names()
    cells = [create_cell(connect(store.url, timeout=TIMEOUT_SECONDS), name, url=store.url) for name in names]
    try:
        plans = [(cell.name, plan) for cell in cells for plan in _prepare(cell, settings)]
        with _processes(store.url, plans) as pipes:
            before = store.cpu_seconds()
            for pipe in pipes:
                pipe.send("go")
            placed = sum(_answer(pipe) for pipe in pipes)
            spent = store.cpu_seconds() - before
        commits = len(plans) * settings.calls * settings.per_call
        if placed != commits * settings.size:
            raise StoreError(f"{commits * settings.size - placed} of {commits * settings.size} claims were refused")
        return 1e6 * spent / commits
    finally:
        for cell in cells:
            cell.delete()
            cell.close()


def _prepare(cell: StoredCell, settings: Settings) -> list[ClientRound]:
    """Add machines, schedulers and jobs to a cell."""
    cell.register_executor("bench", "bench", LEASE_MS, now_ms())
    cell.join("bench", [MachineSpec(f"m{i}", CAPACITY) for i in range(settings.machines)], now_ms())
    plans = []
    for client in range(settings.schedulers):
        member = cell.register_scheduler(f"bench/{client}", uuid4().hex, LEASE_MS, now_ms())
        sizes = {"size": settings.size, "per_call": settings.per_call, "calls": settings.calls}
        plans.append(ClientRound(client=client, incarnation=member.incarnation, machines=settings.machines, **sizes))
        count = settings.calls * settings.per_call
        for start in range(0, count, SUBMITTED_AT_ONCE):
            numbers = range(start, min(start + SUBMITTED_AT_ONCE, count))
            cell.submit([job_of(plans[-1], number) for number in numbers], now_ms(), "bench")
    return plans


@contextmanager
def _processes(url: str, plans: Sequence[tuple[str, ClientRound]]) -> Iterator[list[Connection]]:
    """Yield a pipe to one ready process per plan; all are gone afterwards."""
    context = multiprocessing.get_context("fork")  # each opens connections of its own
    pipes, started = list[Connection](), list[BaseProcess]()
    try:
        for name, plan in plans:
            ours, theirs = context.Pipe()
            process: BaseProcess = context.Process(target=schedule, args=(theirs, url, name, plan), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            started.append(process)
        for pipe in pipes:
            _answer(pipe)
        yield pipes
        for process in started:
            process.join(10)
    finally:
        for process in started:
            process.kill()
            process.join()


def _answer(pipe: Connection) -> int:
    try:
        return int(pipe.recv())
    except EOFError:
        raise StoreError("a scheduler of the measurement ended early; its error stands above") from None


def schedule(pipe: Connection, url: str, name: str, plan: ClientRound) -> None:
    """Commit a round when the pipe says so; answers the number of placed tasks."""
    cell = connect_cell(url, name, timeout=TIMEOUT_SECONDS)
    commits = Commits(cell, plan, plan.transactions())
    pipe.send(0)
    pipe.recv()
    pipe.send(commits.run())
    cell.close()


if __name__ == "__main__":
    launch(Settings, measure)

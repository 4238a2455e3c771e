"""``python -m benchmarks.shards``: the processor time of servers per commit, on one server and on Clusters.

One server has a cell, and each shard of the Clusters has one. Four schedulers of each cell, processes that commit
through the path of the product, one call in flight, commit the same transactions. All stores are measured at the same
time, round after round, so that whatever else runs on the computer concerns all of them alike. Processor time is that
of the main threads of the servers, summed over the shards: on few cores the rates of shards cannot add up, their
processor times can.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any
from uuid import uuid4

from benchmarks.commit import CAPACITY, LEASE_MS, SUBMITTED_AT_ONCE, job_of
from benchmarks.committer import ClientRound, Commits, answer_of, client_processes
from benchmarks.computer import computer, middle, spread
from benchmarks.launch import Document, launch, progress
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.cellstate.store import connect_cell, create_cell
from omega.many_cells.new_cell import look, names_like
from omega.schedulers.presets import BATCH_JOBS
from tests.server_groups import cluster, single

TIMEOUT_SECONDS, NODE_TIMEOUT_MS = 120.0, 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to measure: `calls` round trips of `per_call` transactions of `size` claims by each scheduler of a cell."""

    shards: Sequence[int] = (2, 4)
    schedulers: int = 4
    machines: int = 1_000
    size: int = 10
    per_call: int = BATCH_JOBS
    calls: int = 40
    rounds: int = 7


@dataclass(slots=True)
class Shards:
    """A store under measurement: its URL, its servers, and whether they are a Cluster."""

    url: str
    servers: Sequence[Any]
    cluster: bool = True
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
            if len(taken) == len(self.servers):
                return taken
        raise StoreError("no names for all shards were found")


def measure(settings: Settings) -> Document:
    """Measure every store in turn and return the document."""
    about = computer()
    with ExitStack() as stack:
        alone = stack.enter_context(single())
        stores = [Shards(alone.url_of(), alone.servers, cluster=False)]
        for count in settings.shards:
            nodes = stack.enter_context(cluster(count))
            for each in nodes.servers:  # none is taken for dead while it waits for a processor
                each.client.config_set("cluster-node-timeout", NODE_TIMEOUT_MS)
            stores.append(Shards(nodes.url, nodes.servers))
        for number in range(settings.rounds):
            _round(stores, settings)
            told = ", ".join(f"{each.rounds[-1]:.1f} on {len(each.servers)}" for each in stores)
            progress(f"shards: round {number + 1}: µs per commit: {told}")
    names = ("schedulers", "machines", "size", "per_call", "calls", "rounds")
    return {
        "runs": [_figures(store, stores[0]) for store in stores],
        "computer": about,
        "settings": {name: getattr(settings, name) for name in names},
    }


def _figures(store: Shards, first: Shards) -> Mapping[str, object]:
    ratios = [each / other for each, other in zip(store.rounds, first.rounds, strict=True)]
    return {
        "shards": len(store.servers),
        "cluster": store.cluster,
        "server_us_per_commit": round(middle(store.rounds), 1),
        "spread": spread(store.rounds, 1),
        "ratio": round(middle(ratios), 3),
        "ratio_spread": spread(ratios, 3),
    }


def _round(stores: Sequence[Shards], settings: Settings) -> None:
    """Add the microseconds of each store's servers per commit, in new cells."""
    cells = [[_new_cell(store, name) for name in store.names()] for store in stores]
    try:
        plans = [
            (store.url, cell.name, plan)
            for store, its in zip(stores, cells, strict=True)
            for cell in its
            for plan in _prepare(cell, settings)
        ]
        with client_processes(schedule, plans, "fork") as pipes:  # each opens connections of its own
            before = [store.cpu_seconds() for store in stores]
            for pipe in pipes:
                pipe.send("go")
            placed = sum(answer_of(pipe) for pipe in pipes)
            spent = [store.cpu_seconds() - used for store, used in zip(stores, before, strict=True)]
        commits = settings.schedulers * settings.calls * settings.per_call  # of each cell
        missing = len(plans) * settings.calls * settings.per_call * settings.size - placed
        if missing:
            raise StoreError(f"{missing} claims were refused")
        for store, seconds in zip(stores, spent, strict=True):
            store.rounds.append(1e6 * seconds / commits / len(store.servers))
    finally:
        for cell in chain(*cells):
            cell.delete()
            cell.close()


def _new_cell(store: Shards, name: str) -> RedisCell:
    return create_cell(connect(store.url, timeout=TIMEOUT_SECONDS), name, url=store.url)


def _prepare(cell: RedisCell, settings: Settings) -> list[ClientRound]:
    """Add machines, schedulers and jobs to a cell."""
    cell.executors.register("bench", "bench", LEASE_MS, now_ms())
    cell.machines.join("bench", [MachineSpec(f"m{i}", CAPACITY) for i in range(settings.machines)], now_ms())
    plans = []
    for client in range(settings.schedulers):
        member = cell.schedulers.register(f"bench/{client}", uuid4().hex, LEASE_MS, now_ms())
        sizes = {"size": settings.size, "per_call": settings.per_call, "calls": settings.calls}
        plans.append(ClientRound(client=client, incarnation=member.incarnation, machines=settings.machines, **sizes))
        count = settings.calls * settings.per_call
        for start in range(0, count, SUBMITTED_AT_ONCE):
            numbers = range(start, min(start + SUBMITTED_AT_ONCE, count))
            cell.jobs.submit([job_of(plans[-1], number) for number in numbers], now_ms(), "bench")
    return plans


def schedule(pipe: Connection, url: str, name: str, plan: ClientRound) -> None:
    """Commit a round when the pipe says so; answers the number of placed tasks."""
    cell = connect_cell(url, name, timeout=TIMEOUT_SECONDS)
    commits = Commits(cell, plan, plan.transactions())
    pipe.send(0)
    pipe.recv()
    pipe.send(commits.run())
    pipe.recv()
    cell.close()


if __name__ == "__main__":
    launch(Settings, measure)

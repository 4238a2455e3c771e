"""After every few calls of a random history a mirror has the documents that commands make of the store."""

import json
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from omega.cellstate.model import Gang, JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.server import connect
from omega.queries import cells, job_state, jobs, machines, pool_shares, schedulers
from omega.queries.event_list import Filter, list_events, listed_json
from omega.queries.mirror import CellMirror, Index, JobFilter
from omega.queries.recent import recently
from omega.queries.room import Room
from tests.property.history import History
from tests.property.worlds import AnyCell, Worlds
from tests.tiers import first

DEMANDS: tuple[dict[str, Any], ...] = (
    {"constraints": ["rack == r1"]},
    {"spread": ["rack"]},
    {"different_machines": True},
    {"apart_from": ["j1"]},
    {"spread": [{"domain": "rack", "most": 1}], "constraints": ["rack == r2"]},
)


class DemandingHistory(History):
    """A history whose jobs demand more than room, and whose pools change."""

    def submit(self) -> None:
        rng = self.rng
        if rng.random() < 0.6:
            super().submit()
            return
        self.jobs += 1
        groups = tuple(
            TaskGroup((rng.randint(0, 4),) * self.resources, rng.randint(1, 4), spec=rng.choice(DEMANDS))
            for _ in range(rng.choice([1, 1, 2]))
        )
        extra = {"user": rng.choice(["u1", "u2"]), "pool": rng.choice(["", "p"]), "weight": rng.choice([1.0, 2.0])}
        name = f"j{self.jobs}"
        job = JobSpec(name, name, "batch", groups, 0, rng.choice([Gang.NO, Gang.NO, Gang.YES]), extra)
        at = self.tick()
        self.do(lambda world: world.cell.jobs.submit([job], at, "ada"))

    def look(self) -> None:
        resource = self.twin.dimensions.names[0]
        pools = self.rng.choice(
            [
                Pools(),
                Pools((Pool("p", guarantee={resource: 5}),)),
                Pools((Pool("p", mode="fifo", limits={resource: 9}), Pool("q"))),
            ]
        )
        at = self.tick()
        self.do(lambda world: world.cell.pools.set(pools, None, at, "ada"))


def plain(document: Any) -> Any:
    """A document as JSON has it."""
    return json.loads(json.dumps(document))


def compare(cell: AnyCell, mirror: CellMirror, now_ms: int) -> None:
    """Read the mirror, and compare its documents with those of commands."""
    mirror.read(now_ms)
    kinds, seen = cell.pools.kinds(), recently(cell, now_ms)
    status = cells.describe(cell, kinds, seen) | cells.writes_json(cell)
    expected: dict[str, tuple[Any, Callable[[], Any]]] = {
        "cell status": ({"cell": cell.name, "store": "store"} | status, mirror.cell_status),
        "jobs": (jobs.list_jobs(cell, cell.jobs.page(), now_ms), mirror.jobs),
        "page of jobs": (jobs.list_jobs(cell, cell.jobs.page(3), now_ms), lambda: mirror.jobs(limit=3)),
        "machines": (machines.list_machines(cell, machines.page(cell)), mirror.machines),
        "drained": (
            machines.list_machines(cell, machines.page(cell, "drained", 2)),
            lambda: mirror.machines(state="drained", limit=2),
        ),
        "schedulers": (schedulers.describe(cell, True), lambda: mirror.schedulers(everybody=True)["schedulers"]),
        "pools": (pool_shares.pools_json(cell), mirror.pools),
        "limits": (
            {kind: cells.limits_json(cell.dimensions, use) for kind, use in kinds.items()},
            lambda: mirror.limits()["limits"],
        ),
        "events": (
            listed_json(cell, list_events(cell, None, 20, Filter()).events), lambda: mirror.events(limit=20)["events"],
        ),
        "reasons": (reasons_of(cell), mirror.reasons),
    }  # fmt: skip
    for state in job_state.STATES:
        expected[state] = (
            jobs.list_jobs(cell, cell.jobs.page(2, None, jobs.keep(None, state), "u1"), now_ms),
            lambda state=state: mirror.jobs(JobFilter(state=state, user="u1"), limit=2),  # type: ignore[misc]
        )
    for name, (document, take) in expected.items():
        assert plain(take()) == plain(document), name
    counts = {row["state"] for row in mirror.jobs()["jobs"]}
    assert counts <= set(job_state.STATES)


def reasons_of(cell: AnyCell) -> dict[str, dict[str, int]]:
    """Reasons of all jobs with unplaced tasks, each found by itself."""
    room, found = Room(cell), dict[str, dict[str, int]]()
    for job in cell.jobs.all():
        tasks = job_state.waiting(job)
        if tasks and job.state.name in ("ACTIVE", "HELD"):
            count = found.setdefault(str(room.reason(job)), {"jobs": 0, "tasks": 0})
            count["jobs"] += 1
            count["tasks"] += tasks
    return found


@pytest.mark.parametrize(("seed", "calls"), first(1, [(2, 240), (0, 160), (1, 160), (3, 160)]))
def test_documents_are_those_of_the_commands(store_url: str, seed: int, calls: int) -> None:
    client = connect(store_url, timeout=None)
    worlds = Worlds(client, f"mirror-{uuid4().hex[:8]}", 1 + seed % 4)
    reader = worlds.store
    mirror = CellMirror(reader, "store")
    twin = CellMirror(worlds.twin, "store")
    rng = Random(f"{seed}/mirror")
    try:
        history = DemandingHistory(worlds, Random(f"{seed}/history"))
        before = Index()
        for _ in range(calls // 8):
            history.run(rng.randint(1, 15))
            compare(reader, mirror, worlds.now)
            compare(worlds.twin, twin, worlds.now)
            assert mirror.index.version >= before.version
            before = mirror.index
    finally:
        worlds.store.delete()
        client.close()

"""Fair shares among real processes: starving pools take their room from several schedulers' pools at once."""

from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.redis import RedisCell
from tests.integration.stage import DEFAULT_EXECUTOR, check, made_cell, seen, started_processes, submit, until

pytestmark = pytest.mark.server
MACHINES = 3
"""Of 8 cpu each."""


def job(name: str, pool: str) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((1_000, 64, 1), 24, 600_000),), spec={"pool": pool})


def held(cell: RedisCell, pool: str) -> int:
    jobs = [found for name in (f"{pool}0", f"{pool}1") if (found := cell.jobs.get(name)) is not None]
    return sum(group.placed for found in jobs for group in found.groups)


@pytest.mark.chaos
def test_a_late_pool_reaches_its_share_by_evictions_that_the_audit_confirms(store_url: str, tmp_path: Path) -> None:
    """Also where tasks need slots, which no machine bounds: they take no part in shares."""
    quick = PreemptionSettings(starvation_timeout=1.0, starvation_tolerance=1.0, backoff=0.5)
    with (
        made_cell(store_url, "shares", MACHINES, resources=("cpu", "memory", "user_slots")) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0", "batch/1", f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        cell.pools.set(Pools((Pool("a"), Pool("b")), (PoolTree(preemption=quick),)), cell.pools.get().version, 0, "ada")
        submit(cell, [job("a0", "a"), job("a1", "a")])
        until(lambda: held(cell, "a") == 24, "the cell is full")
        submit(cell, [job("b0", "b"), job("b1", "b")])
        until(lambda: held(cell, "b") == 12 == held(cell, "a"), "both pools hold their shares")
        evicted = seen(cell, "evicted")
        assert len({fact.event[-1].partition(":")[0] for fact in evicted}) == 1
        assert sum(1 for _ in seen(cell, "assert")) >= 1
        check(cell)
        assert {fact.by for fact in evicted} <= {"batch/0", "batch/1"}
        assert len(group.members) == 3

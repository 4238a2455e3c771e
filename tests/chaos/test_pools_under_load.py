"""Pools that operators change while schedulers work: the rules of the cell hold, and shares are reached afterwards."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.errors import OmegaError
from omega.cellstate.model import Gang, JobSpec, TaskGroup
from omega.cellstate.pools import ROOT, Integral, Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    check,
    halt,
    made_cell,
    resume,
    seen,
    started_processes,
    submit,
    until,
    words_of,
)

pytestmark = [pytest.mark.server, pytest.mark.chaos]
SCHEDULERS = tuple(f"batch/{number}" for number in range(4))
MACHINES, SLOTS = 12, 8
"""As `made_cell` makes them: 8 cpu each."""
QUICK = PreemptionSettings(starvation_timeout=1.0, starvation_tolerance=1.0, backoff=0.2)
SECONDS = float(os.environ.get("OMEGA_CHAOS_SECONDS", "20"))
FINAL = (Pool("a"), Pool("b", weight=2), Pool("c", weight=3))


def job(name: str, pool: str, tasks: int = 1, *, ms: int = 0, gang: Gang = Gang.NO, user: str = "") -> JobSpec:
    extra = {"pool": pool} if pool else {"user": user}
    return JobSpec(name, name, "batch", (TaskGroup((1_000, 64), tasks, ms or 10**8),), gang=gang, spec=extra)


@dataclass(slots=True)
class Operator:
    """Changes pools at random and submits jobs to them; counts what was refused."""

    cell: RedisCell
    rng: Random
    refused: int = 0
    changed: int = 0
    jobs: int = 0
    names: list[str] = field(default_factory=lambda: [f"x{number}" for number in range(8)])

    def change(self) -> None:
        """One change of the tree."""
        pools = self.cell.pools.get()
        try:
            after = self.rng.choice((self.weigh, self.move, self.limit, self.add, self.remove, self.guarantee))(pools)
            self.cell.pools.set(after, pools.version, 0, "ada")
            self.changed += 1
        except OmegaError:
            self.refused += 1

    def _some(self, pools: Pools) -> Pool:
        return self.rng.choice(pools.pools)

    def _with(self, pools: Pools, old: Pool, new: Pool) -> Pools:
        return Pools(tuple(new if pool is old else pool for pool in pools.pools), pools.trees)

    def weigh(self, pools: Pools) -> Pools:
        pool = self._some(pools)
        return self._with(pools, pool, replace(pool, weight=self.rng.choice((0.1, 1.0, 2.0, 10.0))))

    def move(self, pools: Pools) -> Pools:
        pool = self._some(pools)
        return self._with(pools, pool, replace(pool, parent=self.rng.choice((ROOT, *self.names)), tree=""))

    def limit(self, pools: Pools) -> Pools:
        pool, least = self._some(pools), self.rng.choice((0, 1, 8, 40))
        kind = self.rng.choice(("cpu", "tasks", "jobs"))
        limits = {kind: least * 1000 if kind == "cpu" else least} if self.rng.random() < 0.6 else {}
        return self._with(pools, pool, replace(pool, limits=limits))

    def guarantee(self, pools: Pools) -> Pools:
        pool = self._some(pools)
        sure = {"cpu": self.rng.choice((0, 2_000, 20_000))}
        integral = Integral("relaxed", flow={"cpu": 1_000}) if self.rng.random() < 0.3 else Integral()
        return self._with(pools, pool, replace(pool, guarantee=sure, integral=integral))

    def add(self, pools: Pools) -> Pools:
        return Pools((*pools.pools, Pool(self.rng.choice(self.names))), pools.trees)

    def remove(self, pools: Pools) -> Pools:
        pool = self._some(pools)
        return Pools(tuple(each for each in pools.pools if each is not pool), pools.trees)

    def work(self) -> None:
        """Submit a job to some pool: short or endless, single tasks or gangs."""
        self.jobs += 1
        pool = self.rng.choice(self.names)
        gang = self.rng.choice((Gang.NO, Gang.NO, Gang.YES, Gang.STRICT))
        ms = self.rng.choice((100, 1_000, 5_000))
        one = job(f"w{self.jobs}", pool, self.rng.randint(1, 30), ms=ms, gang=gang)
        self.refused += self.cell.jobs.submit([one], int(time.time() * 1000), "ada")[0].status != "new"


def held(cell: RedisCell, pool: str) -> int:
    """Tasks of the jobs whose names begin with the pool's."""
    return sum(group.placed for each in cell.jobs.all() if each.id.startswith(f"{pool}-") for group in each.groups)


def comes_to_rest(cell: RedisCell, group: ProcessSupervisor, pools: Sequence[Pool] = FINAL) -> None:
    """Stop everything, set other pools, and see that they reach their shares."""
    for each in cell.jobs.all():
        with suppress(OmegaError):
            cell.jobs.stop(each.id, 0, "ada")
    until(lambda: sum(g.placed for each in cell.jobs.all() for g in each.groups) == 0, "all is stopped")
    cell.pools.set(Pools(tuple(pools), (PoolTree(preemption=QUICK),)), cell.pools.get().version, 0, "ada")
    size = MACHINES * SLOTS
    submit(cell, [job(f"{pool.name}-end{i}", pool.name, size // 2) for i in range(4) for pool in pools])
    total = sum(pool.weight or 1.0 for pool in pools)
    shares = {pool.name: size * (pool.weight or 1.0) / total for pool in pools}
    until(lambda: all(abs(held(cell, name) - share) <= 1 for name, share in shares.items()), f"shares {shares}")
    assert group.dead() == {}
    check(cell)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_operators_change_the_tree_all_the_time(seed: str, store_url: str, tmp_path: Path) -> None:
    seed = os.environ.get("OMEGA_CHAOS_SEED", seed)
    sys.stdout.write(f"OMEGA_CHAOS_SEED={seed}\n")
    with (
        made_cell(store_url, f"operators-{seed}", MACHINES) as cell,
        started_processes(cell, store_url, tmp_path, *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        operator = Operator(cell, Random(f"operators/{seed}"))
        cell.pools.set(Pools((Pool("x0"), Pool("x1"), Pool("x2")), (PoolTree(preemption=QUICK),)), 0, 0, "ada")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            operator.change()
            for _ in range(3):
                operator.work()
            if operator.rng.random() < 0.05 and (epoch := cell.pools.epoch()) is not None:
                halt(group, epoch.by)
                time.sleep(0.3)
                resume(group, epoch.by)
            time.sleep(0.05)
        sys.stdout.write(
            f"{operator.changed} changes, {operator.refused} refused, {operator.jobs} jobs, "
            f"{len(seen(cell, 'evicted'))} evictions, {cell.pools.epoch_mark().number} epochs\n"
        )
        check(cell)
        comes_to_rest(cell, group)
        said = [line for member in SCHEDULERS for line in words_of(group, member)]
        assert [line for line in said if "error" in line.lower()] == []


def test_weights_that_change_each_second(store_url: str, tmp_path: Path) -> None:
    with (
        made_cell(store_url, "weights", MACHINES) as cell,
        started_processes(cell, store_url, tmp_path, *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        trees = (PoolTree(preemption=QUICK),)
        cell.pools.set(Pools(FINAL, trees), 0, 0, "ada")
        submit(cell, [job(f"w{i}-{pool.name}", pool.name, 48) for i in range(4) for pool in FINAL])
        for number in range(12):
            time.sleep(1.0)
            weights = (1.0, 2.0, 3.0)[number % 3 :] + (1.0, 2.0, 3.0)[: number % 3]
            pools = tuple(replace(pool, weight=weight) for pool, weight in zip(FINAL, weights, strict=True))
            cell.pools.set(Pools(pools, trees), cell.pools.get().version, 0, "ada")
        check(cell)
        comes_to_rest(cell, group)


def test_a_user_with_ten_thousand_jobs_holds_up_nobody(store_url: str, tmp_path: Path) -> None:
    with (
        made_cell(store_url, "crowd", MACHINES) as cell,
        started_processes(
            cell, store_url, tmp_path, *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}", lease_ms=10_000
        ) as group,
    ):
        cell.pools.set(Pools((Pool("a"),), (PoolTree(preemption=QUICK),)), 0, 0, "ada")
        for start in range(0, 10_000, 1_000):
            submit(cell, [job(f"c{i}", "", user="crowd") for i in range(start, start + 1_000)])
        until(lambda: sum(g.placed for each in cell.jobs.all() for g in each.groups) == MACHINES * SLOTS, "all is full")
        began = time.monotonic()
        submit(cell, [job(f"a-{i}", "a", 24) for i in range(4)])
        until(lambda: held(cell, "a") == MACHINES * SLOTS // 2, "half of the cell")
        sys.stdout.write(f"half of the cell after {time.monotonic() - began:.1f} s\n")
        assert group.dead() == {}
        check(cell)


def test_two_hundred_pools_come_late(store_url: str, tmp_path: Path) -> None:
    """Shares of half a task: nobody changes places; with 60 pools each holds one or two."""
    with (
        made_cell(store_url, "many", MACHINES) as cell,
        started_processes(cell, store_url, tmp_path, *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        pools = [Pool(f"p{i}") for i in range(200)]
        cell.pools.set(Pools(tuple(pools), (PoolTree(preemption=QUICK),)), 0, 0, "ada")
        submit(cell, [job("p0-all", "p0", MACHINES * SLOTS)])
        until(lambda: held(cell, "p0") == MACHINES * SLOTS, "all is full")
        submit(cell, [job(f"p{i}-j", f"p{i}", 3) for i in range(1, 60)])
        until(lambda: all(1 <= held(cell, f"p{i}") <= 2 for i in range(60)), "each holds one or two")
        submit(cell, [job(f"p{i}-j", f"p{i}", 3) for i in range(60, 200)])
        until(lambda: max(held(cell, f"p{i}") for i in range(200)) == 1, "nobody holds more than one")
        evicted = len(seen(cell, "evicted"))
        time.sleep(5.0)
        assert len(seen(cell, "evicted")) == evicted, "equals do not change places"
        assert group.dead() == {}
        check(cell)


def test_gangs_larger_than_their_share_wait(store_url: str, tmp_path: Path) -> None:
    size = MACHINES * SLOTS
    with (
        made_cell(store_url, "gangs", MACHINES) as cell,
        started_processes(cell, store_url, tmp_path, *SCHEDULERS, f"simulated/{DEFAULT_EXECUTOR}") as group,
    ):
        cell.pools.set(Pools((Pool("a"), Pool("b")), (PoolTree(preemption=QUICK),)), 0, 0, "ada")
        submit(cell, [job("a-all", "a", size)])
        until(lambda: held(cell, "a") == size, "all is full")
        submit(cell, [job(f"b-g{i}", "b", size // 2 + 8, gang=Gang.STRICT) for i in range(4)])
        time.sleep(4.0)
        assert held(cell, "b") == 0
        assert not seen(cell, "evicted"), "no set is legal that lifts the pool above its share"
        submit(cell, [job(f"b-h{i}", "b", 16, gang=Gang.STRICT) for i in range(4)])
        until(lambda: held(cell, "b") == size // 2, "three gangs fit its share")
        assert held(cell, "a") == size // 2
        assert group.dead() == {}
        check(cell)

"""Plans in random worlds with limits: what a plan of jobs says is what schedulers do when the same jobs are submitted.

The oracle is the cell itself: jobs are planned, then submitted one after the other, and schedulers run until nothing
is left to do. Numbers of tasks by job, and the reasons of those that wait, are compared.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, Job, JobSpec, Limits, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.queries.plans import plan_jobs, plan_more
from omega.queries.room import Room
from omega.schedulers import registry
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.loop import Effect, Receive, attempts
from omega.schedulers.process.epochs import Publisher
from tests.tiers import first

LEASE_MS = 10**9
WORLDS = first(3, range(100))
ROUNDS, ROUNDS_OF_POOLS = 6, 25
"""Rounds without a change of the cell after which schedulers are at rest: of a tenth of a second each."""
KINDS = ("batch", "service")
DEMANDS: Sequence[dict[str, Any]] = ({}, {}, {}, {"different_machines": True}, {"constraints": ["rack == 'none'"]})
"""None of them makes one machine better than another: a scheduler may choose others than its plan."""


class World:
    """A cell in memory, with schedulers of two kinds that are stepped; its clock moves when all of them wait."""

    def __init__(self, seed: int, *, pools: bool) -> None:
        self.rng, self.seconds, self.cell, self.jobs = Random(f"{seed}/{pools}/plans"), 1_000.0, MemoryCell(), 0
        self.pools = pools
        rng, cell = self.rng, self.cell
        self.cell.executors.register("e", "n", LEASE_MS, 0)
        # Between pools that compete for room, who gets it is decided by their shares: here limits alone are compared.
        most = 40 if pools else 8
        machines = [(rng.randint(most // 2, most), rng.randint(most // 2, most)) for _ in range(rng.randint(1, 4))]
        cell.machines.join("e", [MachineSpec(f"m{i}", has, {"rack": f"r{i % 2}"}) for i, has in enumerate(machines)], 0)
        self.live = {kind: self._scheduler(kind) for kind in KINDS}
        self.effects: dict[str, Effect] = {}
        self.loops = {kind: attempts(live.scheduler) for kind, live in self.live.items()}
        for kind, loop in self.loops.items():
            self.effects[kind] = next(loop)
        self.publisher = Publisher(cell)
        for kind in KINDS:
            if rng.random() < 0.8:
                cell.pools.set_limits(kind, self._limits(), 0, "ada")
        if pools:
            cell.pools.set(self._pools(), None, 0, "ada")
        for _ in range(rng.randint(0, 3)):
            self.submit(self.spec())

    def _scheduler(self, kind: str) -> LiveDriver:
        def pause(seconds: float) -> None:
            self.seconds += seconds

        scheduler = registry.scheduler(kind, "plans")
        return LiveDriver(self.cell, scheduler, f"{kind}/0", lambda: self.seconds, pause, lease_ms=LEASE_MS)

    def _limits(self) -> Limits:
        rng = self.rng

        def some(most: int) -> int | None:
            return rng.randint(1, most) if rng.random() < 0.6 else None

        precedence = (0, 3) if rng.random() < 0.9 else (1, 3)
        return Limits((some(16), some(20)), some(4) if rng.random() < 0.4 else None, precedence)

    def _pools(self) -> Pools:
        rng = self.rng

        def some() -> dict[str, int]:
            words = {"cpu": 16, "memory": 20, "tasks": 8, "jobs": 3}
            return {word: rng.randint(1, most) for word, most in words.items() if rng.random() < 0.4}

        top = Pool("top", limits=some())
        return Pools((top, Pool("a", "top", limits=some()), Pool("b", "top", limits=some()), Pool("c", limits=some())))

    def spec(self, precedence: int = 1, kind: str | None = None) -> JobSpec:
        rng = self.rng
        self.jobs += 1
        groups = tuple(
            TaskGroup((rng.randint(1, 3), rng.randint(0, 3)), rng.randint(1, 6), 0, rng.choice(DEMANDS))
            for _ in range(rng.choice([1, 1, 1, 2, 3]))
        )
        gang = rng.choice([Gang.NO, Gang.NO, Gang.NO, Gang.YES, Gang.STRICT])
        total = sum(group.count for group in groups)
        least = rng.randint(1, total) if gang and rng.random() < 0.4 else 0
        fields: dict[str, Any] = {"user": rng.choice(["ada", "bob"])}
        if self.pools and rng.random() < 0.9:
            fields["pool"] = rng.choice(["a", "b", "c"])
        name = f"j{self.jobs}"
        kind = kind or rng.choice(KINDS)
        return JobSpec(name, name, kind, groups, precedence, gang, fields, gang_min=least)

    def submit(self, spec: JobSpec) -> None:
        self.cell.schedulers.members()
        self.cell.jobs.submit([spec], int(self.seconds * 1_000), "ada")
        self.rest()

    def rest(self) -> None:
        """Let the schedulers run until nothing changes any more."""
        still, version = 0, -1
        while still < (ROUNDS_OF_POOLS if self.pools else ROUNDS):
            if self.pools:
                self._publish()
            for kind, loop in self.loops.items():
                for _ in range(200):
                    self.effects[kind] = loop.send(self.live[kind].answer(self.effects[kind]))
                    effect = self.effects[kind]
                    if isinstance(effect, Receive) and (effect.until is None or effect.until > self.seconds):
                        break
            self.seconds += 0.1
            placed = sum(job.placed * 1_000 + job.unplaced for job in self.cell.jobs.all())
            still, version = (still + 1, version) if placed == version else (0, placed)

    def _publish(self) -> None:
        self.publisher.publish("batch/0", int(self.seconds * 1_000), 1)
        for live in self.live.values():
            live.snapshot.pools, live.snapshot.resources = self.cell.pools.get(), self.cell.dimensions.names
            live.snapshot.epoch = self.cell.pools.epoch()

    def job(self, name: str) -> Job:
        job = self.cell.jobs.get(name)
        assert job is not None
        return job

    def result(self, name: str) -> tuple[int, int, str | None]:
        """Tasks placed and pending, and the reason of those."""
        job = self.job(name)
        return job.placed, job.unplaced, Room(self.cell).reason(job) or None if job.unplaced else None


def planned(row: dict[str, Any]) -> tuple[int, int, str | None]:
    return row["placed"], row["unplaced"], row["reason"]


@pytest.mark.parametrize("pools", [False, True])
@pytest.mark.parametrize("seed", WORLDS)
def test_jobs_are_placed_as_their_plan_says(seed: int, pools: bool) -> None:
    world = World(seed, pools=pools)
    specs = [world.spec() for _ in range(world.rng.randint(1, 4))]
    rows = plan_jobs(world.cell, specs)[1]["jobs"]
    results = []
    for spec in specs:
        world.submit(spec)
        results.append(world.result(spec.name))
    assert [planned(row) for row in rows] == results, specs


@pytest.mark.parametrize("seed", WORLDS)
def test_a_job_that_evicts_is_placed_as_its_plan_says(seed: int) -> None:
    world = World(seed, pools=False)
    for _ in range(4):
        world.submit(replace(world.spec(0), gang=Gang.NO, gang_min=0))
    spec = world.spec(3, "service")
    row = plan_jobs(world.cell, [spec])[1]["jobs"][0]
    world.submit(spec)
    placed, unplaced, reason = world.result(spec.name)
    assert planned(row)[:2] == (placed, unplaced), spec
    if not row["evictions"]:  # else other jobs may take what victims leave, the rest of a strict gang for example
        assert row["reason"] == reason, spec


@pytest.mark.parametrize("pools", [False, True])
@pytest.mark.parametrize("seed", WORLDS)
def test_a_job_grows_as_the_plan_of_its_resize_says(seed: int, pools: bool) -> None:
    world = World(seed, pools=pools)
    spec = world.spec()
    world.submit(spec)
    before, more = world.job(spec.name), world.rng.randint(1, 5)
    at = world.rng.randrange(len(spec.groups))
    row = plan_more(world.cell, before, {at: more})
    world.cell.jobs.resize(spec.id, {at: before.groups[at].total + more}, int(world.seconds * 1_000), "ada")
    world.rest()
    placed, unplaced, reason = world.result(spec.name)
    waited = before.unplaced
    assert planned(row) == (placed - before.placed, unplaced - waited, reason if unplaced > waited else None), spec

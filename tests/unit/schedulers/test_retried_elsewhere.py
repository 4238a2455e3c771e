"""A task that used up its restarts on a machine goes to another one (semantics 26): by every path of a scheduler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.tasks import EndKind
from omega.cellstate.transaction import Claim
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import NoPreemption, Placement, Preemption
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.preemption.precedence import PrecedencePreemption, machines_to_fetch, might_hold
from omega.schedulers.presets import batch, service
from omega.schedulers.process.epochs import Publisher
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from tests.unit.schedulers.rig import Rig

NOW_MS, RETRY_MS = 10_000_000, 30_000


class FirstMachine(Placement):
    """A stranger's placement: the first machine with room, job after job or several in one call."""

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        for machine in snapshot.holding(work.need(0)):
            snapshot.take(machine, work.need(0), 1)
            return [Claim(machine, 0, 1)]
        return []

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        claims = [self.place(work, snapshot, rng) for work in works]
        return claims, len(claims)


@dataclass
class FirstVictim(Preemption):
    """A stranger's preemption: the first task on the first machine that might hold the job."""

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
        return machines_to_fetch(work, snapshot, 9, rng)

    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        for machine in np.flatnonzero(might_hold(work, snapshot)).tolist():
            for resident in snapshot.residents.on(machine):
                if resident.precedence < work.job.precedence:
                    snapshot.take(machine, work.need(0), 1)
                    return [Claim(machine, 0, 1, evict=((resident.placement, 1),))]
        return []


def job(name: str, precedence: int = 0, pool: str = "") -> JobSpec:
    spec = {"pool": pool} if pool else {}
    return JobSpec(name, name, "batch", (TaskGroup((100, 100), 1),), precedence, spec=spec)


def rig_with(
    names: Sequence[str], *machines: tuple[int, int], precedence: int = 0, pool: str = "", **policies: Any
) -> Rig:
    """A rig whose jobs ran on machine 0 and used up their restarts there."""
    rig = Rig(*machines, scheduler=Scheduler("batch", rng=Random(1), **policies))
    rig.other.store_ms = lambda: NOW_MS  # type: ignore[method-assign]
    rig.submit(*(job(name, precedence, pool) for name in names))
    for name in names:
        rig.foreign(name, 0, 1)
    rig.end(*names, how=EndKind.RETRIED)
    return rig


def due(rig: Rig) -> None:
    rig.other.store_ms = lambda: NOW_MS + RETRY_MS  # type: ignore[method-assign]
    rig.other.jobs.housekeep(NOW_MS + RETRY_MS, "batch/foreign")


def on(rig: Rig, machine: int) -> set[str]:
    return {run.job for run in rig.other.machines.runs([machine]) if not run.leaving}


PLACEMENTS: dict[str, Callable[[], Placement]] = {
    "batch": lambda: batch().placement,
    "service": lambda: service().placement,
    "first fit": FirstFit,
    "stranger": FirstMachine,
}


@pytest.mark.parametrize("jobs", [1, 6], ids=["one job", "several in one call"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_with_room_on_both_machines_it_goes_to_the_other(placement: str, jobs: int) -> None:
    names = [f"j{number}" for number in range(jobs)]
    rig = rig_with(names, (1_000, 1_000), (1_000, 1_000), placement=PLACEMENTS[placement]())
    due(rig)
    rig.until_placed(*names)
    assert (on(rig, 0), on(rig, 1)) == (set(), set(names))


@pytest.mark.parametrize("preemption", [PrecedencePreemption, FirstVictim])
@pytest.mark.parametrize("others", [0, 9], ids=["less important tasks there", "only important tasks there"])
def test_where_evictions_make_the_room_it_goes_to_the_other_if_that_can_be(
    preemption: Callable[[], Preemption], others: int
) -> None:
    """The newest task, the cheapest victim, is on the machine where it failed."""
    rig = rig_with(["high"], (100, 100), (100, 100), precedence=5, placement=FirstFit(), preemption=preemption())
    rig.submit(job("other", others), job("newest"))
    rig.foreign("other", 1, 1)
    rig.foreign("newest", 0, 1)
    due(rig)
    rig.until_placed("high")
    assert "high" in on(rig, 1 if others < 5 else 0)
    assert rig.counts()["other" if others < 5 else "newest"] == (1, 0)


def test_a_pool_below_its_share_evicts_for_it_on_the_other_machine_first() -> None:
    preemption = FairSharePreemption()
    rig = rig_with(
        ["b"], (200, 200), (200, 200), pool="b", ordering=CellPools(), placement=FirstFit(), preemption=preemption
    )
    quick = PreemptionSettings(starvation_timeout=1.0, starvation_tolerance=1.0)
    rig.other.pools.set(Pools((Pool("a"), Pool("b")), (PoolTree(preemption=quick),)), None, 0, "ada")
    for number, machine in enumerate((1, 1, 0, 0)):
        rig.submit(job(f"a{number}", pool="a"))
        rig.foreign(f"a{number}", machine, 1)
    due(rig)
    assert Publisher(rig.other).publish("batch/foreign", NOW_MS, 0)
    copy = rig.live.snapshot
    copy.pools, copy.resources, copy.epoch = rig.other.pools.get(), rig.other.dimensions.names, rig.other.pools.epoch()
    rig.until_placed("b")
    assert "b" in on(rig, 1), "the newest tasks are on the machine where it failed"


def test_without_room_elsewhere_it_goes_to_the_same_machine() -> None:
    rig = rig_with(["a"], (100, 100), (50, 50), placement=FirstFit(), preemption=NoPreemption())
    due(rig)
    rig.until_placed("a")
    assert on(rig, 0) == {"a"}

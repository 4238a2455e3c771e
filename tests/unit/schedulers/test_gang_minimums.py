"""Gangs with a minimum in a scheduler: any placement keeps it, and so do bounds, limits, room and evictions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

import pytest

from omega.cellstate.model import Gang, GroupStatus
from omega.cellstate.snapshot import Resident, Snapshot
from omega.cellstate.tasks import EndKind, TaskLoss
from omega.cellstate.transaction import Claim, Mode
from omega.schedulers.constrained import Constrained, evictions, suspects
from omega.schedulers.loop import Commit
from omega.schedulers.outcomes import admitted
from omega.schedulers.placement.arranging import arranged
from omega.schedulers.placement.first_fit import FirstFit, RandomFit
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.policies import Placement
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.presets import batch
from omega.schedulers.queue.ranks import within
from omega.schedulers.work import Work, together
from omega.testing import scenes
from tests.unit.schedulers.drive import copy, group, room, work
from tests.unit.schedulers.rig import Rig, spec


@dataclass
class Stranger(Placement):
    """A placement that has never heard of gangs: as many tasks as fit, on the first machines."""

    reads: ClassVar[tuple[str, ...]] = ()

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        claims = list[Claim]()
        for at, left in enumerate(work.left):
            for machine in range(snapshot.size):
                fits = min(int(free[machine]) // need for free, need in zip(snapshot.room, work.need(at), strict=True))
                tasks = max(0, min(fits, left - sum(claim.count for claim in claims if claim.group == at)))
                if tasks:
                    snapshot.take(machine, work.need(at), tasks)
                    claims.append(Claim(machine, at, tasks))
        return claims


POLICIES: list[Placement] = [
    FirstFit(), BestFit(), RandomFit(), Constrained(FirstFit()), ServicePlacement(), Stranger(),
]  # fmt: skip


def gang(*groups: GroupStatus, least: int, kind: Gang = Gang.YES, precedence: int = 0) -> Work:
    made = work("g", *groups, gang=kind, precedence=precedence)
    return replace(made, job=replace(made.job, gang_min=least))


@pytest.mark.parametrize(
    ("groups", "least", "lacks"),
    [
        ([(10, 10)], 6, 6), ([(10, 8)], 6, 4), ([(10, 4)], 6, 0), ([(10, 3)], 6, 0), ([(5, 3), (5, 4)], 6, 3),
    ],
)  # fmt: skip
def test_what_one_transaction_must_place(groups: list[tuple[int, int]], least: int, lacks: int) -> None:
    made = gang(*(group((1, 1), total, unplaced) for total, unplaced in groups), least=least)
    assert (made.least, made.job.lacks, made.gang) == (lacks, lacks, False)
    assert work("g", group((1, 1), 5), gang=Gang.YES).least == 5
    assert work("g", group((1, 1), 5)).least == 0


def test_what_it_lacks_follows_its_own_placements_and_delayed_tasks() -> None:
    made = gang(group((1, 1), 10), least=6)
    made.left = [7]
    assert made.least == 3
    some = GroupStatus(
        need=(1, 1), total=8, unplaced=5, placed=3, waiting="0", losses=(TaskLoss("1-4", 1, due_ms=9, placement=0),)
    )
    assert gang(some, least=6).least == 3, "four of its tasks are delayed"


def test_a_part_of_it_lacks_as_much() -> None:
    made = gang(group((1, 1), 10, 8), least=6)
    made.admitted = [5]
    part = admitted(made)
    assert (part.left, part.least, made.least) == ([5], 4, 4)
    assert (within(made, [4]), within(made, [3]), within(made, [9])) == ([4], [0], None)


@pytest.mark.parametrize("placement", POLICIES)
@pytest.mark.parametrize(("free", "placed"), [(5, 0), (6, 6), (8, 8), (20, 10)])
def test_any_placement_keeps_the_minimum(placement: Placement, free: int, placed: int) -> None:
    snapshot = copy(*[(1, 1)] * free)
    claims = arranged(placement, gang(group((1, 1), 10), least=6), snapshot, Random(1))
    assert sum(claim.count for claim in claims) == placed
    assert sum(cpu for cpu, _ in room(snapshot)) == free - placed


@pytest.mark.parametrize("placement", POLICIES)
def test_small_tasks_make_the_minimum_where_large_ones_would_not(placement: Placement) -> None:
    snapshot = copy(*[(4, 4)] * 2)
    claims = arranged(placement, gang(group((4, 4), 3), group((1, 1), 6), least=6), snapshot, Random(1))
    assert sum(claim.count for claim in claims) == 6
    assert {claim.group for claim in claims} == {1}


def test_jobs_that_lack_unequal_numbers_are_not_alike() -> None:
    shapes = {gang(group((1, 1), 10), least=least).shape() for least in (2, 6, 6)}
    assert len(shapes) == 2
    assert gang(group((1, 1), 10, 4), least=6).shape() == gang(group((1, 1), 9, 2), least=6).shape()


@pytest.mark.parametrize(("least", "evicted"), [(4, 4), (5, 0)])
def test_evictions_make_room_for_the_minimum_alone(least: int, evicted: int) -> None:
    snapshot = scenes.snapshot(*[(0, 0)] * 4, used=1)
    low = [Resident(machine=m, placement=m + 1, job=f"l{m}", precedence=0, need=(1, 1), tasks=1) for m in range(4)]
    for each in low:
        snapshot.residents.learn([each.machine], snapshot.number, [each])
    high = gang(group((1, 1), 9), least=least, precedence=5)
    policy = PrecedencePreemption()
    snapshot.now, high.until = 5.0, 6.0
    assert suspects(policy, high, snapshot, Random(1)) is None, "a policy delays it"
    high.until = 5.0
    assert suspects(policy, high, snapshot, Random(1)) is not None
    claims = evictions(policy, high, snapshot, FirstFit(), Random(1))
    assert sum(count for claim in claims for _, count in claim.evict) == evicted
    assert sum(claim.count for claim in claims) == evicted


def test_the_rest_of_a_small_minimum_that_is_delayed_evicts_nothing() -> None:
    made = gang(group((1, 1), 10), least=6)
    some = GroupStatus(
        need=(1, 1), total=8, unplaced=8, waiting="0", losses=(TaskLoss("1-7", 1, due_ms=9, placement=0),)
    )
    assert together(made).left == [6]
    late = gang(some, least=6, precedence=5)
    assert (late.remaining, late.least) == (1, 6)
    assert suspects(PrecedencePreemption(), late, copy((0, 0)), Random(1)) is None
    assert list(arranged(FirstFit(), late, copy((4, 4)), Random(1))) == []


@pytest.mark.parametrize("placement", [FirstFit(), Stranger()])
def test_a_live_scheduler_starts_it_with_its_minimum_and_lets_it_grow(placement: Placement) -> None:
    scheduler = batch("rig")
    scheduler.placement = placement
    rig = Rig((300, 300), (200, 200), scheduler=scheduler)
    rig.submit(spec("full", 2), spec("g", 8, gang=Gang.YES, gang_min=4))
    rig.until_placed("full")
    rig.rest()
    assert rig.left("g") == 8, "three fit"
    rig.join((200, 200))
    rig.until(lambda: rig.left("g") == 3)
    rig.rest()
    rig.join((100, 100))
    rig.until(lambda: rig.left("g") == 2)
    modes = [each.mode for effect, _ in rig.answers if isinstance(effect, Commit) for each in effect.transactions]
    assert modes[-2:] == [Mode.GANG, Mode.INCREMENTAL]
    rig.end("full", how=EndKind.FINISHED)
    rig.until_placed("g")


def test_a_live_scheduler_gives_back_what_it_lacks_at_once() -> None:
    rig = Rig((400, 400))
    rig.submit(spec("g", 4, gang=Gang.YES, gang_min=3))
    rig.until_placed("g")
    rig.end("g", how=EndKind.EVICTED)
    rig.until_placed("g")
    found = rig.other.jobs.get("g")
    assert found is not None
    assert found.placed == 4

"""The preemption policies of Omega keep the contract; and the victims of `PrecedencePreemption`."""

from random import Random

import pytest

from omega.cellstate.model import Gang
from omega.cellstate.transaction import Mode, Transaction
from omega.schedulers.constraints.fetching import Fetch, fetch
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.policies import NoPreemption, Placement
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.work import Work
from omega.testing import PreemptionContract
from omega.testing.residents import CellWithResidents


class TestNoPreemption(PreemptionContract):
    policies = (NoPreemption(),)


class TestPrecedence(PreemptionContract):
    policies = (PrecedencePreemption(), PrecedencePreemption(looks=1), PrecedencePreemption(most=2))


# Whom PrecedencePreemption chooses


def evicted(scene: CellWithResidents, work: Work, placement: Placement | None = None, seed: int = 1) -> dict[str, int]:
    """Tasks evicted by job, once what the policy claims is committed."""
    claims = PrecedencePreemption().place(work, scene.snapshot(work), placement or ServicePlacement(), Random(seed))
    if claims:
        scene.commit(Transaction("j", tuple(claims), Mode.GANG if work.gang else Mode.INCREMENTAL))
    return scene.leaving()


def test_the_lowest_precedence_goes_even_if_more_tasks_of_it_are_needed() -> None:
    scene = CellWithResidents([(4, 4)], [(0, (1, 1), 2, 1, Gang.NO), (0, (2, 2), 1, 3, Gang.NO)])
    assert evicted(scene, scene.job(((2, 2), 1))) == {"r1": 2}


def test_no_more_go_than_are_needed_and_the_most_important_of_them_stay() -> None:
    scene = CellWithResidents(
        [(6, 6)], [(0, (1, 1), 1, 1, Gang.NO), (0, (2, 2), 1, 2, Gang.NO), (0, (3, 3), 1, 3, Gang.NO)]
    )
    assert evicted(scene, scene.job(((3, 3), 1))) == {"r1": 1, "r2": 1}  # not all up to precedence 3
    scene = CellWithResidents([(6, 6)], [(0, (1, 1), 1, 1, Gang.NO), (0, (5, 5), 1, 2, Gang.NO)])
    assert evicted(scene, scene.job(((5, 5), 1))) == {"r2": 1}  # alone enough, so the less important one stays


def test_of_equal_precedence_the_fewest_go_then_the_newest() -> None:
    scene = CellWithResidents([(6, 6)], [(0, (1, 1), 1, 1, Gang.NO)] * 3 + [(0, (3, 3), 1, 1, Gang.NO)])
    assert evicted(scene, scene.job(((3, 3), 1))) == {"r4": 1}
    scene = CellWithResidents([(3, 3)], [(0, (1, 1), 1, 1, Gang.NO)] * 3)
    assert evicted(scene, scene.job(((2, 2), 1))) == {"r2": 1, "r3": 1}


@pytest.mark.parametrize("placement", [ServicePlacement(), FirstFit(), BestFit()])
def test_the_machine_where_the_least_is_disturbed_is_taken(placement: Placement) -> None:
    residents = [(0, (4, 4), 1, 3, Gang.NO), (1, (1, 1), 4, 1, Gang.NO), (2, (2, 2), 2, 1, Gang.NO)]
    for seed in range(5):
        scene = CellWithResidents([(4, 4)] * 3, residents)
        assert evicted(scene, scene.job(((2, 2), 1)), placement, seed) == {"r3": 1}


def test_a_strict_gang_goes_last_of_its_precedence_and_as_a_whole() -> None:
    scene = CellWithResidents([(4, 4)] * 2)
    scene.settle([(0, 2), (1, 2)], (2, 2), 1, Gang.STRICT)
    work = scene.job(((2, 2), 1))
    assert evicted(scene, work) == {"r1": 4}
    scene = CellWithResidents([(4, 4)] * 2)
    scene.settle([(0, 1), (1, 2)], (2, 2), 1, Gang.STRICT)
    scene.settle([(0, 2)], (1, 1), 1)
    assert evicted(scene, scene.job(((2, 2), 1))) == {"r2": 2}


def test_a_gang_takes_what_is_free_and_evicts_for_the_rest_or_takes_nothing() -> None:
    scene = CellWithResidents([(4, 4)] * 3, [(0, (4, 4), 1, 1, Gang.NO), (1, (4, 4), 1, 9, Gang.NO)])
    assert evicted(scene, scene.job(((4, 4), 2), gang=Gang.YES)) == {"r1": 1}
    scene = CellWithResidents([(4, 4)] * 3, [(0, (4, 4), 1, 1, Gang.NO), (1, (4, 4), 1, 9, Gang.NO)])
    work = scene.job(((4, 4), 3), gang=Gang.YES)
    assert evicted(scene, work) == {}


def test_constraints_and_spreading_hold_for_what_evicts() -> None:
    scene = CellWithResidents([(4, 4)] * 3, [(i, (4, 4), 1, 1, Gang.NO) for i in range(3)])
    work = scene.job(((1, 1), 3), different_machines=True)
    assert evicted(scene, work) == {"r1": 1, "r2": 1, "r3": 1}
    scene = CellWithResidents([(4, 4)] * 3, [(i, (4, 4), 1, 1, Gang.NO) for i in range(3)])
    assert evicted(scene, scene.job(((1, 1), 3), constraints=["machine == 'm2'"])) == {"r3": 1}
    scene = CellWithResidents([(4, 4)], [(0, (4, 4), 1, 1, Gang.NO)])
    assert evicted(scene, scene.job(((1, 1), 1), constraints=["machine == 'm7'"])) == {}


def test_only_machines_that_might_hold_it_are_looked_up_and_no_more_than_so_many() -> None:
    has = [(4, 4)] * 30 + [(1, 1)] * 30 + [(4, 4)] * 30
    scene = CellWithResidents(has, [(i, (1, 1), 1, 1, Gang.NO) for i in range(60)])
    work = scene.job(((4, 4), 1))
    snapshot = scene.snapshot(work, looked=False)
    found = PrecedencePreemption(looks=10).suspects(work, snapshot, Random(1))
    assert found is not None
    assert len(found) == 10
    assert set(found) <= set(range(30)), "neither too small ones nor empty ones"
    fetch(Fetch(residents=tuple(found)), scene.cell, snapshot)
    more = PrecedencePreemption(looks=100).suspects(work, snapshot, Random(1))
    assert more is not None
    assert sorted([*found, *more]) == list(range(30)), "what is known is not looked up again"
    scene.settle([(found[0], 1)], (1, 1), 1)
    snapshot.apply(scene.cell.schedulers.sync(snapshot.position))
    assert found[0] in (PrecedencePreemption(looks=100).suspects(work, snapshot, Random(1)) or ()), "until it changes"


def test_victims_that_are_not_known_are_not_named() -> None:
    scene = CellWithResidents([(4, 4)], [(0, (4, 4), 1, 1, Gang.NO)])
    work = scene.job(((1, 1), 1))
    snapshot = scene.snapshot(work, looked=False)
    assert PrecedencePreemption().place(work, snapshot, ServicePlacement(), Random(1)) == []

"""A gang of several groups is tried in several orders before it is given up."""

from dataclasses import replace
from random import Random

import pytest

from omega.cellstate.model import Gang
from omega.cellstate.tasks import Retried, TaskLoss
from omega.schedulers.constrained import Constrained
from omega.schedulers.placement.arranging import arranged, elsewhere
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.policies import Placement
from tests.unit.schedulers.constraints.site import demanding, site
from tests.unit.schedulers.drive import copy, group, room, work
from tests.unit.schedulers.test_gang_minimums import Stranger

POLICIES: list[Placement] = [FirstFit(), BestFit(), Constrained(FirstFit()), ServicePlacement()]


@pytest.mark.parametrize("placement", POLICIES)
def test_the_small_ones_do_not_take_the_only_machine_for_the_large_one(placement: Placement) -> None:
    """Two of 2 and one of 4 on machines of 4, 2 and 2: small ones there leave no place for the large."""
    for seed in range(20):
        snapshot = copy((4, 4), (2, 2), (2, 2))
        gang = work("g", group((2, 2), 2), group((4, 4), 1), gang=Gang.YES)
        claims = arranged(placement, gang, snapshot, Random(seed))
        assert sorted((claim.group, claim.count) for claim in claims) in ([(0, 1), (0, 1), (1, 1)], [(0, 2), (1, 1)])
        assert [(claim.machine, claim.group) for claim in claims if claim.group == 1] == [(0, 1)]
        assert all(amount == 0 for machine in room(snapshot) for amount in machine)


@pytest.mark.parametrize("placement", POLICIES)
def test_one_that_fits_in_no_order_leaves_the_copy_as_it_was(placement: Placement) -> None:
    snapshot = copy((4, 4), (2, 2))
    before = room(snapshot)
    gang = work("g", group((2, 2), 2), group((4, 4), 1), gang=Gang.YES)
    assert list(arranged(placement, gang, snapshot, Random(1))) == []
    assert (room(snapshot), snapshot.mark()) == (before, 0)


def test_what_a_job_demands_of_all_its_groups_holds_in_every_order() -> None:
    snapshot = site({"rack": "a"}, {"rack": "a"}, {"rack": "b"}, free=(4, 4))
    asked = {"different_machines": True}
    gang = demanding((group((1, 1), 2), asked), (group((4, 4), 1), asked), gang=Gang.YES)
    claims = arranged(ServicePlacement(), gang, snapshot, Random(3))
    assert sorted(claim.machine for claim in claims) == [0, 1, 2]


@pytest.mark.parametrize("placement", POLICIES)
def test_what_failed_on_a_machine_goes_to_another_one_while_one_has_room(placement: Placement) -> None:
    for free, expected in (((4, 4), {1}), ((0, 0), {0})):
        for gang in (Gang.NO, Gang.YES):
            snapshot = copy((4, 4), free)
            retried = replace(group((2, 2), 1), losses=(TaskLoss("0", 0, 0, 1, Retried(1, 0)),))
            claims = elsewhere(placement, work("g", retried, gang=gang), snapshot, Random(3))
            assert {claim.machine for claim in claims} == expected
            assert sum(claim.count for claim in claims) == 1


def test_as_many_tasks_as_fit_elsewhere_leave_the_machine_where_they_failed() -> None:
    snapshot = copy((8, 8), (4, 4))
    retried = replace(
        group((2, 2), 3), losses=(TaskLoss("0-2", 0, 0, 1, Retried(1, 0)), TaskLoss("3", 0, 0, 1, Retried(1, 99)))
    )
    claims = elsewhere(FirstFit(), work("g", retried), snapshot, Random(3))
    assert sorted((claim.machine, claim.count) for claim in claims) == [(0, 1), (1, 2)]


RACKS = {
    # machines; which have room; tasks with a waiting copy by the machine of their originals; machines of the copies
    "in another rack": ("aaab", "1111", {0: 0}, [3]),
    "in its own rack when no other has room": ("aaab", "1110", {0: 0}, [1, 2]),
    "in its own rack when there is one": ("aa", "11", {0: 0}, [1]),
    "never on the machine of the original": ("aab", "100", {0: 0}, []),
    "each by its own original": ("ab", "11", {0: 0, 1: 1}, [0, 1]),
    "in the order of their tasks": ("ab", "10", {0: 0, 1: 1}, []),
}


@pytest.mark.parametrize("placement", [*POLICIES, Stranger()])
@pytest.mark.parametrize("case", RACKS)
def test_a_copy_of_a_slow_task_is_placed_in_another_rack(placement: Placement, case: str) -> None:
    """Of several possible machines a copy gets one."""
    racks, free, originals, expected = RACKS[case]
    snapshot = site(*({"rack": rack} for rack in racks), free=(4, 4))
    for machine, has in enumerate(free):
        snapshot.take(machine, (1, 1), 0 if has == "1" else 4)
    losses = tuple(TaskLoss(str(task), 0, 0, 1, Retried(1, machine)) for task, machine in originals.items())
    copies = replace(group((1, 1), len(originals)), copies=True, losses=losses)
    own = group((1, 1), len(racks), 0)
    claims = elsewhere(placement, work("g", own, copies), snapshot, Random(3))
    machines = sorted(claim.machine for claim in claims)
    assert {(claim.group, claim.count) for claim in claims} <= {(1, 1)}
    assert set(machines) <= set(expected)
    assert len(machines) == min(len(originals), len(expected))

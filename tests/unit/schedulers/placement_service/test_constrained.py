"""Any placement within constraints: it sees the machines a job may use and nothing else."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.model import Gang
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constrained import Constrained
from omega.schedulers.placement.first_fit import FirstFit, OwnPart, RandomFit
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.policies import Placement, machines_of
from omega.schedulers.work import Work
from omega.testing import PlacementContract
from tests.unit.schedulers.constraints.site import asking, demanding, racks, site, tasks_by
from tests.unit.schedulers.drive import group, room, work

INNER = [FirstFit(), BestFit(), BestFit(apart=1), RandomFit(), ServicePlacement()]


class TestConstrained(PlacementContract):
    policies = (Constrained(), Constrained(BestFit()), Constrained(ServicePlacement()))


@dataclass
class Seen:
    """Notes what it is shown, and places as another does."""

    inner: Placement = field(default_factory=FirstFit)
    snapshots: list[Snapshot] = field(default_factory=list)

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        self.snapshots.append(snapshot)
        return self.inner.place(work, snapshot, rng)


@pytest.mark.parametrize("inner", INNER)
def test_only_machines_that_may_are_used(inner: Placement) -> None:
    snapshot = site(*racks(5, 4), free=(3, 3))
    claims = list(Constrained(inner).place(asking({"constraints": ["rack in ['r1', 'r3']"]}, 20), snapshot, Random(1)))
    assert tasks_by(snapshot, claims, "rack").keys() == {"r1", "r3"}
    assert sum(claim.count for claim in claims) == 20
    more = Constrained(inner).place(asking({"constraints": ["rack in ['r1', 'r3']"]}, 20), snapshot, Random(1))
    assert sum(claim.count for claim in more) == 4, "that is all the room there"


def test_jobs_without_demands_are_shown_the_copy_itself() -> None:
    snapshot, seen = site({}, {}), Seen()
    for found in (work("a"), asking({"name": "x"})):
        Constrained(seen).place(found, snapshot, Random(1))
    assert seen.snapshots == [snapshot, snapshot]


@pytest.mark.parametrize(
    "extra",
    [
        {"spread": ["rack"]},
        {"different_machines": True},  # the inner one does not declare that it keeps tasks apart
        {"near": "x"},
        {"apart_from": "x"},
        {"constraints": [{"prefer": "has a"}]},
    ],
)
def test_what_no_choice_of_single_machines_answers_goes_to_the_careful_one(extra: dict[str, Any]) -> None:
    snapshot, inner, careful = site({"rack": "a"}), Seen(), Seen(ServicePlacement())
    assert Constrained(inner, careful).place(asking(extra), snapshot, Random(1))
    assert (len(inner.snapshots), len(careful.snapshots)) == (0, 1)


@pytest.mark.parametrize("inner", [FirstFit(), FirstFit(window=1), OwnPart(), RandomFit()])
def test_a_placement_that_keeps_tasks_apart_places_them_itself(inner: Placement) -> None:
    snapshot, careful = site(*racks(3, 4), free=(3, 3)), Seen(ServicePlacement())
    apart = {"different_machines": True}
    found = demanding((group((1, 1), 20), apart | {"constraints": ["rack in ['r1', 'r2']"]}), (group((3, 1), 2), apart))
    claims = list(Constrained(inner, careful).place(found, snapshot, Random(1)))
    assert Counter(claim.machine for claim in claims) == dict.fromkeys([claim.machine for claim in claims], 1)
    assert Counter(claim.group for claim in claims) == {0: 8, 1: 2}
    assert tasks_by(snapshot, [claim for claim in claims if not claim.group], "rack").keys() == {"r1", "r2"}
    assert careful.snapshots == []
    again = demanding((group((1, 1), 20), apart))
    snapshot.placed = {again.id: dict.fromkeys(range(10), 1)}
    assert machines_of(Constrained(inner).place(again, snapshot, Random(1))) <= {10, 11}
    gang = demanding((group((1, 1), 13), apart), gang=Gang.YES)
    snapshot.placed, before = {}, room(snapshot)
    assert list(Constrained(inner).place(gang, snapshot, Random(1))) == []
    assert room(snapshot) == before


def test_each_group_is_shown_its_own_machines() -> None:
    snapshot = site(*racks(3, 2), free=(2, 2))
    a, b, c = ({"constraints": ["rack == 'r0'"]}, {"constraints": ["rack == 'r1'"]}, {"name": "anywhere"})
    found = demanding((group((1, 1), 3), a), (group((1, 1), 4), b), (group((1, 1), 5), c))
    claims = Constrained().place(found, snapshot, Random(1))
    for wanted, machines in ((0, {0, 1}), (1, {2, 3}), (2, set(range(6)))):
        assert {claim.machine for claim in claims if claim.group == wanted} <= machines
    assert sum(claim.count for claim in claims) == 12
    assert set(room(snapshot)) == {(0, 0)}, "no machine is claimed twice for the same room"


def test_a_gang_of_which_one_group_may_nowhere_is_not_placed() -> None:
    snapshot = site(*racks(2, 2))
    groups = [(group((1, 1), 3), {}), (group((1, 1), 3), {"constraints": ["rack == 'r9'"]})]
    assert Constrained().place(demanding(*groups, gang=Gang.YES), snapshot, Random(1)) == []
    assert (room(snapshot), snapshot.mark()) == ([(100, 100)] * 4, 0)
    claims = Constrained().place(demanding(*groups), snapshot, Random(1))
    assert {claim.group for claim in claims} == {0}


def test_claims_are_in_the_order_they_were_taken() -> None:
    snapshot = site(*racks(3, 2))
    found = demanding(*((group((1, 1), 150), {"constraints": [f"rack == 'r{i}'"]}) for i in range(3)))
    claims = Constrained().place(found, snapshot, Random(1))
    assert [(claim.machine, claim.count) for claim in claims] == [(machine, n) for machine, _, n in snapshot._open]


def test_best_fit_keeps_apart_from_what_another_group_has_just_taken() -> None:
    snapshot = site({"rack": "a"}, {"rack": "a"})
    same = {"constraints": ["rack == 'a'"]}
    found = demanding((group((1, 1), 1), same), (group((1, 1), 1), same))
    assert machines_of(Constrained(BestFit(apart=1)).place(found, snapshot, Random(1))) == {0, 1}


@given(st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=8), st.integers(1, 30), st.integers(0, 9))
def test_it_places_as_many_as_on_a_cell_of_only_those_machines(zones: list[str], tasks: int, seed: int) -> None:
    snapshot = site(*({"zone": zone} if zone else {} for zone in zones), free=(3, 3))
    claims = Constrained().place(asking({"constraints": ["zone == 'a'"]}, tasks), snapshot, Random(seed))
    assert sum(claim.count for claim in claims) == min(tasks, 3 * Counter(zones)["a"])
    assert all(zones[claim.machine] == "a" for claim in claims)

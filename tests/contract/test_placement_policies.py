"""The placement policies that come with Omega keep to the contract of all; beside that, what each prefers."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from omega.cellstate.model import MOST_CLAIMS
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.experiments.configuration import Configuration
from omega.schedulers.constrained import Constrained
from omega.schedulers.placement.first_fit import FirstFit, OwnPart, RandomFit
from omega.schedulers.placement.service import BestFit, tightness
from omega.schedulers.policies import Peers, machines_of
from omega.schedulers.presets import batch, mapreduce
from omega.schedulers.work import Work
from omega.simulation.run import PLACEMENT
from omega.testing import PlacementContract, snapshot as copy, work
from omega.testing.scenes import room


class TestFirstFit(PlacementContract):
    policies = (FirstFit(), FirstFit(window=0), FirstFit(window=3))


def joined(number: int, members: int) -> OwnPart:
    """The placement of one of several schedulers."""
    policy = OwnPart()
    others = {name: None for name in Peers._fields if name not in ("kind", "number", "members")}
    policy.join(Peers(kind="batch", number=number, members=members, **others))  # type: ignore[arg-type]
    return policy


class TestOwnPart(PlacementContract):
    """A scheduler alone, the last of several, and one of more schedulers than there are machines."""

    policies = (OwnPart(), joined(2, 3), OwnPart(window=0), joined(70, 90))


class TestRandomFit(PlacementContract):
    """It marks many tasks at once, and so never claims more than a transaction holds."""

    def _marked(self, claims: Sequence[Claim], found: Work, copy: Snapshot, before: list[list[int]]) -> None:
        assert len(claims) <= MOST_CLAIMS
        copy.undo(0)
        assert room(copy) == before

    policies = (RandomFit(), RandomFit(fewest=0))


class TestConstrained(PlacementContract):
    policy = Constrained()


class TestBestFit(PlacementContract):
    policies = (BestFit(), BestFit(apart=1), BestFit(apart=3))


# What they prefer


def test_live_presets_begin_in_parts_and_experiments_at_random_machines() -> None:
    assert {type(made.placement) for made in (batch(), mapreduce())} == {OwnPart}
    assert PLACEMENT[Configuration().placement] is RandomFit


def test_schedulers_of_a_kind_choose_machines_of_their_own_part_while_these_have_room() -> None:
    chosen: list[set[int]] = []
    for number in range(4):
        snapshot, policy = copy(*[(9, 9)] * 100), joined(number, 4)
        claims = [policy.place(work(((1, 1), 3)), snapshot, Random(seed)) for seed in range(40)]
        chosen.append({machine for each in claims for machine in machines_of(each)})
    for number, machines in enumerate(chosen):
        assert machines <= set(range(25 * number, 25 * (number + 1) + 1)), "the last one may fill up behind its part"
        assert len(machines) > 15


def test_a_scheduler_whose_part_is_full_goes_on_behind_it() -> None:
    snapshot = copy(*[(0, 0)] * 50, *[(4, 4)] * 50)
    assert sum(claim.count for claim in joined(0, 2).place(work(((1, 1), 200)), snapshot, Random(3))) == 200


def test_a_scheduler_alone_chooses_as_first_fit() -> None:
    one, other = copy(*[(2, 2)] * 30), copy(*[(2, 2)] * 30)
    for seed in range(20):
        asked = work(((1, 1), 2))
        assert list(OwnPart().place(asked, one, Random(seed))) == list(FirstFit().place(asked, other, Random(seed)))


def test_first_fit_begins_anywhere_so_that_two_schedulers_seldom_meet() -> None:
    snapshot, starts = copy(*[(9, 9)] * 100), []
    for seed in range(200):
        starts += [claim.machine for claim in FirstFit().place(work(((1, 1), 1)), snapshot, Random(seed))]
        snapshot.undo(0)
    assert len(set(starts)) > 70


@pytest.mark.parametrize("window", [0, 64])
def test_first_fit_takes_the_next_machines_from_where_it_began_and_goes_round(window: int) -> None:
    snapshot = copy(*[(2, 2)] * 10)
    claims = FirstFit(window).place(work(((1, 1), 19)), snapshot, Random(5))
    start = int(Random(5).random() * 10)
    assert start > 0
    assert [claim.machine for claim in claims] == [(start + i) % 10 for i in range(10)]
    assert [claim.count for claim in claims] == [2] * 9 + [1]


def test_best_fit_takes_the_tightest_machine() -> None:
    snapshot = copy((9, 9), (3, 3), (5, 5))
    claims = BestFit().place(work(((3, 3), 2)), snapshot, Random(1))
    assert [claim.machine for claim in claims] == [1, 2]


def test_best_fit_breaks_ties_at_random() -> None:
    snapshot, chosen = copy(*[(9, 9)] * 50), set()
    for seed in range(40):
        chosen |= machines_of(BestFit().place(work(((1, 1), 1)), snapshot, Random(seed)))
        snapshot.undo(0)
    assert len(chosen) > 15


@pytest.mark.parametrize(("apart", "spread"), [(1, [2, 2, 2]), (2, [2, 2, 2]), (0, [6])])
def test_apart_bounds_what_one_failure_takes(apart: int, spread: list[int]) -> None:
    claims = BestFit(apart=apart).place(work(((1, 1), 6)), copy(*[(6, 6)] * 3), Random(1))
    per_machine = Counter[int]()
    for claim in claims:
        assert claim.count <= (apart or 6)
        per_machine[claim.machine] += claim.count
    assert sorted(per_machine.values()) == spread


def test_apart_remembers_where_tasks_of_the_job_were_placed_before() -> None:
    found = work(((1, 1), 2))
    found.places = {0: 1, 1: 1}
    claims = BestFit(apart=1).place(found, copy(*[(9, 9)] * 4), Random(1))
    assert machines_of(claims) == {2, 3}


def test_tightness_is_how_full_a_machine_would_be() -> None:
    snapshot = copy((4, 8), (8, 8), used=2)
    assert tightness(snapshot, (1, 1)).tolist() == pytest.approx([(3 / 6 + 3 / 10) / 2, (3 / 10 + 3 / 10) / 2])

"""What every placement policy keeps to, whatever it prefers. A new one: subclass the mix-in, name the policy.

Beside the mix-in, what the policies that come with Omega prefer.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellstate.cell import Reply
from cellstate.model import Gang, GroupStatus, Job, JobState, MachineState
from cellstate.transaction import Claim, Position
from cellstate.view import View
from schedulers.placement.first_fit import RandomFirstFit
from schedulers.placement.scored import BestFit, tightness
from schedulers.policies import Placement, machines_of
from schedulers.work import Work

Need = tuple[int, ...]
Asked = list[tuple[Need, int]]


def work(*groups: tuple[Need, int], gang: bool = False) -> Work:
    statuses = [GroupStatus(need, 0, n, n, 0, 0, 0, 0, f"0-{n - 1}" if n else "-", ()) for need, n in groups]
    return Work.of(Job("a", "a", "batch", 0, 0, JobState.ACTIVE, Gang(gang), 0, statuses))


def copy(*free: Need, used: int = 0, state: int = MachineState.UP) -> View:
    """Machines with so much free, each of another number."""
    size = len(free[0]) if free else 1
    view = View(size)
    records = [(i, 10 + i, state, 0, *(f + used for f in amounts), *[used] * size) for i, amounts in enumerate(free)]
    rows = np.array(records, dtype=np.int64).reshape(-1, 4 + 2 * size)
    view.apply(Reply(Position(1, "t"), full=True, rows=rows))
    return view


def room(view: View) -> list[list[int]]:
    return [amounts.tolist() for amounts in view.room]


def uses(claims: Sequence[Claim], asked: Work, view: View) -> list[list[int]]:
    """What claims take of each machine, by dimension."""
    taken = np.zeros((view.dimensions, view.size), dtype=np.int64)
    for claim in claims:
        taken[:, claim.machine] += np.array(asked.need(claim.group), dtype=np.int64) * claim.count
    return taken.tolist()


def cells(dimensions: int) -> st.SearchStrategy[list[Need]]:
    """Up to a dozen machines; -1 in every dimension is one that takes nothing."""
    amounts = st.tuples(*[st.integers(0, 12)] * dimensions)
    return st.lists(st.one_of(amounts, st.just((-1,) * dimensions)), max_size=12)


def jobs(dimensions: int) -> st.SearchStrategy[Asked]:
    need = st.tuples(*[st.integers(0, 5)] * dimensions)
    return st.lists(st.tuples(need, st.integers(0, 20)), min_size=1, max_size=3)


class PlacementContract:
    """The mix-in; `policies` are the ways to set the policy up that are held to it."""

    policies: tuple[Placement, ...] = ()

    @pytest.fixture(params=range(3))
    def policy(self, request: pytest.FixtureRequest) -> Placement:
        index: int = request.param
        return self.policies[index % len(self.policies)]

    @pytest.mark.parametrize("dimensions", [1, 2, 3])
    @settings(max_examples=40)
    @given(data=st.data())
    def test_it_keeps_to_the_copy_and_to_the_job(self, dimensions: int, data: st.DataObject) -> None:
        """Any cell, any job, any seed."""
        policy = data.draw(st.sampled_from(self.policies))
        free, asked, seed = data.draw(cells(dimensions)), data.draw(jobs(dimensions)), data.draw(st.integers(0, 9))
        gang = data.draw(st.booleans())
        view, found = copy(*free) if free else View(dimensions), work(*asked, gang=gang)
        before = room(view)
        claims = policy.place(found, view, Random(seed))
        counts = Counter[int]()
        for claim in claims:
            counts[claim.group] += claim.count
            assert claim.count > 0
            assert claim.seen == int(view.number[claim.machine]) == 10 + claim.machine
            assert before[0][claim.machine] >= 0, "a machine that takes nothing"
            assert claim.evict == ()
        taken = uses(claims, found, view)
        left = [[b - t for b, t in zip(row, used, strict=True)] for row, used in zip(before, taken, strict=True)]
        assert room(view) == left, "the copy lacks what was claimed and nothing else"
        assert all(
            amount >= 0 for row, used in zip(left, taken, strict=True) for amount, t in zip(row, used, strict=True) if t
        )
        assert all(counts[group] <= count for group, (_, count) in enumerate(asked))
        missing = [need for group, (need, count) in enumerate(asked) if counts[group] < count]
        if gang:
            assert not missing or claims == []
        elif missing:
            for machine in range(len(free)):
                fits = [all(row[machine] >= amount for row, amount in zip(left, need, strict=True)) for need in missing]
                assert not (any(fits) and left[0][machine] >= 0), f"machine {machine} had room for what was left out"
        assert [(claim.machine, claim.count) for claim in claims] == [(machine, n) for machine, _, n in view._open]
        view.undo(0)
        assert room(view) == before
        assert policy.place(work(*asked, gang=gang), view, Random(seed)) == claims, "the same seed, the same claims"

    @pytest.mark.parametrize("dimensions", [1, 3])
    def test_the_one_machine_of_ten_thousand_is_found(self, policy: Placement, dimensions: int) -> None:
        free = [(1,) * dimensions] * 10_000
        free[7_777] = (2,) * dimensions
        view, found = copy(*free), work(((2,) * dimensions, 3))
        for seed in range(3):
            assert machines_of(policy.place(found, view, Random(seed))) == {7_777}
            view.undo(0)

    def test_an_empty_cell_and_a_full_one_give_no_claims(self, policy: Placement) -> None:
        for view in (View(2), copy((0, 0), (0, 5)), copy((9, 9), state=MachineState.DRAINED)):
            before = room(view)
            assert policy.place(work(((1, 1), 2)), view, Random(1)) == []
            assert room(view) == before

    def test_a_gang_is_placed_whole_or_not_at_all(self, policy: Placement) -> None:
        view = copy((2, 2), (2, 2), (3, 3))
        before, mark = room(view), view.mark()
        assert policy.place(work(((1, 1), 4), ((2, 2), 2), gang=True), view, Random(1)) == []
        assert (room(view), view.mark()) == (before, mark)
        view.take(0, (1, 1), 1)
        assert policy.place(work(((1, 1), 7), gang=True), view, Random(1)) == []
        assert view.free[0][0] == 1, "what was claimed before it is still claimed"
        claims = policy.place(work(((1, 1), 1), ((2, 2), 1), gang=True), view, Random(1))
        assert sum(claim.count for claim in claims) == 2

    def test_tasks_that_need_nothing_go_to_any_machine_that_is_up(self, policy: Placement) -> None:
        view = copy((0, 0), (0, 0))
        view.apply(Reply(Position(2, "t"), full=False, rows=np.array([[0, 2, MachineState.DOWN, 0, 0, 0, 0, 0]])))
        claims = policy.place(work(((0, 0), 5)), view, Random(1))
        assert (machines_of(claims), sum(claim.count for claim in claims)) == ({1}, 5)

    def test_a_dimension_a_task_does_not_need_does_not_keep_it_out(self, policy: Placement) -> None:
        for need, free in (((0, 3), (0, 9)), ((3, 0), (9, 0))):
            claims = policy.place(work((need, 3)), copy(free), Random(1))
            assert sum(claim.count for claim in claims) == 3

    def test_only_what_is_left_is_placed(self, policy: Placement) -> None:
        found = work(((1, 1), 5), ((1, 1), 5))
        found.left = [0, 2]
        claims = policy.place(found, copy((9, 9), (9, 9)), Random(1))
        assert {claim.group for claim in claims} == {1}
        assert sum(claim.count for claim in claims) == 2

    def test_large_amounts_do_not_overflow(self, policy: Placement) -> None:
        large = 10**15
        view = copy((large, large))
        claims = policy.place(work(((large // 1000, 1), 1_500)), view, Random(1))
        assert sum(claim.count for claim in claims) == 1_000


class TestRandomFirstFit(PlacementContract):
    policies = (RandomFirstFit(), RandomFirstFit(window=0), RandomFirstFit(window=3))


class TestBestFit(PlacementContract):
    policies = (BestFit(), BestFit(apart=1), BestFit(apart=3))


# What they prefer


def test_first_fit_begins_anywhere_so_that_two_schedulers_seldom_meet() -> None:
    view, starts = copy(*[(9, 9)] * 100), []
    for seed in range(200):
        starts += [claim.machine for claim in RandomFirstFit().place(work(((1, 1), 1)), view, Random(seed))]
        view.undo(0)
    assert len(set(starts)) > 70


@pytest.mark.parametrize("window", [0, 64])
def test_first_fit_takes_the_next_machines_from_where_it_began_and_goes_round(window: int) -> None:
    view = copy(*[(2, 2)] * 10)
    claims = RandomFirstFit(window).place(work(((1, 1), 19)), view, Random(5))
    start = int(Random(5).random() * 10)
    assert start > 0
    assert [claim.machine for claim in claims] == [(start + i) % 10 for i in range(10)]
    assert [claim.count for claim in claims] == [2] * 9 + [1]


def test_best_fit_takes_the_tightest_machine() -> None:
    view = copy((9, 9), (3, 3), (5, 5))
    claims = BestFit().place(work(((3, 3), 2)), view, Random(1))
    assert [claim.machine for claim in claims] == [1, 2]


def test_best_fit_breaks_ties_at_random() -> None:
    view, chosen = copy(*[(9, 9)] * 50), set()
    for seed in range(40):
        chosen |= machines_of(BestFit().place(work(((1, 1), 1)), view, Random(seed)))
        view.undo(0)
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
    view = copy((4, 8), (8, 8), used=2)
    assert tightness(view, (1, 1)).tolist() == pytest.approx([(3 / 6 + 3 / 10) / 2, (3 / 10 + 3 / 10) / 2])

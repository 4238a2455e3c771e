"""The contract of placement policies."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import MachineState
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Position
from omega.schedulers.constrained import within_constraints
from omega.schedulers.constraints.enforcing import enforced
from omega.schedulers.placement.arranging import arranged
from omega.schedulers.policies import Placement, as_places_all, declares, machines_of, read_by
from omega.schedulers.work import Work
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.testing.purity import Unchanged, fresh, mentions, watched
from omega.testing.sampled_fields import sampled
from omega.testing.scenes import FIRST_NUMBER, Need, filled, for_all, less, room, snapshot, uses, work
from omega.testing.worlds import World

COPIES: tuple[Callable[[int], Snapshot], ...] = (ArraySnapshot, PackedSnapshot)
"""The working copies of a live and of a simulated scheduler."""


WORLDS = 40
"""Worlds in which a policy must place a task at least once."""
UNREAD: Mapping[str, Any] = {"environment": {"A": "1"}, "directory": "d", "expected_duration": 7}
"""Fields of job files that few placements read."""
MOST = 40
"""Claims that `place_all` may return."""
DECISIONS = 40
"""Decisions for one job in a world where nothing else happens."""


def cells(dimensions: int) -> st.SearchStrategy[list[Need]]:
    """Return free resources of up to a dozen machines; -1 in every dimension: takes no tasks."""
    amounts = st.tuples(*[st.integers(0, 12)] * dimensions)
    return st.lists(st.one_of(amounts, st.just((-1,) * dimensions)), max_size=12)


def jobs(dimensions: int) -> st.SearchStrategy[list[tuple[Need, int]]]:
    """Return up to three groups: resources of a task, and number of tasks."""
    need = st.tuples(*[st.integers(0, 5)] * dimensions)
    return st.lists(st.tuples(need, st.integers(0, 20)), min_size=1, max_size=3)


class PlacementContract:
    """Inherit and set `policy`; `policies` are several settings of it.

    A policy may leave out tasks that would fit (it waits for a better machine, it bounds tasks per machine).
    A policy that never does, once a job has waited long enough, is `greedy`, which adds tests. The jobs of the
    scenes have the fields that the policy declares (`job_fields`); `fields` are others, one of these mappings for each.
    """

    policy: Placement
    policies: Sequence[Placement] = ()
    greedy: bool = True
    fields: ClassVar[Sequence[Mapping[str, Any]]] = ()
    _delays = 0

    def each(self) -> Sequence[Placement]:
        """Return the policy in every setting, new as in a new scheduler."""
        return [fresh(policy, "placement") for policy in self.policies or (self.policy,)]

    @pytest.mark.parametrize("kind", COPIES, ids=lambda kind: kind.__name__)
    @pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
    @settings(for_all, max_examples=20)
    @given(data=st.data())
    def test_it_keeps_to_the_copy_and_to_the_job(
        self, dimensions: int, kind: Callable[[int], Snapshot], data: st.DataObject
    ) -> None:
        """For any cell, job and seed: claims match free and requested resources and are marked in the copy."""
        policy = data.draw(st.sampled_from(self.each()))
        free, asked, seed = data.draw(cells(dimensions)), data.draw(jobs(dimensions)), data.draw(st.integers(0, 9))
        gang = data.draw(st.booleans())
        copy, found = filled(kind(dimensions), free), work(*asked, gang=gang)
        before, unchanged = room(copy), Unchanged(copy)
        with watched():
            claims = policy.place(found, copy, Random(seed))
        unchanged.check("place")
        assert (found.left, found.placed) == ([count for _, count in asked], 0), "the job is not the policy's to change"
        counts = self._sound(claims, copy, before)
        left = less(before, uses(claims, found, copy))
        assert room(copy) == left, "exactly the claims are deducted: call snapshot.take for each"
        assert all(amount >= 0 for amounts, was in zip(left, before, strict=True) for amount in _taken(amounts, was))
        assert all(counts[group] <= count for group, (_, count) in enumerate(asked)), "more tasks than were left"
        missing = [need for group, (need, count) in enumerate(asked) if counts[group] < count]
        if gang:
            assert not missing or not claims, "a gang is placed whole or not at all"
        elif self.greedy:
            self._nothing_fits(missing, left, len(free))
        self._marked(claims, found, copy, before)
        again = policy.place(work(*asked, gang=gang), copy, Random(seed))
        assert list(again) == list(claims), (
            "the same copy, job and seed, the same claims: draw from the rng given alone"
        )

    def _sound(self, claims: Sequence[Claim], copy: Snapshot, before: list[list[int]]) -> Counter[int]:
        """Check claims one by one; returns tasks by group."""
        counts = Counter[int]()
        for claim in claims:
            counts[claim.group] += claim.count
            assert claim.count > 0, "a claim is for one task at least"
            assert before[0][claim.machine] >= 0, "that machine takes nothing"
            assert claim.evict == (), "placement evicts no tasks"
            number = FIRST_NUMBER + claim.machine
            assert int(copy.number[claim.machine]) == number
            assert claim.seen in (number, 0), "seen is snapshot.number[machine], or left to the scheduler"
        return counts

    def _nothing_fits(self, missing: Sequence[Need], left: list[list[int]], size: int) -> None:
        for machine in range(size):
            fits = [all(row[machine] >= amount for row, amount in zip(left, need, strict=True)) for need in missing]
            assert not (any(fits) and left[0][machine] >= 0), f"machine {machine} had room for tasks that were left out"

    # In small cells with users, pools, gangs and attributes

    def _worlds(self, policy: Placement, number: int, *, demanding: bool = False) -> list[World]:
        fields = sampled(self.fields, policy)
        return [World(seed, full=False, fields=fields, demanding=demanding) for seed in range(number)]

    def _decided(self, policy: Placement, world: World, *, attributes: bool = False) -> list[list[Claim]]:
        """Let a policy place the job of a world in which nothing else happens; returns the claims of each decision.

        The job is tried again at once after a decision that placed tasks, and at `work.until` after one that did not.
        The snapshot has `attributes`, or those that the policy declares to read.
        """
        scene, found = world.made()
        attributes = attributes or declares("reads_attributes", policy)
        copy = scene.snapshot(found, looked=False, attributes=attributes)
        copy.now, decisions = world.now, list[list[Claim]]()
        for seed in range(DECISIONS):
            found.until, before, left, unchanged = 0.0, room(copy), list(found.left), Unchanged(copy)
            mark = copy.mark()
            with watched():
                claims = _claims(policy, found, copy, Random(seed))
            unchanged.check("place")
            assert found.left == left, "the job is not the policy's to change"
            assert not claims or sum(claim.count for claim in claims) >= found.least, "fewer than a gang's minimum"
            assert room(copy) == less(before, uses(claims, found, copy)), "exactly the claims are deducted"
            assert copy.mark() - mark == len(claims), "one snapshot.take for each claim"
            decisions.append(list(claims))
            for claim in claims:
                assert before[0][claim.machine] >= 0, "that machine takes nothing"
                assert claim.count > 0
                assert claim.seen in (int(copy.number[claim.machine]), 0), "seen is snapshot.number[machine]"
                found.left[claim.group] -= claim.count
            assert min(found.left) >= 0, "more tasks than were left"
            if not found.remaining or (not claims and not found.until):
                self._waits_for_nothing(policy, found, copy)
                break
            if not claims:
                assert found.until > copy.now, "work.until is a time after snapshot.now"
                copy.now, self._delays = found.until, self._delays + 1
        return decisions

    def _waits_for_nothing(self, policy: Placement, found: Work, copy: Snapshot) -> None:
        """A job that is not placed now, and would be later, is tried again only if `work.until` is set."""
        mark, copy.now = copy.mark(), copy.now + 1e6
        claims = _claims(policy, found, copy, Random(1)) if found.remaining else ()
        copy.undo(mark)
        assert not claims, "a delayed job is tried again only at work.until: set it to the end of the delay"
        missing = [found.need(group) for group, left in enumerate(found.left) if left]
        if self.greedy and missing and not found.least:
            self._nothing_fits(missing, room(copy), copy.size)

    def test_some_scene_exercises_it(self) -> None:
        """In one of the scenes tasks are placed; a delay ends in each, although no room is freed."""
        for policy in self.each():
            self._delays = 0
            decisions = [self._decided(policy, world) for world in self._worlds(policy, WORLDS)]
            assert self._delays or not mentions("until", policy), (
                f"no scene exercised the delay of {policy}: it never set work.until in {WORLDS} cells; set `fields`"
            )
            assert any(claims for decided in decisions for claims in decided), (
                f"no scene exercised it: {policy} placed nothing in {WORLDS} cells; set `fields` when it needs jobs "
                "with certain fields"
            )

    def test_the_same_question_has_the_same_answer(self) -> None:
        """The same cell, job and generator give the same claims, whatever the policy decided before."""
        for policy in self.each():
            worlds = self._worlds(policy, WORLDS // 2)
            one, other = fresh(policy, "placement"), fresh(policy, "placement")
            answers = [self._decided(one, world) for world in worlds]
            for world, answer in reversed(list(zip(worlds, answers, strict=True))):
                assert self._decided(other, world) == answer, "draw from the rng given, and keep no state of decisions"
                assert self._decided(other, world, attributes=True) == answer, (
                    "it reads names or attributes of machines, which are fetched only with reads_attributes = True"
                )

    def test_demands_hold_if_the_policy_declares_that_it_applies_them(self) -> None:
        """Constraints, spreading and different machines; those of other policies are applied round them."""
        for policy in self.each():
            placement = within_constraints(policy)
            for world in self._worlds(policy, WORLDS, demanding=True):
                scene, found = world.made()
                copy = scene.snapshot(found, looked=False, attributes=declares("reads_attributes", policy))
                copy.now, mark = world.now, copy.mark()
                claims = list(placement.place(found, copy, Random(1)))
                assert enforced(found, claims, copy, mark) is claims, "a demand of the job is broken"

    def test_fields_that_it_does_not_declare_to_read_change_nothing(self) -> None:
        """Jobs that differ in them alone are tried once for all while they are blocked."""
        for policy in self.each():
            reads = read_by(policy)
            others = {name: text for name, text in UNREAD.items() if reads is not None and name not in reads}
            for world in self._worlds(policy, WORLDS // 2) if others else ():
                other = replace(world, fields=[{**each, **others} for each in world.fields])
                assert self._decided(policy, world) == self._decided(policy, other), (
                    f"`reads` lacks one of the fields {', '.join(others)}"
                )

    @settings(for_all, max_examples=20)
    @given(data=st.data())
    def test_jobs_of_one_call_are_placed_as_one_after_another(self, data: st.DataObject) -> None:
        """`place_all`, where there is one, gives the claims of `place`."""
        policy = data.draw(st.sampled_from(self.each()))
        together, free = as_places_all(policy), data.draw(cells(2))
        if together is None:
            return
        tasks = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=2, max_size=5))
        one, other = filled(ArraySnapshot(2), free), filled(ArraySnapshot(2), free)
        works = [work(((need, 1), count)) for need, count in tasks]
        placed, number = together.place_all(works, one, Random(1), MOST)
        rng = Random(1)
        expected = [list(policy.place(each, other, rng)) for each in works[: len(placed)]]
        assert [list(claims) for claims in placed] == expected, "place_all differs from place"
        assert number == sum(len(claims) for claims in expected), "the number of claims"
        assert (room(one), one.mark()) == (room(other), other.mark())

    def _marked(self, claims: Sequence[Claim], found: Work, copy: Snapshot, before: list[list[int]]) -> None:
        """Marks match the claims one by one and in order: undoing removes the last claim."""
        assert copy.mark() == len(claims), "one snapshot.take for each claim"
        some = len(claims) // 2
        copy.undo(some)
        assert room(copy) == less(before, uses(claims[:some], found, copy)), "takes in the order of the claims"
        copy.undo(0)
        assert room(copy) == before

    def test_an_empty_cell_and_a_full_one_give_no_claims(self) -> None:
        """No claims and no marks without requests or resources."""
        for policy in self.each():
            drained = snapshot((9, 9), state=MachineState.DRAINED)
            for copy, needs in (
                (ArraySnapshot(2), ((1, 1), (0, 0))),
                (snapshot((0, 0), (0, 5)), ((1, 1),)),
                (drained, ((1, 1), (0, 0))),
            ):
                before = room(copy)
                for need in needs:
                    assert list(policy.place(work((need, 2)), copy, Random(1))) == []
                    assert room(copy) == before

    def test_a_gang_is_placed_whole_or_not_at_all(self) -> None:
        """A gang that does not fit releases its own claims and no others."""
        for policy in self.each():
            copy = snapshot((2, 2), (2, 2), (3, 3))
            before, mark = room(copy), copy.mark()
            assert list(policy.place(work(((1, 1), 4), ((2, 2), 2), gang=True), copy, Random(1))) == []
            assert (room(copy), copy.mark()) == (before, mark)
            copy.take(0, (1, 1), 1)
            assert list(policy.place(work(((1, 1), 7), gang=True), copy, Random(1))) == []
            assert copy.free[0][0] == 1, "earlier claims are kept"
            claims = policy.place(work(((1, 1), 1), ((2, 2), 1), gang=True), copy, Random(1))
            assert sum(claim.count for claim in claims) in ({2} if self.greedy else {0, 2})

    def test_only_what_is_left_is_placed(self) -> None:
        """Placed tasks are not placed again."""
        for policy in self.each():
            found = work(((1, 1), 5), ((1, 1), 5))
            found.left = [0, 2]
            claims = policy.place(found, snapshot((9, 9), (9, 9)), Random(1))
            assert {claim.group for claim in claims} <= {1}
            assert sum(claim.count for claim in claims) in ({2} if self.greedy else {0, 1, 2})

    def test_large_amounts_do_not_overflow(self) -> None:
        """Amounts go up to 2^53; sums of them must not leave 64 bits."""
        large = 10**15
        for policy in self.each():
            claims = policy.place(work(((large // 1000, 1), 1_500)), snapshot((large, large)), Random(1))
            count = sum(claim.count for claim in claims)
            assert count == 1_000 or (not self.greedy and count < 1_000)

    # Greedy policies

    def greed(self) -> Sequence[Placement]:
        """Return the greedy policy in every setting; skips the test for other policies."""
        if not self.greedy:
            pytest.skip("this policy may leave out what would fit")
        return self.each()

    @pytest.mark.parametrize("dimensions", [1, 3])
    def test_the_one_machine_of_ten_thousand_is_found(self, dimensions: int) -> None:
        """However full the cell is."""
        for policy in self.greed():
            free = [(1,) * dimensions] * 10_000
            free[7_777] = (2,) * dimensions
            copy, found = snapshot(*free), work(((2,) * dimensions, 3))
            for seed in range(3):
                assert machines_of(policy.place(found, copy, Random(seed))) == {7_777}
                copy.undo(0)

    def test_tasks_that_need_nothing_go_to_any_machine_that_is_up(self) -> None:
        """There is always room for nothing."""
        for policy in self.greed():
            copy = snapshot((0, 0), (0, 0))
            copy.apply(Reply(Position(2, "t"), full=False, rows=np.array([[0, 2, MachineState.DOWN, 0, 0, 0, 0, 0]])))
            claims = policy.place(work(((0, 0), 5)), copy, Random(1))
            assert (machines_of(claims), sum(claim.count for claim in claims)) == ({1}, 5)

    def test_a_dimension_a_task_does_not_need_does_not_keep_it_out(self) -> None:
        """A machine without memory left takes a task that needs none."""
        for policy in self.greed():
            for need, free in (((0, 3), (0, 9)), ((3, 0), (9, 0))):
                claims = policy.place(work((need, 3)), snapshot(free), Random(1))
                assert sum(claim.count for claim in claims) == 3


def _claims(policy: Placement, found: Work, copy: Snapshot, rng: Random) -> Sequence[Claim]:
    """Return what a policy claims for a job; for a gang with a minimum as schedulers ask it."""
    return arranged(policy, found, copy, rng) if found.job.gang_min else policy.place(found, copy, rng)


def _taken(left: Sequence[int], before: Sequence[int]) -> list[int]:
    """Return the remaining resources of the machines that lost some."""
    return [now for now, was in zip(left, before, strict=True) if now != was]

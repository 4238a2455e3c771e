"""What every ordering keeps to, whichever job it prefers: it is obeyed wherever jobs compete."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import product
from math import isfinite
from typing import Any, ClassVar

from hypothesis import given, settings

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import Limits
from omega.cellstate.replies import KindUse
from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work
from omega.testing.play import NOW, ROOM, Asked, Play, jobs, made
from omega.testing.purity import Unchanged, fresh, watched
from omega.testing.sampled_fields import sampled
from omega.testing.scenes import for_all, snapshot, work

LATER = 1e6
"""Seconds after which a policy is asked again."""
SCENE: Sequence[Asked] = tuple(
    (user, pool, precedence, seconds, expected, [1 + seconds % 2], number)
    for number, (user, pool, precedence, seconds, expected) in enumerate(
        product(("", "ada", "bob"), ("", "p"), (0, 2), (0, 9), (None, 60.0))
    )
)
"""Jobs that differ in all that the scenes know."""


class OrderingContract:
    """Inherit and set `policy`; `policies` are several settings of it.

    The jobs of the scenes have the fields that the policy declares (`job_fields`); `fields` are others, one of these
    mappings for each job. `keys_stay`: a job keeps its key for life. Without it the key may differ from one attempt to
    the next, for example with the tasks left.
    """

    policy: ClassVar[Ordering]
    policies: ClassVar[Sequence[Ordering]] = ()
    fields: ClassVar[Sequence[Mapping[str, Any]]] = ()
    keys_stay: ClassVar[bool] = True

    def each(self) -> Sequence[Ordering]:
        """Return the policy in every setting, new as in a new scheduler."""
        return [fresh(policy, "ordering") for policy in self.policies or (self.policy,)]

    def made(self, asked: Sequence[Asked], policy: Ordering) -> list[Work]:
        """Return new jobs in the order of their submission, with fields that a policy reads."""
        return made(asked, sampled(self.fields, policy))

    @settings(for_all, max_examples=20)
    @given(asked=jobs)
    def test_a_job_has_one_place(self, asked: list[Asked]) -> None:
        """Keys and ranks are numbers, a key is constant while the job is queued, and so is a lane."""
        for policy in self.each():
            copy = _used()
            for found in self.made(asked, policy):
                key, lane = policy.key(found), policy.lane(found)
                hash(lane)
                assert lane == policy.lane(deepcopy(found)), "the lane of a job is the same at each call"
                _observe(policy, copy, NOW)
                copy.usage.take("ada", "p", (5, 5))
                _observe(policy, copy, NOW + LATER)
                rank = policy.rank(lane)
                assert isfinite(rank), "a rank is a number"
                assert policy.rank(lane) == rank, "a rank changes with use and time alone, not with each call"
                assert policy.key(found) == key, "the key of a queued job does not change"
                self._with_fewer_left(policy, found, key)
                self._room_for(policy, found)

    def _with_fewer_left(self, policy: Ordering, found: Work, key: float) -> None:
        """The job was tried, and some of its tasks are placed."""
        if self.keys_stay:
            found.left, found.placed = [count // 2 for count in found.left], found.remaining
            found.attempts, found.conflicts, found.fruitless, found.places = 3, 2, 1, {0: 1}
            assert policy.key(found) == key, (
                "the key changes with the tasks left or the attempts of a job; set keys_stay = False if this is meant"
            )

    def _room_for(self, policy: Ordering, found: Work) -> None:
        most, due = policy.most(found), policy.due(found, lambda: 1)
        assert most is None or most >= 0, "most is a number of tasks, or None"
        assert due is None or (len(due) == len(found.left) and min(due) >= 0), (
            "due has the tasks of each group, or None"
        )
        assert policy.beyond(found, 1.0) in {True, False}, "beyond is a truth value"
        ample = policy.ample()
        if ample is not None and all(has <= up_to for has, up_to in zip(_used().usage.held(), ample, strict=True)):
            assert most is None, "most bounds a job although no more is held than ample states"
            assert due is None, "due bounds a job although no more is held than ample states"

    @settings(for_all, max_examples=20)
    @given(asked=jobs)
    def test_a_question_changes_nothing(self, asked: list[Asked]) -> None:
        """Neither use nor the time comes from elsewhere; asked again, also of a copy, the answers are the same."""
        for policy in self.each():
            answers = []
            for each, times in ((fresh(policy, "ordering"), 1), (fresh(policy, "ordering"), 3)):
                copy, works = _used(), self.made(asked, policy)
                for _ in range(times):
                    _observe(each, copy, NOW)
                unchanged = Unchanged(copy)
                with watched():
                    answers.append([(each.rank(each.lane(found)), each.key(found)) for found in works])
                unchanged.check("rank, lane or key")
            assert answers[0] == answers[1], "what is observed twice is the same; draw no random numbers"

    @settings(for_all, max_examples=20)
    @given(asked=jobs)
    def test_ranks_change_with_their_kin(self, asked: list[Asked]) -> None:
        """After a change of use only lanes of the kin that the policy names have other ranks; others are not read."""
        for policy in self.each():
            copy, works = _used(), self.made(asked, policy)
            _observe(policy, copy, NOW)
            lanes = {policy.lane(found) for found in works}
            before = {lane: policy.rank(lane) for lane in lanes}
            assert policy.ranks(list(before)) == list(before.values()), "ranks differs from rank of each"
            policy.touched(copy.usage.touched())
            copy.usage.take(works[0].user, works[0].pool, (3, 3))
            chosen, touched = policy.kin(policy.lane(works[0])), policy.touched(copy.usage.touched())
            for lane in lanes:
                if policy.rank(lane) != before[lane] and chosen is not None:
                    assert policy.kin(lane) == chosen, "kin: the rank changed with that of a lane of other kin"
                if policy.rank(lane) != before[lane] and touched is not None:
                    assert policy.kin(lane) in touched, "touched does not name the kin of a lane whose rank changed"

    def test_some_scene_exercises_it(self) -> None:
        """In one of the scenes the policy prefers one job to another by its lane, rank or key."""
        for policy in self.each():
            own = [
                name for name in ("lane", "rank", "key") if getattr(type(policy), name) is not getattr(Ordering, name)
            ]
            copy, works = _used(), self.made(SCENE, policy)
            for found in works[1::2]:  # some jobs run a task already
                found.left[0], found.placed = found.left[0] - 1, 1
            _observe(policy, copy, NOW)
            places = {(policy.rank(policy.lane(found)), policy.key(found)) for found in works}
            assert not own or len(places) > 1, (
                f"no scene exercised it: {policy} gives all jobs the same rank and key; set `fields` when it reads "
                "certain fields of the job file"
            )

    @settings(for_all, max_examples=20)
    @given(asked=jobs)
    def test_the_first_job_by_the_policy_is_tried_first(self, asked: list[Asked]) -> None:
        """There is room for one task after the other: each goes to the job that the policy prefers at that time."""
        for policy in self.each():
            play = Play(policy, self.made(asked, policy))
            play.free(1)
            play.admit()
            while play.expected:
                play.step()
                play.free(1)

    @settings(for_all, max_examples=20)
    @given(asked=jobs)
    def test_freed_room_follows_the_policy_in_a_full_cell(self, asked: list[Asked]) -> None:
        """All jobs are blocked; freed room goes to the job that the policy prefers at that time."""
        for policy in self.each():
            play = Play(policy, self.made(asked, policy))
            play.admit()
            play.run_until_blocked()
            while play.expected:
                play.free(1)
                play.step()

    def test_a_gang_alone_in_a_cell_is_placed(self) -> None:
        """A bound of tasks lets a gang pass whole at last; here no other job wants the room."""
        for policy in self.each():
            for fields in sampled(self.fields, policy):
                gang = work(((1, 1), ROOM), gang=True, name="gang", user="ada", pool="p", spec=fields)
                play = Play(policy, [gang])
                play.free(ROOM)
                play.admit()
                for _ in range(3):
                    play.run_until_blocked()
                assert not play.expected, (
                    f"a gang of {ROOM} tasks, alone in a cell with room for all of them, is never placed: "
                    "`most` and `due` give a gang all its tasks or none"
                )

    @settings(for_all, max_examples=20)
    @given(asked=jobs)
    def test_raised_limits_follow_the_policy(self, asked: list[Asked]) -> None:
        """A limit blocks all jobs; room below it then goes to the job that the policy prefers at that time."""
        for policy in self.each():
            play = Play(policy, self.made(asked, policy))
            play.free(ROOM)
            play.limit = 0
            play.admit()
            play.run_until_blocked()
            while play.expected:
                play.limit += 1
                play.copy.use = KindUse(Limits((play.limit, None)), 0, (play.placed, play.placed))
                play.step()


def _used() -> ArraySnapshot:
    """Return a cell in which users and pools hold different amounts."""
    copy = snapshot((ROOM, ROOM))
    copy.usage.capacity = copy.total()
    for user, pool, amount in (("ada", "", 2), ("ada", "p", 1), ("bob", "p", 7), ("", "p", 4)):
        copy.usage.change((pool, user), (amount, amount), (amount, 0))
    return copy


def _observe(policy: Ordering, copy: ArraySnapshot, now: float) -> None:
    """Let a policy see the use and the time (seconds), which it may not change."""
    copy.now = now
    unchanged = Unchanged(copy)
    with watched():
        policy.observe(copy, now)
    unchanged.check("observe")

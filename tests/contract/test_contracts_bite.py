"""The contracts that are shipped notice what they are there for: each fault here is found by one of them."""

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, settings

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import NoPreemption, Ordering, Sizing
from omega.schedulers.queue.blocked import Blocked
from omega.schedulers.queue.queue import Limited
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.queue.ready import Ready
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sizing import Profile, Totals
from omega.schedulers.work import Work
from omega.testing import (
    OrderingContract,
    PlacementContract,
    PreemptionContract,
    SchedulerContract,
    SizingContract,
    placement,
    preemption,
)
from omega.testing.scenes import for_all


@dataclass
class Faulty:
    """First fit with a fault."""

    fault: str

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        fault, mark = self.fault, snapshot.mark()
        if fault == "dice of its own":
            rng = Random(next(_TURNS))
        claims: list[Claim] = list(FirstFit().place(work, snapshot, rng))
        if not claims:
            return claims
        if fault == "takes nothing from the copy":
            snapshot.undo(mark)
        elif fault == "takes more than it claims":
            snapshot.take(claims[0].machine, work.need(claims[0].group), 1)
        elif fault == "claims in another order":
            claims.reverse()
        elif fault == "places nothing":
            snapshot.undo(mark)
            claims = []
        elif fault == "seen is another number":
            claims = [claim._replace(seen=claim.seen + 7) for claim in claims]
        elif fault == "leaves some out":
            snapshot.undo(mark + len(claims) - 1)
            claims = claims[:-1]
        elif fault == "changes the job":
            work.left = [0] * len(work.left)
        return claims


_TURNS = itertools.cycle((0, 1))
"""Two placements in a row differ, and do so again when the example is repeated."""
FAULTS = (
    "takes nothing from the copy", "takes more than it claims", "claims in another order", "seen is another number",
    "leaves some out", "changes the job", "dice of its own",
)  # fmt: skip


@pytest.fixture(autouse=True)
def found_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing example need not be made small here."""
    # Examples enough that one of them shows the fault: most end at the first.
    quick = settings(for_all, max_examples=500, phases=[Phase.generate], database=None, report_multiple_bugs=False)
    for test in (
        PlacementContract.test_it_keeps_to_the_copy_and_to_the_job,
        OrderingContract.test_a_job_has_one_place,
        OrderingContract.test_the_first_job_by_the_policy_is_tried_first,
        OrderingContract.test_freed_room_follows_the_policy_in_a_full_cell,
        OrderingContract.test_raised_limits_follow_the_policy,
        PlacementContract.test_jobs_of_one_call_are_placed_as_one_after_another,
        SizingContract.test_never_fewer_than_asked_for_while_they_are_of_use,
    ):
        monkeypatch.setattr(test, "_hypothesis_internal_use_settings", quick)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_placement(fault: str) -> None:
    class Held(PlacementContract):
        policy = Faulty(fault)

    with pytest.raises(AssertionError):
        Held().test_it_keeps_to_the_copy_and_to_the_job(dimensions=1, kind=ArraySnapshot)


def test_a_placement_that_may_leave_out_is_held_to_less() -> None:
    class Held(PlacementContract):
        policy = Faulty("none")
        greedy = False

    Held().test_it_keeps_to_the_copy_and_to_the_job(dimensions=1, kind=ArraySnapshot)
    Held().test_only_what_is_left_is_placed()
    with pytest.raises(pytest.skip.Exception):
        Held().greed()


class Bold(FirstFit):
    """Says that it applies the demands of jobs, and does not."""

    applies_constraints = True

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return list(FirstFit().place(work, snapshot, rng))


class Secretive(Bold):
    """Reads a field that it does not declare."""

    reads = ("duration",)

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return [] if "environment" in work.job.spec else list(FirstFit().place(work, snapshot, rng))


class Apart(Bold):
    """Places jobs of one call otherwise than one after another."""

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        claims = [self.place(work, snapshot, Random(7)) for work in works]
        return claims, sum(map(len, claims))


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (Bold(), "a demand of the job is broken"),
        (Secretive(), "`reads` lacks one of the fields environment"),
        (Apart(), "place_all differs from place"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_placement_declares_is_true(faulty: Bold, message: str) -> None:
    class Held(PlacementContract):
        policy, greedy = faulty, False

    tests = {
        Bold: Held().test_demands_hold_if_the_policy_declares_that_it_applies_them,
        Secretive: Held().test_fields_that_it_does_not_declare_to_read_change_nothing,
        Apart: Held().test_jobs_of_one_call_are_placed_as_one_after_another,
    }
    with pytest.raises(AssertionError, match=message):
        tests[type(faulty)]()


class Restless(Ordering):
    """Changes its mind about a job while it is queued."""

    now = 0.0

    def observe(self, snapshot: Snapshot, now: float) -> None:
        self.now = now

    def key(self, work: Work) -> float:
        return self.now


class Nowhere(Ordering):
    """Has no number for a lane."""

    def rank(self, lane: Hashable) -> float:
        return float("nan")


@pytest.mark.parametrize("policy", [Restless(), Nowhere()], ids=lambda policy: type(policy).__name__)
def test_a_faulty_ordering(policy: Ordering) -> None:
    class Held(OrderingContract):
        pass

    Held.policy = policy
    with pytest.raises(AssertionError):
        Held().test_a_job_has_one_place()


class Newest(Ordering):
    """Last in, first out."""

    def key(self, work: Work) -> float:
        return -work.job.order


@pytest.mark.parametrize("where", ["ready", "blocked", "limited"])
def test_a_queue_that_does_not_follow_its_policy(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the places where jobs compete by submission, whatever the policy says."""
    found: Any = {"ready": Ready, "blocked": Blocked, "limited": Limited}[where]

    class Held(OrderingContract):
        policy = Newest()

    add = found.add

    def by_submission(self: Any, work: Work) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(Ranks, "within", lambda _, each: (float(each.job.order), each.job.order))
            return add(self, work)

    monkeypatch.setattr(found, "add", by_submission)
    if hasattr(found, "add_all"):
        monkeypatch.setattr(found, "add_all", lambda self, works: [self.add(each) for each in works])
    test = {
        "ready": Held().test_the_first_job_by_the_policy_is_tried_first,
        "blocked": Held().test_freed_room_follows_the_policy_in_a_full_cell,
        "limited": Held().test_raised_limits_follow_the_policy,
    }[where]
    with pytest.raises(AssertionError):
        test()


def test_a_faulty_sizing() -> None:
    class Stingy(Sizing):
        def size(self, profile: Profile, totals: Totals) -> int:
            return 1

    class Held(SizingContract):
        policy = Stingy()

    with pytest.raises(AssertionError):
        Held().test_never_fewer_than_asked_for_while_they_are_of_use()


class Idle(FirstFit):
    """Never places a task."""

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return []


class Hurried(FirstFit):
    """Delays jobs for a field that none has."""

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        if work.job.spec.get("deadline"):
            work.until = snapshot.now + 1.0
        return list(super().place(work, snapshot, rng))


class Level(Ordering):
    """The same key for all."""

    def key(self, work: Work) -> float:
        return 1.0


class Same(Sizing):
    """Nine workers for every job."""

    def size(self, profile: Profile, totals: Totals) -> int:
        return 9


class Gentle(NoPreemption):
    """Says that it evicts, and never does."""

    evicts = True


@pytest.mark.parametrize(
    ("contract", "idle", "message"),
    [
        (PlacementContract, Idle(), "no scene exercised it"),
        (PlacementContract, Hurried(), "no scene exercised the delay"),
        (OrderingContract, Level(), "no scene exercised it"),
        (SizingContract, Same(), "no scene exercised it"),
        (PreemptionContract, Gentle(), "no scene exercised it"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_policy_that_no_scene_exercises(
    contract: type[Any], idle: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (placement, preemption):
        monkeypatch.setattr(module, "WORLDS", 5)
    held = type("Held", (contract,), {"policy": idle, "greedy": False})()
    with pytest.raises(AssertionError, match=message):
        held.test_some_scene_exercises_it()


def test_a_faulty_scheduler() -> None:
    class Held(SchedulerContract):
        scheduler = Scheduler("cold", placement=Faulty("places nothing"))

    with pytest.raises(AssertionError):
        Held().test_every_job_that_fits_is_placed("1")

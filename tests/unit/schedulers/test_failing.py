"""Policies that raise: one line with the place, the job alone waits, the others are placed."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from omega.cellstate.errors import OmegaError
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.failing import FailingJobs, PolicyError, as_one_line, policy_error
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Placement, PlacesAll, Preemption
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import Heard, copy, group, job, pending


class Own(BaseException):
    """An error that is no Exception."""


@dataclass
class Raising(Placement):
    """First fit; raises at the jobs that are named so, after it took room."""

    error: BaseException

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        claims = FirstFit().place(work, snapshot, rng)
        if work.job.name.startswith("bad"):
            raise self.error
        return claims


@dataclass
class Together(Raising, PlacesAll):
    """The same, for several jobs in one call."""

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        placed = [self.place(work, snapshot, rng) for work in works]
        return placed, len(placed)


@dataclass
class Evicting(Preemption):
    """Raises where it is asked for victims, or for machines to look at."""

    early: bool

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int]:
        if self.early:
            raise KeyError(work.id)
        return ()

    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        raise KeyError(work.id)


def live(**policies: object) -> tuple[Scheduler, Heard]:
    heard = Heard()
    found = Scheduler("batch", instruments=[heard], rng=Random(1), **policies)  # type: ignore[arg-type]
    found.failing = FailingJobs()
    return found, heard


def decide(found: Scheduler, snapshot: Snapshot, now: float) -> list[str]:
    """The jobs that are placed in a round."""
    made = found.decide(found.choose(now), snapshot, now)
    made += found.preempt(snapshot, now) if found.suspects() is not None else []
    return [each.job for each in made]


@pytest.mark.parametrize("error", [ZeroDivisionError("of cpu\nby 0"), SystemExit("enough"), MemoryError()])
@pytest.mark.parametrize("kind", [Raising, Together])
def test_a_job_at_which_a_placement_raises_waits_alone_and_leaves_no_claims(
    error: BaseException, kind: type[Raising]
) -> None:
    found, heard = live(placement=kind(error))
    found.admit(pending(job("bad"), *(job(name, order=order) for order, name in enumerate("abc", 1))))
    snapshot = copy((10, 10))
    assert decide(found, snapshot, 10.0) == ["a", "b", "c"]
    assert snapshot.room[0][0] == 7, "the claims of the job are undone"
    (name, text, _) = next(each[1:] for each in heard.said if each[0] == "raised")
    said = str(error).partition("\n")[0]
    assert name == "bad"
    assert text.startswith(f"policy {kind.__name__} ({__file__}:")
    assert text.endswith(f": {type(error).__name__}" + (f": {said}" if said else ""))
    assert found.failing is not None
    assert found.failing.by_text(found) == {text: {"bad": 11_000}}


@pytest.mark.parametrize("early", [True, False])
def test_preemption_that_raises_at_a_job_delays_it_alone(early: bool) -> None:
    found, heard = live(preemption=Evicting(early))
    found.admit(pending(job("large", group((9, 9), 1)), job("a", order=1)))
    assert decide(found, copy((5, 5)), 0.0) == ["a"]
    ((name, text, _),) = [each[1:] for each in heard.said if each[0] == "raised"]
    assert name == "large"
    assert "policy Evicting (" in text


def test_the_delay_doubles_up_to_a_minute_and_begins_anew_after_an_attempt_without_an_error() -> None:
    placement = Raising(ValueError())
    found, _ = live(placement=placement)
    found.admit(pending(job("bad", group((1, 1), 3))))
    snapshot, now, delays = copy((1, 1)), 0.0, list[float]()
    for _ in range(8):
        assert decide(found, snapshot, now) == []
        due = found.next_due()
        assert due is not None
        assert decide(found, snapshot, due - 0.5) == [], "it is not tried before"
        delays.append(due - now)
        now = due
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    (work,) = found.choose(now)
    work.job.name = "good"
    assert [each.job for each in found.decide([work], snapshot, now)] == ["bad"]
    assert found.failing is not None
    assert found.failing.by_text(found) == {}, "it was placed in part: the error is over"
    work.job.name = "bad again"
    found.decide([work], snapshot, now)
    assert work.not_before == now + 1


def test_simulations_and_dry_runs_end_with_the_error() -> None:
    found = Scheduler("batch", placement=Raising(ZeroDivisionError()))
    found.admit(pending(job("bad"), job("worse", order=1)))
    with pytest.raises(ZeroDivisionError):
        found.decide(found.choose(0.0), copy((10, 10)), 0.0)


@pytest.mark.parametrize("error", [KeyError("gpu"), SystemExit(3), KeyboardInterrupt(), Own("x")])
def test_an_error_of_any_class_becomes_one_line_with_the_policy(error: BaseException) -> None:
    found, _ = live(placement=Raising(error))
    snapshot, work = copy((10, 10)), Work.of(job("bad"))
    with (
        pytest.raises(
            PolicyError, match=rf"^policy Raising \(.*test_failing\.py:\d+\): {type(error).__name__}"
        ) as said,
        as_one_line(found),
    ):
        found.placement.place(work, snapshot, found.rng)
    assert "\n" not in str(said.value)


def test_errors_of_omega_stay_and_errors_elsewhere_have_their_place() -> None:
    own = OmegaError("store away")
    assert policy_error(own) is own
    found, _ = live()
    with pytest.raises(PolicyError, match=r"^scheduler \(.*test_failing\.py:\d+\): KeyError: 'x'$"), as_one_line(found):
        raise KeyError("x")

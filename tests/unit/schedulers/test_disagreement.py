"""A store that rejects what its copy shows to fit, again and again, holds no scheduler up (docs/faults.md, S09)."""

from collections.abc import Callable

import pytest

from omega.cellstate.transaction import Outcome, Transaction, Verdict
from omega.schedulers.instruments import Figures
from omega.schedulers.loop import Commit, Reread
from omega.schedulers.presets import batch, service
from omega.schedulers.retrying import RETRY_LIMIT
from omega.schedulers.scheduler import Scheduler
from tests.unit.schedulers.drive import Driver, copy, group, job

MOST_TRIES = 20
PRESETS: dict[str, Callable[[str], Scheduler]] = {"batch": batch, "service": service}


def rejects(machine: int, verdict: Verdict) -> Callable[[Transaction], Outcome]:
    """A store that takes any claim but those for one machine."""

    def validate(transaction: Transaction) -> Outcome:
        return Outcome(
            tuple((0, verdict) if c.machine == machine else (c.count, Verdict.PLACED) for c in transaction.claims)
        )

    return validate


def commits(driver: Driver) -> int:
    return sum(isinstance(effect, Commit) for effect in driver.effects)


@pytest.mark.parametrize("verdict", [Verdict.FULL, Verdict.MOVED, Verdict.DOWN])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_rejects_every_claim_holds_no_job_up(preset: str, verdict: Verdict, seed: int) -> None:
    scheduler, figures = PRESETS[preset](str(seed)), Figures()
    scheduler.instruments.append(figures)
    driver = Driver(scheduler, copy((4, 4), (4, 4)), validate=rejects(0, verdict))
    for number in range(3):
        driver.arrive(job(f"j{number}", group((1, 1), 1), order=number)).idle()
    assert (figures.tasks, figures.abandoned_jobs) == (3, 0)
    assert commits(driver) <= MOST_TRIES
    rejected = 0 if verdict is Verdict.DOWN else commits(driver) - 3
    assert figures.rejections == figures.in_a_row == ({0: rejected} if rejected else {}), "scheduler status shows it"


@pytest.mark.parametrize("verdict", [Verdict.FULL, Verdict.MOVED])
def test_a_job_that_only_such_a_machine_fits_is_given_up(verdict: Verdict) -> None:
    driver = Driver(batch("1"), copy((4, 4)), validate=rejects(0, verdict)).arrive(job("a"))
    assert driver.until(Reread) == Reread((), ("a",))
    assert commits(driver) == RETRY_LIMIT
    assert driver.now > 100.0 + RETRY_LIMIT / 4, "it backs off up to a second"


def test_a_job_whose_only_machine_takes_nothing_waits_at_bounded_cost() -> None:
    driver = Driver(batch("1"), copy((4, 4)), validate=rejects(0, Verdict.DOWN)).arrive(job("a"))
    while driver.now < 200.0:
        driver.step()
        assert commits(driver) < 150

"""The figures of a scheduler, as they are defined for live and simulated runs alike."""

from collections.abc import Sequence

import numpy as np
import pytest

from omega.cellstate.fairness import Assertion, Threshold
from omega.cellstate.transaction import Claim, ClaimColumns, Outcome, Transaction, Verdict
from omega.schedulers.instruments import WAITS_KEPT, Figures, Instrument, Waits
from omega.schedulers.loop import Reread
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import Driver, copy, group, job, outcome, validated, work

P = Verdict.PLACED


def commit(figures: Figures, *claims: tuple[int, Verdict], machine: int = 0) -> None:
    made = tuple(Claim(machine + i, 0, max(1, placed)) for i, (placed, _) in enumerate(claims))
    figures.committed(Transaction("a", made), outcome(*claims), 0.0)


def test_the_conflict_fraction_is_transactions_with_a_conflict_by_those_without() -> None:
    figures = Figures()
    assert figures.conflict_fraction == 0.0
    commit(figures, (3, P))
    commit(figures, (3, P), (1, Verdict.FULL))  # placed in part: still a conflict, and only one
    commit(figures, (0, Verdict.MOVED), (0, Verdict.MOVED))
    commit(figures, (0, Verdict.ABORTED), (0, Verdict.FULL))
    assert (figures.transactions, figures.conflicts, figures.accepted) == (4, 3, 1)
    assert figures.conflict_fraction == 3.0, "four attempts on average"


@pytest.mark.parametrize(
    "verdict",
    [Verdict.UNKNOWN, Verdict.DOWN, Verdict.DUPLICATE, Verdict.INCOMPLETE, Verdict.LIMIT, Verdict.PRECEDENCE],
)
def test_only_moved_and_full_are_interference(verdict: Verdict) -> None:
    figures = Figures()
    commit(figures, (0, verdict))
    assert (figures.transactions, figures.conflicts, figures.rejections) == (1, 0, {})


def test_a_transaction_that_pools_reject_is_neither_accepted_nor_a_conflict() -> None:
    figures = Figures()
    asserted = Assertion(Threshold(("a",), (1.0,)), ())
    for claims in (((0, Verdict.SHARE), (0, Verdict.SHARE)), ((1, P), (0, Verdict.SHARE)), ((0, Verdict.FULL),)):
        made = tuple(Claim(i, 0, 1) for i in range(len(claims)))
        figures.committed(Transaction("a", made, assertion=asserted), outcome(*claims), 0.0)
    assert (figures.transactions, figures.accepted, figures.conflicts, figures.unfair) == (3, 1, 1, 1)
    assert figures.as_dict(1.0, 0, 0)["unfair"] == 1


def test_with_nothing_accepted_every_conflict_counts() -> None:
    figures = Figures()
    commit(figures, (0, Verdict.FULL))
    commit(figures, (0, Verdict.FULL))
    assert figures.conflict_fraction == 2.0


def test_tasks_are_those_that_were_placed() -> None:
    figures = Figures()
    commit(figures, (3, P), (2, Verdict.FULL))
    commit(figures, (0, Verdict.DOWN))
    assert figures.tasks == 5


def test_the_machines_that_rejected_are_named_worst_first() -> None:
    figures = Figures()
    for machine in (7, 7, 7, 3, 3, *range(20, 26)):
        commit(figures, (0, Verdict.FULL), machine=machine)
    commit(figures, (0, Verdict.ABORTED), (0, Verdict.FULL), (0, Verdict.ABORTED), machine=2)
    assert figures.rejections[3] == 3, "of the gang only the machine that had no room"
    assert 2 not in figures.rejections
    assert 4 not in figures.rejections
    worst = figures.as_dict(1.0, 0, 0)["rejecting_machines"]
    assert worst[:2] == [[7, 3, 3], [3, 3, 3]]
    assert len(worst) == 5


def test_busyness_is_the_share_of_time_spent_deciding() -> None:
    figures = Figures(since=100.0)
    figures.decided(1.5, 102.0)
    figures.decided(0.5, 103.0)
    found = figures.as_dict(108.0, 4, 2)
    assert (found["busyness"], found["busy_seconds"], found["seconds"]) == (0.25, 2.0, 8.0)
    assert (found["queued"], found["blocked"]) == (4, 2)
    figures.decided(50.0, 108.0)
    assert figures.as_dict(108.0, 0, 0)["busyness"] == 1.0
    assert figures.as_dict(100.0, 0, 0)["busyness"] == 1.0, "no time has passed: no division by nothing"


def test_waits_mean_and_ninetieth_percentile() -> None:
    waits = Waits()
    assert (waits.mean(), waits.p90()) == (None, 0.0)
    assert Figures().as_dict(1.0, 0, 0)["wait_mean"] == 0.0
    for i in range(101):
        waits.add(float(i))
    assert (waits.count, waits.mean()) == (101, 50.0)
    assert waits.p90() == pytest.approx(90.0)


def test_the_mean_is_of_all_waits_the_percentile_of_the_last() -> None:
    waits = Waits()
    for _ in range(WAITS_KEPT):
        waits.add(0.0)
    for _ in range(WAITS_KEPT // 2):
        waits.add(30.0)
    assert waits.mean() == pytest.approx(10.0)
    assert len(waits.last) == WAITS_KEPT
    assert np.mean(np.frombuffer(waits.last)) == pytest.approx(15.0)
    assert waits.p90() == 30.0


@pytest.mark.parametrize("before", [0, 7, WAITS_KEPT - 7, WAITS_KEPT - 3, WAITS_KEPT, 3 * WAITS_KEPT - 2])
def test_waits_of_a_call_are_recorded_as_one_by_one(before: int) -> None:
    together, single = Waits(before), Waits(before)
    for durations in ([1.0, 2.0, 3.0], [4.0] * 4, [5.0]):
        together.add_all(durations)
        for seconds in durations:
            single.add(seconds)
        assert together == single


def test_what_is_heard_is_counted() -> None:
    figures, a = Figures(), work("a")
    figures.began(a, 3.0, 2.0)
    figures.began(a, 5.0, 4.0)
    figures.placed(a, 6.0)
    figures.blocked(a, 6.0)
    figures.blocked(a, 7.0)
    figures.blocked(a, 8.0)
    figures.abandoned(a, 9.0)
    found = figures.as_dict(9.0, 0, 0)
    assert (found["jobs"], found["jobs_placed"], found["abandoned"], figures.times_blocked) == (2, 1, 1, 3)
    assert (found["wait_mean"], found["wait_p90"]) == (3.0, pytest.approx(3.8))


def test_they_count_what_the_loop_announces_beside_listeners_that_hear_little() -> None:
    figures = Figures()
    scheduler = Scheduler("batch", instruments=[Instrument(), figures], retry_limit=3)
    verdicts = [Verdict.FULL, Verdict.FULL, Verdict.FULL, P]
    driver = Driver(scheduler, copy((4, 4)), validate=lambda t: validated(t, verdicts.pop(0)))
    driver.arrive(job("a", submitted_ms=90_000)).until(Reread)
    driver.step()
    driver.arrive(job("b", group((1, 1), 3)), job("large", group((9, 9), 1), order=1)).idle()
    counts = (figures.jobs, figures.finished_jobs, figures.tasks, figures.times_blocked, figures.abandoned_jobs)
    assert counts == (3, 1, 3, 1, 1)
    assert (figures.transactions, figures.conflicts, figures.conflict_fraction) == (4, 3, 3.0)


@pytest.mark.parametrize("form", [ClaimColumns([4, 7], [2, 1]), ClaimColumns([7, 4]), (Claim(7, 0, 1), Claim(4, 0, 1))])
def test_outcomes_of_a_call_are_counted_as_one_by_one(form: Sequence[Claim]) -> None:
    """Machines that rejected claims before are no longer listed once a claim on them is accepted."""
    rejected = Transaction("a", ClaimColumns([4, 5], [1, 1])), Outcome(((0, Verdict.FULL), (0, Verdict.FULL)))
    counts = [claim.count for claim in form]
    accepted = Transaction("b", form), Outcome(tuple((count, Verdict.PLACED) for count in counts))
    elsewhere = Transaction("c", ClaimColumns([9], [3])), Outcome(((3, Verdict.PLACED),))
    together, single = Figures(), Figures()
    for results in ([rejected], [elsewhere, accepted], [elsewhere, rejected, accepted], [rejected]):
        together.committed_all(results, 1.0)
        for transaction, verdicts in results:
            single.committed(transaction, verdicts, 1.0)
        assert together == single
    assert (single.in_a_row, single.transactions, single.conflicts) == ({5: 3, 4: 1}, 7, 3)


def test_rejections_in_a_row_end_with_a_claim_that_stands() -> None:
    figures = Figures()
    claims = (Claim(3, 0, 1), Claim(4, 0, 1))
    for _ in range(12):
        figures.committed(Transaction("a", claims), outcome((0, Verdict.FULL), (0, Verdict.FULL)), 1.0)
    figures.committed(Transaction("a", claims[1:]), outcome((1, Verdict.PLACED)), 1.0)
    figures.committed(Transaction("a", claims[1:]), outcome((0, Verdict.MOVED)), 1.0)
    assert (figures.rejections, figures.in_a_row) == ({3: 12, 4: 13}, {3: 12, 4: 1})
    assert figures.as_dict(1.0, 0, 0)["rejecting_machines"] == [[3, 12, 12], [4, 13, 1]], "the stubborn one first"


def test_the_last_cycle() -> None:
    figures = Figures()
    assert figures.as_dict(9.0, 0, 0)["last_cycle"] is None
    figures.decided(0.5, 7.0)
    told = figures.as_dict(9.0, 0, 0)
    assert (told["last_cycle"], told["last_cycle_ago"]) == (0.5, 2.0)


def test_the_events_of_a_call_count_as_one_by_one() -> None:
    together, single = Figures(), Figures()
    cases = [[(3, P)], [(3, P)], [(0, Verdict.FULL)], [(1, P)], [(2, P), (1, Verdict.FULL)], [(4, P)]]
    results = [(Transaction("a", tuple(Claim(7, 0, 4) for _ in case)), outcome(*case)) for case in cases]
    works = [Work(job("a"), [1], submitted=seconds) for seconds in (1.0, 1.5, 2.0, 9.0, 9.999)]
    for some in (results[:2], results):
        together.committed_all(some, 10.0)
        for transaction, found in some:
            single.committed(transaction, found, 10.0)
    for some_works in (works[:1], works, works[3:4]):
        together.began_all(some_works, 10.0)
        together.placed_all(some_works, 10.0)
        for each in some_works:
            single.began(each, 10.0, 10.0 - each.submitted)
            single.placed(each, 10.0)
    assert together == single


def test_an_instrument_gets_each_event_of_a_call() -> None:
    heard = list[tuple[object, ...]]()

    class Listener(Instrument):
        def began(self, work: Work, now: float, waited: float) -> None:
            heard.append(("began", work.id, waited))

        def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
            heard.append(("committed", transaction.job))

        def placed(self, work: Work, now: float) -> None:
            heard.append(("placed", work.id))

    driver = Driver(Scheduler("batch", instruments=[Listener()]), copy((9, 9))).arrive(job("a"), job("b", order=1))
    driver.idle()
    assert [each for each in heard if "b" in each] == [("began", "b", 100.0), ("committed", "b"), ("placed", "b")]
    assert len(heard) == 6

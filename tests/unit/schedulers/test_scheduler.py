"""What a scheduler does with jobs that arrive, with each verdict, and with jobs that become others'."""

from random import Random

import pytest

from omega.cellstate.model import MOST_CLAIMS, Gang, JobState
from omega.cellstate.replies import PendingJob
from omega.cellstate.transaction import Claim, Detection, Transaction, Verdict
from omega.schedulers.loop import think_seconds
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.outcomes import rebase
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.policies import Ordering
from omega.schedulers.presets import BATCH_JOBS, batch, service
from omega.schedulers.scheduler import CALL_CLAIMS, Scheduler
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import Heard, copy, group, job, outcome, pending, room, say

P = Verdict.PLACED


def scheduler(**fields: object) -> tuple[Scheduler, Heard]:
    heard = Heard()
    return Scheduler("batch", instruments=[heard], rng=Random(1), **fields), heard  # type: ignore[arg-type]


def begun(found: Scheduler, *tasks: int, gang: Gang = Gang.NO) -> Work:
    """A job with so many tasks per group, taken out of the queue to be decided."""
    found.admit(pending(job("a", *(group((1, 1), count) for count in tasks), gang=gang)))
    (work,) = found.choose(0.0)
    return work


def settle(found: Scheduler, counts: list[int], *claims: tuple[int, Verdict], now: float = 10.0) -> None:
    """Settle a transaction of job a with claims of so many tasks on machines 0, 1, …, all of group 0."""
    made = tuple(Claim(machine, 0, count) for machine, count in enumerate(counts))
    found.settle([(Transaction("a", made), outcome(*claims))], now)


# Settling


def test_all_placed_is_done() -> None:
    found, heard = scheduler()
    work = begun(found, 3)
    settle(found, [2, 1], (2, P), (1, P))
    assert heard.said == [("committed", "a", 3, 10.0), ("placed", "a", 10.0)]
    assert (work.left, work.placed, work.places) == ([0], 3, {0: 2, 1: 1})
    assert (found.working, len(found.queue.ready), len(found.queue.blocked), found.outbox.gone) == ({}, 0, 0, [])


def test_placed_in_part_is_tried_again_at_once() -> None:
    found, heard = scheduler()
    work = begun(found, 5)
    settle(found, [2], (2, P))
    assert (work.left, work.conflicts, heard.of("placed")) == ([3], 0, [])
    assert found.choose(10.0) == [work]


def test_groups_are_counted_apart() -> None:
    found, heard = scheduler()
    work = begun(found, 2, 2)
    claims = (Claim(0, 0, 2), Claim(3, 1, 2))
    found.settle([(Transaction("a", claims), outcome((2, P), (1, Verdict.FULL)))], 10.0)
    assert (work.left, work.places, work.conflicts) == ([0, 1], {0: 2, 3: 1}, 1)
    assert heard.of("placed") == []


@pytest.mark.parametrize("verdict", [Verdict.MOVED, Verdict.FULL])
def test_a_conflict_that_placed_something_is_retried_at_once(verdict: Verdict) -> None:
    found, _ = scheduler()
    work = begun(found, 3)
    settle(found, [2, 1], (2, P), (0, verdict))
    assert (work.left, work.conflicts, work.fruitless, work.not_before) == ([1], 1, 0, 0.0)
    assert found.choose(10.0) == [work]


@pytest.mark.parametrize("verdict", [Verdict.MOVED, Verdict.FULL])
def test_a_conflict_that_placed_nothing_backs_off(verdict: Verdict) -> None:
    found, _ = scheduler(backoff=0.002)
    work = begun(found, 3)
    settle(found, [3], (0, verdict))
    assert (work.left, work.conflicts, work.fruitless) == ([3], 1, 1)
    assert 10.0 < work.not_before <= 10.004
    assert found.choose(10.0) == []
    assert found.choose(11.0) == [work]
    assert work.not_before == 0.0


@pytest.mark.parametrize(("ordering", "longest"), [(Fifo(), 1.0), (CellPools(), 0.01)], ids=["fifo", "pools"])
def test_a_job_in_pools_backs_off_for_a_moment_only(ordering: Ordering, longest: float) -> None:
    """Room that stays free for 50 ms goes to other jobs: one that backs off for longer never gets what is due to it."""
    waits = []
    for seed in range(20):
        found, _ = scheduler(ordering=ordering)
        found.rng = Random(seed)
        work = begun(found, 3)
        work.fruitless = 20
        settle(found, [3], (0, Verdict.FULL))
        waits.append(work.not_before - 10.0)
    assert longest / 2 < max(waits) <= longest
    assert min(waits) > 0


def test_a_gang_aborted_by_one_conflict_backs_off_as_a_whole() -> None:
    found, _ = scheduler()
    work = begun(found, 4, gang=Gang.YES)
    settle(found, [2, 2], (0, Verdict.ABORTED), (0, Verdict.FULL))
    assert (work.left, work.conflicts, work.places) == ([4], 1, {})
    assert work.not_before > 10.0


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.DUPLICATE, Verdict.INCOMPLETE])
def test_a_job_that_is_not_as_thought_is_read_anew(verdict: Verdict) -> None:
    found, _ = scheduler()
    work = begun(found, 3)
    settle(found, [2, 1], (2, P), (0, verdict))
    assert (found.outbox.gone, work.conflicts) == (["a"], 0)
    assert (len(found.queue.ready), len(found.queue.blocked), found.working) == (0, 0, {})


def test_reading_anew_goes_before_retrying() -> None:
    found, _ = scheduler()
    begun(found, 3)
    settle(found, [2, 1], (0, Verdict.FULL), (0, Verdict.DUPLICATE))
    assert (found.outbox.gone, len(found.queue.ready)) == (["a"], 0)


def test_a_job_whose_victims_are_too_important_waits_and_counts_no_conflict() -> None:
    found, _ = scheduler(retry_limit=1)
    work = begun(found, 3)
    settle(found, [2, 1], (2, P), (0, Verdict.PRECEDENCE))
    assert (work.left, work.conflicts, found.outbox.given_up) == ([1], 0, [])
    assert work.not_before == pytest.approx(10.05)


def test_a_machine_that_went_down_is_left_out_without_a_conflict() -> None:
    found, _ = scheduler(retry_limit=1)
    work = begun(found, 3)
    settle(found, [3], (0, Verdict.DOWN))
    assert (work.conflicts, found.outbox.given_up) == (0, [])
    assert found.choose(10.0) == [work], "the reply said which machine it is: try the others at once"


def test_the_last_conflict_gives_the_job_up() -> None:
    found, heard = scheduler(retry_limit=2)
    work = begun(found, 1)
    settle(found, [1], (0, Verdict.FULL))
    assert (found.outbox.given_up, heard.of("abandoned")) == ([], [])
    found.choose(99.0)
    settle(found, [1], (0, Verdict.FULL), now=99.0)
    assert (found.outbox.given_up, heard.of("abandoned"), work.conflicts) == (["a"], [("a", 99.0)], 2)
    assert len(found.queue.ready) == 0


def test_an_outcome_of_a_job_not_in_hand_is_only_counted() -> None:
    found, heard = scheduler()
    settle(found, [1], (1, P))
    assert heard.said == [("committed", "a", 1, 10.0)]
    assert (len(found.queue.ready), found.outbox.gone) == (0, [])


# Arrivals


def test_a_job_that_is_not_active_is_left_alone() -> None:
    found, _ = scheduler()
    for state in (JobState.HELD, JobState.STOPPED, JobState.ABANDONED, JobState.DONE):
        found.admit(pending(job("a", state=state)))
    assert len(found.queue.ready) == 0


def test_news_of_a_queued_job_replace_what_was_thought_and_end_its_wait() -> None:
    found, _ = scheduler()
    work = begun(found, 5)
    settle(found, [5], (0, Verdict.PRECEDENCE))
    found.admit(pending(job("a", group((1, 1), 5, unplaced=2))))
    assert len(found.queue.ready) == 1
    assert found.choose(10.0) == [work]
    assert (work.left, work.fruitless) == ([2], 1)


def test_a_job_that_a_limit_keeps_out_sleeps_until_news_of_it_come() -> None:
    found, heard = scheduler(retry_limit=1)
    work = begun(found, 3)
    settle(found, [2, 1], (2, P), (0, Verdict.LIMIT))
    assert (work.left, work.conflicts, found.outbox.given_up, len(found.queue.ready)) == ([1], 0, [], 0)
    assert (found.queue.limited.ids(), [said[0] for said in heard.of("blocked")]) == (["a"], ["a"])
    found.admit(pending(job("a", group((1, 1), 3, unplaced=1))))
    assert (found.queue.blocked_jobs, found.choose(0.0)) == (0, [work])


def test_news_of_a_sleeping_job_wake_it() -> None:
    found, _ = scheduler()
    work = begun(found, 5)
    assert found.decide([work], copy((0, 0)), 0.0) == []
    assert (len(found.queue.blocked), found.working) == (1, {})
    found.admit(pending(job("a", group((1, 1), 5, unplaced=3))))
    assert len(found.queue.blocked) == 0
    assert found.choose(0.0) == [work]
    assert work.left == [3]


def test_news_that_nothing_is_left_drop_the_job() -> None:
    found, _ = scheduler()
    work = begun(found, 5)
    found.decide([work], copy((0, 0)), 0.0)
    found.admit(pending(job("a", group((1, 1), 5, unplaced=0))))
    assert (len(found.queue.ready), len(found.queue.blocked)) == (0, 0)


def test_news_of_a_job_in_flight_come_before_its_outcome() -> None:
    found, heard = scheduler()
    work = begun(found, 5)
    found.admit(pending(job("a", group((1, 1), 9, unplaced=7))))
    assert (work.left, len(found.queue.ready)) == ([7], 0), "it stays in hand, not queued twice"
    settle(found, [5], (5, P))
    assert (work.left, heard.of("placed")) == ([2], [])


# Deciding


def test_no_more_claims_than_a_transaction_may_hold_the_rest_comes_later() -> None:
    found, _ = scheduler(placement=BestFit(apart=1))
    tasks = MOST_CLAIMS + 50
    found.admit(pending(job("a", group((1,), tasks))))
    snapshot = copy(*[(10,)] * 2_000)
    transactions = found.decide(found.choose(0.0), snapshot, 0.0)
    (transaction,) = transactions
    assert len(transaction.claims) == MOST_CLAIMS
    taken = sum(claim.count for claim in transaction.claims)
    assert sum(amount for (amount,) in room(snapshot)) == 20_000 - taken, "what was cut off is not claimed on the copy"
    found.settle([(transaction, outcome(*((claim.count, P) for claim in transaction.claims)))], 0.0)
    (work,) = found.choose(0.0)
    assert work.remaining == tasks - taken == 50


def test_a_call_takes_no_further_job_once_it_has_enough_claims() -> None:
    found, _ = scheduler(placement=BestFit(apart=1), jobs_per_call=3)
    found.admit(pending(*(job(name, group((1,), CALL_CLAIMS), order=order) for order, name in enumerate("abc"))))
    snapshot = copy(*[(10,)] * CALL_CLAIMS)
    first = found.choose(0.0)
    (transaction,) = found.decide(first, snapshot, 0.0)
    assert (transaction.job, len(transaction.claims)) == ("a", CALL_CLAIMS)
    second = found.choose(0.0)
    assert [(work.id, work.attempts) for work in second] == [("b", 0), ("c", 0)], "the others come in the next calls"
    assert [each.job for each in found.decide(second, snapshot, 0.0)] == ["b"]


def test_thinking_takes_time_per_job_and_per_task_left() -> None:
    found, _ = scheduler(t_job=0.1, t_task=0.005)
    found.admit(pending(job("a", group((1, 1), 100)), job("b", group((1, 1), 8, unplaced=2), order=1)))
    assert think_seconds(found, found.choose(0.0)) == pytest.approx(0.2 + 0.005 * 102)


# Jobs that become others'


def test_jobs_of_others_are_dropped_wherever_they_are_and_the_rest_keeps_its_wait() -> None:
    found, _ = scheduler()
    begun(found, 1)
    settle(found, [1], (0, Verdict.FULL))
    due = found.queue.ready.next_due()
    assert due is not None
    assert due > 10.0
    found.admit(pending(job("b"), job("c", order=1)))
    found.disown(lambda job_id, _: job_id != "c")
    assert [work.id for work in found.choose(10.0)] == ["b"]
    assert found.queue.ready.next_due() == due
    found.disown(lambda *_: False)
    assert len(found.queue.ready) == 0


def test_sleepers_are_tried_again_when_a_job_leaves_that_may_have_been_woken_for_them() -> None:
    found, _ = scheduler(jobs_per_call=2)
    found.admit(pending(job("woken"), job("sleeper", order=1), job("theirs", order=2)))
    snapshot = copy((0, 0))
    for _ in range(2):
        found.decide(found.choose(0.0), snapshot, 0.0)
    assert len(found.queue.blocked) == 3
    say(snapshot, 0, 1, 1)
    found.requeue(snapshot, 0.0)
    assert (len(found.queue.ready), len(found.queue.blocked)) == (1, 2)
    found.disown(lambda job_id, _: job_id == "sleeper")
    assert [work.id for work in found.choose(0.0)] == ["sleeper"]
    assert len(found.queue.blocked) == 0


# Coarse detection of one's own changes


def coarse(*seen: int) -> Transaction:
    claims = tuple(Claim(machine, 0, 1, seen=number) for machine, number in enumerate(seen))
    return Transaction("a", claims, detection=Detection.COARSE)


def test_own_transactions_validated_since_are_no_move() -> None:
    (rebased,) = rebase([coarse(5, 6, 7)], {0: 1, 2: 3, 9: 1})
    assert [claim.seen for claim in rebased.claims] == [6, 6, 10]


def test_fine_transactions_and_those_with_nothing_before_them_stay_as_they_are() -> None:
    fine = coarse(5)._replace(detection=Detection.FINE)
    assert rebase([fine], {0: 1})[0] is fine
    same = coarse(5)
    assert rebase([same], {})[0] is same


# Presets


def test_schedulers_that_share_by_pools() -> None:
    own = Scheduler("own")
    assert (batch().uses_pools, service().uses_pools, own.uses_pools) == (True, True, False)
    own.ordering = CellPools()
    assert own.uses_pools


def test_presets_and_their_dice() -> None:
    quick, careful = batch("s"), service("s")
    assert (quick.kind, quick.jobs_per_call) == ("batch", BATCH_JOBS)
    assert (careful.kind, careful.jobs_per_call, careful.placement) == ("service", 1, ServicePlacement())
    assert batch("s").rng.random() == quick.rng.random() != batch("t").rng.random()


def test_a_transaction_that_pools_reject_is_no_conflict_of_its_job() -> None:
    found, _ = scheduler()
    work = begun(found, 5)
    settle(found, [5], (0, Verdict.SHARE))
    assert work.conflicts == 0
    assert found.queue.ready.get("a") is work


def arriving(*left: tuple[str, int]) -> list[PendingJob]:
    """Jobs of lane 1 of the store, by name and number of unplaced tasks, in this order."""
    jobs = [job(name, group((1,), 5, unplaced=tasks), order=ord(name)) for name, tasks in left]
    for each in jobs:
        each.lane = 1
    return pending(*jobs)


def test_news_of_a_queued_job_that_arrives_with_new_jobs_is_taken_over() -> None:
    found = Scheduler("batch")
    found.admit(arriving(("a", 5), ("b", 5)))
    known = found.queue.ready.works["b"]
    found.admit(arriving(("b", 3), ("c", 5)))
    assert found.queue.ready.works["b"] is known
    assert (known.left, len(found.queue.ready), found.queue.ready.counts.get(1, 0)) == ([3], 3, 3)


def test_news_of_a_job_that_is_decided_and_arrives_with_new_jobs_is_taken_over() -> None:
    found = Scheduler("batch", jobs_per_call=1)
    found.admit(arriving(("a", 5), ("b", 5)))
    (decided,) = found.choose(0.0)
    found.admit(arriving(("a", 3), ("c", 5)))
    assert (decided.id, decided.left) == ("a", [3])
    assert [each.id for each in found.queue.ready.clear()] == ["b", "c"]


def test_a_job_that_arrives_twice_in_a_call_is_queued_once() -> None:
    found = Scheduler("batch")
    found.admit(arriving(("a", 5), ("a", 2)))
    assert (len(found.queue.ready), found.queue.ready.counts.get(1, 0)) == (1, 1)
    assert [each.left for each in found.choose(0.0)] == [[2]]


def test_jobs_that_arrive_together_are_queued_if_they_are_active_and_have_tasks_left() -> None:
    found = Scheduler("batch")
    held, done = job("held", group((1,), 5), state=JobState.HELD), job("done", group((1,), 5, unplaced=0))
    found.admit(pending(held, done, job("b", group((1,), 5)), job("a", group((1,), 5))))
    assert [each.id for each in found.queue.ready.clear()] == ["b", "a"]

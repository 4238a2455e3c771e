"""The attempt loop, driven by hand: which effects it yields, in which order, and what it does with answers."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from omega.cellstate.model import Gang
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Detection, Mode, Outcome, Transaction, Verdict
from omega.schedulers.loop import Answer, Arrived, Commit, Committed, Note, Receive, Reread, Sync, Think, attempts
from omega.schedulers.retrying import RETRY_LIMIT
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import Ownership, alone
from tests.unit.schedulers.drive import Driver, Heard, copy, group, job, outcome, pending, say, validated


def scheduler(**fields: object) -> tuple[Scheduler, Heard]:
    found = Scheduler("batch", rng=Random(1), **fields)  # type: ignore[arg-type]
    heard = Heard()
    found.instruments.append(heard)
    return found, heard


# Order of effects


def test_receive_sync_think_commit_and_again() -> None:
    found, _ = scheduler(t_job=0.5, t_task=0.25)
    snapshot = copy((4, 4))
    loop = attempts(found)
    assert next(loop) == Receive(None), "nothing is queued: wait as long as it takes"
    assert loop.send(Arrived(10.0, pending(job("a", group((1, 1), 2))))) == Sync()
    think = loop.send(snapshot)
    assert isinstance(think, Think)
    assert ([w.id for w in think.works], think.seconds) == (["a"], 1.0)
    commit = loop.send(11.0)
    assert commit == Commit([Transaction("a", (Claim(0, 0, 2),), Mode.INCREMENTAL, Detection.FINE)])
    assert isinstance(commit, Commit)
    assert loop.send(
        Committed(12.0, [(commit.transactions[0], outcome((2, Verdict.PLACED)))], in_flight=False)
    ) == Receive(None)


def test_without_a_job_to_try_it_syncs_and_receives_again() -> None:
    loop = attempts(scheduler()[0])
    next(loop)
    assert loop.send(Arrived(1.0)) == Sync()
    assert loop.send(copy((1, 1))) == Receive(None)


def test_a_job_that_fits_nowhere_is_not_committed() -> None:
    found, heard = scheduler()
    driver = Driver(found, copy((1, 1))).arrive(job("big", group((2, 2), 1))).idle()
    assert driver.kinds() == ["Receive", "Sync", "Think"]
    assert found.queue.blocked.ids() == ["big"]
    assert heard.of("blocked") == [("big", 100.0)]


def test_a_commit_in_flight_is_fetched_without_waiting_for_work() -> None:
    found, heard = scheduler()
    driver = Driver(found, copy((4, 4)), in_flight=True).arrive(job("a"))
    driver.until(Commit)
    driver.step()
    assert driver.effect == Receive(0.0), "the outcome is due: do not sleep"
    driver.idle()
    assert driver.kinds() == ["Receive", "Sync", "Think", "Commit", "Receive", "Sync", "Think", "Commit"]
    assert driver.effects[-1] == Commit([])
    assert heard.of("placed") == [("a", 100.0)]


def test_the_next_jobs_are_decided_while_a_commit_is_in_flight() -> None:
    found, _ = scheduler(jobs_per_call=1)
    driver = Driver(found, copy((1, 1), (1, 1)), in_flight=True).arrive(job("a"), job("b"))
    machines: list[int] = []
    while len(machines) < 2:
        commit = driver.until(Commit)
        assert isinstance(commit, Commit)
        machines += [claim.machine for transaction in commit.transactions for claim in transaction.claims]
        driver.step()
    assert sorted(machines) == [0, 1], "b was decided on a copy that lacks what a claimed"


@pytest.mark.parametrize("effect", ["receive", "sync", "commit"])
def test_an_answer_of_the_wrong_kind_is_refused(effect: str) -> None:
    driver = Driver(scheduler()[0], copy((1, 1))).arrive(job("a"))
    driver.until({"receive": Receive, "sync": Sync, "commit": Commit}[effect])
    wrong: Answer = None
    with pytest.raises(TypeError):
        driver.loop.send(wrong)


def test_several_jobs_go_in_one_commit_each_a_transaction_of_its_own() -> None:
    found, _ = scheduler(jobs_per_call=3)
    driver = Driver(found, copy((100, 100))).arrive(*(job(f"j{i}", group((1, 1), 2), order=i) for i in range(5)))
    commit = driver.until(Commit)
    assert isinstance(commit, Commit)
    assert [(t.job, sum(claim.count for claim in t.claims)) for t in commit.transactions] == [
        ("j0", 2),
        ("j1", 2),
        ("j2", 2),
    ]
    driver.idle()
    assert [len(e.transactions) for e in driver.effects if isinstance(e, Commit)] == [3, 2]


def test_a_transaction_says_how_it_is_to_be_validated() -> None:
    found, _ = scheduler(mode=Mode.INCREMENTAL, detection=Detection.COARSE)
    driver = Driver(found, copy((9, 9))).arrive(job("a"), job("g", gang=Gang.YES, order=1))
    commit = driver.until(Commit)
    assert isinstance(commit, Commit)
    assert [(t.job, t.mode, t.detection) for t in commit.transactions] == [
        ("a", Mode.INCREMENTAL, Detection.COARSE), ("g", Mode.GANG, Detection.COARSE)]  # fmt: skip
    assert [claim.seen for t in commit.transactions for claim in t.claims] == [1, 1], "the machine's number at the sync"


# Outcomes


def test_what_is_left_is_retried_and_only_that() -> None:
    found, heard = scheduler()
    driver = Driver(found, copy((4, 4)), validate=lambda t: outcome((min(1, t.claims[0].count), Verdict.FULL)))
    driver.arrive(job("a", group((1, 1), 3)))
    counts: list[int] = []
    while len(counts) < 3:
        commit = driver.until(Commit)
        assert isinstance(commit, Commit)
        counts.append(commit.transactions[0].claims[0].count)
        driver.step()
    assert counts == [3, 2, 1]
    assert [effect for effect in driver.effects if isinstance(effect, Receive)][1:] == [Receive(0.0)] * 2
    assert heard.of("placed") == [("a", 100.0)]


def test_a_thousand_conflicted_attempts_and_the_job_is_given_up() -> None:
    found, heard = scheduler()
    driver = Driver(found, copy((4, 4)), validate=lambda t: validated(t, Verdict.FULL)).arrive(job("a"))
    reread = driver.until(Reread)
    assert reread == Reread((), ("a",))
    assert driver.kinds().count("Commit") == RETRY_LIMIT == 1_000
    assert [name for name, _ in heard.of("abandoned")] == ["a"]
    driver.idle()
    assert (len(found.queue.ready), len(found.queue.blocked), found.working) == (0, 0, {})


def test_a_job_that_was_placed_and_wholly_evicted_is_not_announced_as_new() -> None:
    found, heard = scheduler()
    Driver(found, copy((4, 4))).arrive(job("a"), replace(job("b"), begun=True)).idle()
    assert [name for name, *_ in heard.of("began")] == ["a"]
    assert {name for name, *_ in heard.of("placed")} == {"a", "b"}


def test_sleeping_uses_no_attempts() -> None:
    found, heard = scheduler(retry_limit=3)
    snapshot = copy((0, 0), (0, 0))
    gang = job("g", group((2, 2), 2), gang=Gang.YES)
    driver = Driver(found, snapshot, validate=lambda t: validated(t, Verdict.FULL)).arrive(gang).idle()
    for _ in range(50):  # room for one of its two tasks comes and goes
        say(snapshot, 0, 2, 2)
        driver.step()
        driver.idle()
        say(snapshot, 0, 0, 0)
    assert found.queue.blocked.ids() == ["g"]
    assert len(heard.of("blocked")) == 51, "woken and tried each time"
    say(snapshot, 0, 4, 4)
    driver.step()
    driver.until(Reread)
    assert driver.kinds().count("Commit") == 3, "only conflicts count"
    assert len(heard.of("abandoned")) == 1


def test_verdicts_that_say_it_is_not_as_thought_have_the_job_read_anew() -> None:
    for verdict in (Verdict.UNKNOWN, Verdict.DUPLICATE, Verdict.INCOMPLETE):
        found, _ = scheduler()
        driver = Driver(found, copy((4, 4)), validate=lambda t, v=verdict: validated(t, v)).arrive(job("a"))  # type: ignore[misc]
        assert driver.until(Reread) == Reread(("a",), ())
        driver.step()
        assert driver.effect == Receive(None), "it is not retried until it arrives again"
        driver.now += 0.11
        assert driver.until(Note) == Note(("a",))
        driver.arrive(job("a"))
        driver.validate = validated
        driver.idle()
        assert (driver.kinds().count("Commit"), driver.kinds().count("Reread")) == (2, 1)


def filled(snapshot: Snapshot) -> Callable[[Transaction], Outcome]:
    """Place everything; the machines are full then."""

    def validate(transaction: Transaction) -> Outcome:
        for claim in transaction.claims:
            say(snapshot, claim.machine, 0, 0)
        return validated(transaction)

    return validate


def test_what_was_placed_in_part_is_tried_again_in_room_that_became_free_meanwhile() -> None:
    found, heard = scheduler(jobs_per_call=1)
    snapshot = copy((1, 1), (0, 0))
    driver = Driver(found, snapshot, validate=filled(snapshot), in_flight=True).arrive(job("a", group((1, 1), 2)))
    driver.until(Commit)
    driver.step()  # one task is on its way to machine 0, its only room
    say(snapshot, 1, 1, 1)  # freed before its outcome is known: nobody would wake it for that later
    driver.idle()
    assert heard.of("placed") == [("a", 100.0)]
    assert heard.of("blocked") == []
    machines = [c.machine for e in driver.effects if isinstance(e, Commit) for t in e.transactions for c in t.claims]
    assert machines == [0, 1]


def test_what_was_placed_in_part_sleeps_when_nothing_became_free() -> None:
    found, heard = scheduler()
    snapshot = copy((1, 1))
    driver = Driver(found, snapshot, validate=filled(snapshot)).arrive(job("a", group((1, 1), 2))).idle()
    assert driver.kinds().count("Commit") == 1
    assert found.queue.blocked.ids() == ["a"]
    assert len(heard.of("blocked")) == 1


# Back-off


def test_gangs_that_conflict_back_off_at_random_and_at_most_a_second() -> None:
    found, _ = scheduler(retry_limit=200)
    driver = Driver(found, copy((4, 4)), validate=lambda t: validated(t, Verdict.FULL)).arrive(job("g", gang=Gang.YES))
    driver.until(Reread)
    waits = [effect.until for effect in driver.effects if isinstance(effect, Receive) and effect.until is not None]
    times = [wait for wait in waits if wait > 0]
    gaps = [later - earlier for earlier, later in zip([100.0, *times], times, strict=False)]
    assert len(gaps) == 199
    assert all(0 < gap <= 1.0 for gap in gaps)
    assert max(gaps[:5]) <= 0.064, "the first waits are milliseconds"
    assert max(gaps) > 0.9, "then they come near a second"
    assert len(set(gaps)) == len(gaps), "no two alike: gangs that met must not meet again"


def test_two_schedulers_draw_different_waits() -> None:
    dues = []
    for seed in (1, 2):
        found = Scheduler("batch", rng=Random(seed))
        driver = Driver(found, copy((4, 4)), validate=lambda t: validated(t, Verdict.MOVED))
        driver.arrive(job("g", gang=Gang.YES))
        driver.until(Commit)
        driver.step()
        dues.append(found.queue.ready.next_due())
    assert None not in dues
    assert dues[0] != dues[1]


def test_when_all_jobs_back_off_it_waits_for_the_first_that_is_due() -> None:
    found, _ = scheduler(jobs_per_call=4)
    jobs = [job(f"j{i}", order=i) for i in range(4)]
    driver = Driver(found, copy((9, 9)), validate=lambda t: validated(t, Verdict.FULL)).arrive(*jobs)
    driver.until(Commit)
    driver.step()
    dues = [found.queue.ready.get(name.id) for name in jobs]
    earliest = min(work.not_before for work in dues if work is not None)
    assert earliest > driver.now
    assert driver.effect == Receive(earliest)
    # An answer before that time brings no attempt, however often it comes.
    for _ in range(20):
        assert isinstance(driver.loop.send(Arrived(driver.now)), Sync)
        assert driver.loop.send(driver.snapshot) == Receive(earliest)


def test_a_job_whose_victims_are_too_important_waits_longer_each_time_and_no_attempt_is_counted() -> None:
    found, heard = scheduler(retry_limit=3)
    driver = Driver(found, copy((4, 4)), validate=lambda t: validated(t, Verdict.PRECEDENCE)).arrive(job("a"))
    for _ in range(200):
        driver.step()
    dues = [effect.until for effect in driver.effects if isinstance(effect, Receive) and effect.until]
    gaps = [later - earlier for earlier, later in zip([100.0, *dues], dues, strict=False)]
    assert gaps[:3] == pytest.approx([0.05, 0.10, 0.15])
    assert gaps[-1] == pytest.approx(1.0)
    assert heard.of("abandoned") == []


# What arrives


def test_the_wait_of_a_job_is_measured_once_at_its_first_attempt() -> None:
    found, heard = scheduler(jobs_per_call=1)
    verdicts = [Verdict.FULL, Verdict.DUPLICATE, Verdict.PLACED, Verdict.PLACED]
    driver = Driver(found, copy((4, 4)), validate=lambda t: validated(t, verdicts.pop(0)))
    driver.arrive(job("a", submitted_ms=97_000), job("b", submitted_ms=99_500, order=1))
    driver.until(Reread)
    driver.step()
    driver.idle()
    assert heard.of("began")[0] == ("a", 100.0, 3.0)
    assert [said[0] for said in heard.of("began")] == ["a", "b"]
    assert heard.of("began")[1][2] >= 0.5


def test_a_job_that_ran_before_is_not_measured_and_the_clock_never_runs_backwards() -> None:
    found, heard = scheduler()
    back = job("back", group((1, 1), 4, unplaced=1))
    Driver(found, copy((9, 9))).arrive(back, job("early", submitted_ms=200_000, order=1)).idle()
    assert heard.of("began") == [("early", 100.0, 0.0)]


def test_a_new_incarnation_tries_what_was_in_flight_again_and_measures_nothing_twice() -> None:
    found, heard = scheduler()
    driver = Driver(found, copy((4, 4)), in_flight=True).arrive(job("a", submitted_ms=97_000))
    driver.until(Commit)
    driver.step()
    driver.flight = ()  # it is void: no outcome will come
    driver.arrive(job("a", submitted_ms=97_000), renewed=True)
    driver.step()
    driver.idle()
    assert driver.kinds().count("Commit") == 3, "again, and once to fetch the outcome"
    assert heard.of("placed") == [("a", 100.0)]
    assert len(heard.of("began")) == 1
    assert found.working == {}


def test_a_new_incarnation_has_nothing_in_flight_to_fetch() -> None:
    found, _ = scheduler()
    driver = Driver(found, copy((4, 4)), in_flight=True).arrive(job("a"))
    driver.until(Commit)
    driver.step()
    assert driver.effect == Receive(0.0)
    assert (
        driver.loop.send(
            Arrived(driver.now, owned=Ownership("batch/0", ("batch/0", "batch/1"), {"": ("batch/1",)}), renewed=True)
        )
        == Sync()
    )
    assert driver.loop.send(driver.snapshot) == Receive(None), "and its job belongs to others now"


def test_buckets_that_change_hands_take_their_jobs_with_them_and_bring_others() -> None:
    found, _ = scheduler()
    snapshot = copy((0, 0))
    driver = Driver(found, snapshot).arrive(*(job(f"j{i}", order=i) for i in range(20))).idle()
    assert len(found.queue.blocked) == 20
    mine = Ownership("batch/0", ("batch/0", "batch/1"))
    theirs = [f"j{i}" for i in range(20) if not mine.owns(f"j{i}", "")]
    assert 0 < len(theirs) < 20
    driver.arrive(owned=mine).step()
    assert found.queue.blocked.ids() == [f"j{i}" for i in range(20) if f"j{i}" not in theirs]
    driver.idle().arrive(*(job(name) for name in theirs), owned=alone("batch/0")).step()
    driver.idle()
    assert sorted(found.queue.blocked.ids()) == sorted(f"j{i}" for i in range(20)), "back again, none twice"

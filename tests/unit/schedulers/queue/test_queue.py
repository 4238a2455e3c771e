"""One pending queue: what waits for what, when it is looked at next, and who comes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.ordering.without_pools import FairUsers, Fifo, PrecedenceFifo
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Ordering, Placement, Preemption
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.queue.queue import MOST_SCANNED, SCAN_SECONDS, Queue
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.queue.ready import Ready
from omega.schedulers.retrying import RetryPolicy
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from omega.testing import snapshot, work
from tests.unit.schedulers.drive import say
from tests.unit.schedulers.rig import Rig, spec

ONE = ((1, 1), 1)


def free(copy: Snapshot, machine: int, tasks: int) -> None:
    say(copy, machine, tasks, tasks)


def blocked(ordering: Ordering, *works: Work) -> Queue:
    queue = Queue(ordering)
    for found in works:
        queue.block(found)
    return queue


def requeued(queue: Queue, copy: Snapshot, now: float = 0.0, preemption: Preemption | None = None) -> list[str]:
    queue.observe(copy, now)
    queue.requeue(copy, preemption or Scheduler("batch").preemption, Random(1), now)
    return [found.id for found in queue.choose(now, 100)]


def test_freed_room_goes_to_the_most_important_however_long_the_others_wait() -> None:
    copy = snapshot((0, 0), (0, 0))
    early = [work(ONE, name=f"low{i}", order=i) for i in range(30)]
    queue = blocked(PrecedenceFifo(), *early, work(ONE, name="high", order=30, precedence=9))
    copy.freed()
    free(copy, 0, 1)
    assert requeued(queue, copy) == ["high"]
    free(copy, 1, 2)
    assert requeued(queue, copy) == ["low0", "low1"]


def test_between_jobs_of_one_shape_a_rival_of_another_takes_its_turn() -> None:
    """Freed room: jobs of one group are requeued only as far as they come before the first of the other groups."""
    copy = snapshot((0, 0), (0, 0))
    small = [work(ONE, name=f"s{i}", order=i) for i in (0, 1, 5)]
    queue = blocked(Fifo(), *small, work(((1, 2), 1), name="tall", order=3))
    copy.freed()
    say(copy, 0, 9, 4)
    assert requeued(queue, copy) == ["s0", "s1", "tall"], "what is left after tall is none of s5's"


def test_a_job_that_became_ready_before_the_clock_stepped_back_is_not_lost() -> None:
    ready = Ready(Ranks(Fifo()))
    ready.add(work(ONE, name="first", not_before=5.0))
    ready.add(work(ONE, name="second", order=1, not_before=5.0))
    taken = ready.pop(6.0)
    assert taken is not None
    assert (taken.id, ready.pop(4.0)) == ("first", None)
    assert (len(ready), ready.next_due()) == (1, 5.0)
    again = ready.pop(5.0)
    assert again is not None
    assert again.id == "second"


def test_a_policy_names_the_time_at_which_a_blocked_job_is_tried_again() -> None:
    late, soon, never = (work(ONE, name=name, order=i) for i, name in enumerate(("late", "soon", "never")))
    late.until, soon.until = 9.0, 5.0
    queue = blocked(Fifo(), late, soon, never)
    copy = snapshot((0, 0))
    assert queue.next_due() == 5.0
    assert (requeued(queue, copy, 4.9), requeued(queue, copy, 5.0)) == ([], ["soon"])
    assert soon.until == 0.0, "a time holds for one attempt"
    queue.discard("late")
    assert queue.next_due() is None


@dataclass(frozen=True)
class Patiently(Placement):
    """Places nothing of a job before it has waited ten seconds."""

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        if snapshot.now < work.submitted + 10:
            work.until = work.submitted + 10
            return ()
        return FirstFit().place(work, snapshot, rng)


def test_a_placement_that_waits_is_asked_again_at_its_time_and_knows_the_time() -> None:
    found, copy = Scheduler("batch", placement=Patiently()), snapshot((9, 9))
    found.take([work(ONE, submitted=100.0)])
    found.requeue(copy, 101.0)
    assert found.decide(found.choose(101.0), copy, 101.0) == []
    assert found.next_due() == 110.0
    found.requeue(copy, 110.0)
    assert len(found.decide(found.choose(110.0), copy, 110.0)) == 1


def test_with_patience_nobody_is_blocked_though_the_scheduler_evicts() -> None:
    found = Scheduler("batch", preemption=PrecedencePreemption(), retry_policy=RetryPolicy(seconds=3.0))
    copy = snapshot((0, 0), used=5)
    found.take([work(ONE, precedence=5)])
    found.requeue(copy, 10.0)
    works = found.choose(10.0)
    assert found.decide(works, copy, 10.0) == []
    copy.residents.learn([0], copy.number, [])
    assert found.preempt(copy, 10.0) == []
    assert (found.queue.blocked_jobs, found.next_due()) == (0, 13.0)


@dataclass
class Curious(Preemption):
    """Would look at every job, and writes down which ones it was asked about."""

    asked: list[str]

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> None:
        self.asked.append(work.id)

    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        return ()


def test_groups_take_turns_when_others_placed_what_they_might_evict() -> None:
    count = 2 * MOST_SCANNED + 3
    queue = blocked(Fifo(), *(work(((1, 1 + i), 1), name=f"j{i}", order=i) for i in range(count)))
    copy, policy, now = snapshot((0, 0)), Curious([]), 0.0
    copy.freed()
    for _ in range(3):
        assert requeued(queue, copy, now, policy) == []
        assert requeued(queue, copy, now + 0.1, policy) == [], "not before its time"
        due, now = queue.next_due(), now + SCAN_SECONDS
    assert policy.asked[:count] == [f"j{i}" for i in range(count)]
    assert due is None, "each was asked once, and nothing happened since"
    asked = len(policy.asked)
    assert (requeued(queue, copy, now + 10, policy), len(policy.asked)) == ([], asked)
    free(copy, 0, 0)
    requeued(queue, copy, now + 10, policy)
    assert len(policy.asked) == asked + MOST_SCANNED, "something changed"


def test_users_are_apart_for_eviction() -> None:
    """What one user may evict says nothing of another: each has a group of his own (and so a first job)."""
    assert work(ONE, user="ada").shape() != work(ONE, user="bob").shape() != work(ONE, user="bob", pool="p").shape()


def test_fair_shares_divide_room_that_is_freed_at_once() -> None:
    copy = snapshot(*[(0, 0)] * 9)
    jobs = [work(((1, 1), 100), name=user, order=i, user=user) for i, user in enumerate(("ada", "bob"))]
    queue = blocked(FairUsers({"bob": 2.0}), *jobs)
    copy.freed()
    for machine in range(9):
        free(copy, machine, 10)
    assert sorted(requeued(queue, copy)) == ["ada", "bob"]
    given = {found.id: found.admitted for found in jobs}
    assert given == {"ada": [30], "bob": [60]}


def test_a_large_job_does_not_take_an_empty_cell_before_others_had_their_turn() -> None:
    found, copy = Scheduler("batch", ordering=FairUsers()), snapshot(*[(10, 10)] * 10)
    found.take([work(((1, 1), 500), name="ada", user="ada"), work(((1, 1), 500), name="bob", order=1, user="bob")])
    for user in ("ada", "bob"):
        copy.usage.change(("", user), (0, 0), (500, 500))
    found.requeue(copy, 0.0)
    placed = [sum(claim.count for claim in each.claims) for each in found.decide(found.choose(0.0), copy, 0.0)]
    assert placed == [50, 50]


@dataclass
class Teller(Ordering):
    """Shares what it knows with a placement."""

    known: dict[str, int]


@dataclass
class Listener(Placement):
    known: dict[str, int]

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return ()


def test_policies_of_one_scheduler_share_what_they_shared_and_runs_do_not() -> None:
    known: dict[str, int] = {}
    found = Scheduler("batch", ordering=Teller(known), placement=Listener(known))
    one, other = found.fresh("1"), found.fresh("2")
    assert isinstance(one.ordering, Teller)
    assert isinstance(one.placement, Listener)
    one.ordering.known["a"] = 1
    assert one.placement.known == {"a": 1}
    assert isinstance(other.ordering, Teller)
    assert (other.ordering.known, known) == ({}, {})


def test_ageing_lets_nobody_starve() -> None:
    """One task at a time, and an important job arrives for each: the others come after as many ageings."""
    ready, out = Ready(Ranks(PrecedenceFifo(ageing=10.0))), []
    ready.add(work(ONE, name="low"))
    for second in range(60):
        ready.add(work(ONE, name=f"high{second}", order=1 + second, precedence=3, submitted=float(second)))
        found = ready.pop(float(second))
        out.append(found.id if found else "")
    assert out.index("low") == 30, "three steps of precedence are made up for by thirty seconds"


def test_one_slot_thirty_jobs_and_then_an_important_one_which_is_next() -> None:
    """Whatever waits in the store: one job at a time, and the last one submitted is the most important."""
    rig = Rig((100, 100), scheduler=Scheduler("batch", jobs_per_call=1))
    rig.submit(*(spec(f"low{i}") for i in range(30)))
    rig.until(lambda: sum(placed for _, placed in rig.counts().values()) == 1)
    rig.submit(spec("high", precedence=9))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 30)
    order = []
    for _ in range(3):
        rig.other.schedulers.members()
        (run,) = [run for run in rig.other.machines.runs([0]) if not run.leaving]
        order.append(run.job)
        rig.end(run.job)
        rig.until(lambda: sum(placed for _, placed in rig.counts().values()) == 1)
    assert order == ["low0", "high", "low1"]


class Asking(Placement):
    """Wants the names of machines, whatever jobs demand."""

    reads_attributes = True

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        self.seen.append(snapshot.attributes.name(0))
        return FirstFit().place(work, snapshot, rng)


def test_attributes_are_looked_up_when_a_policy_asks_for_them() -> None:
    seen: list[str] = []
    rig = Rig((100, 100), scheduler=Scheduler("batch", placement=Asking(seen)))
    rig.submit(spec("plain"))
    rig.until_placed("plain")
    assert seen[0] == rig.other.machines.described([0])[0][0]


def test_use_by_user_and_pool_reaches_a_live_policy_with_what_is_in_flight() -> None:
    rig = Rig((1_000, 1_000), scheduler=Scheduler("batch", ordering=FairUsers()))
    rig.submit(*(spec(f"a{i}", spec={"user": "ada", "pool": "crawl"}) for i in range(3)))
    rig.submit(spec("b", spec={"user": "bob"}))
    usage = rig.live.snapshot.usage
    rig.until_commit()
    assert sum(held[0] for held, _ in usage.by_account().values()) == 400, "decided, not committed"
    rig.until_placed("a0", "a1", "a2", "b")
    assert {whose: held for whose, (held, _) in usage.by_account().items()} == {
        ("crawl", "ada"): (300, 300), ("", "bob"): (100, 100)
    }  # fmt: skip
    assert (usage.of_pool("crawl"), usage.dominant_share(user="ada")) == ((300, 300), 0.3)
    rig.end("a0", "b")
    rig.submit(spec("wide", need=(5_000, 5_000), spec={"user": "eve"}))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs > 0)
    assert usage.by_account() == {
        ("crawl", "ada"): ((200, 200), (0, 0)), ("", "eve"): ((0, 0), (5_000, 5_000))
    }  # fmt: skip
    assert usage.capacity == (1_000, 1_000)


class Counting(Placement):
    """First fit that counts the jobs that it was asked to place."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        self.tried.append(work.id)
        return FirstFit().place(work, snapshot, rng)


def test_a_new_job_like_blocked_ones_costs_no_attempt_of_its_own() -> None:
    """One of those alike is tried for all, also of those that arrive together; freed room is tried again."""
    policy = Counting()
    rig = Rig((100, 100), scheduler=Scheduler("batch", placement=policy))
    large = (200, 200)
    rig.submit(*(spec(f"a{i}", need=large) for i in range(5)))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 5)
    rig.submit(*(spec(f"b{i}", need=large) for i in range(20)), spec("other", need=(150, 150)))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 26)
    assert policy.tried == ["a0", "other"]
    assert (rig.figures.jobs, rig.figures.times_blocked) == (26, 26), "the waits of all are counted"
    rig.join((400, 400))
    rig.until(lambda: sum(placed for _, placed in rig.counts().values()) == 2)
    rig.rest()
    assert {job_id for job_id, (_, placed) in rig.counts().items() if placed} == {"a0", "a1"}
    assert len(policy.tried) <= 6, "those that the room may hold, and one for what is left"
    rig.submit(spec("small", need=(50, 50)))
    rig.until_placed("small")


def test_a_new_job_that_comes_first_is_tried_while_freed_room_is_given_out() -> None:
    """It is like blocked jobs, but more important than the one that was requeued for the room."""
    scheduler, copy = Scheduler("batch", ordering=PrecedenceFifo(ageing=1_000.0)), snapshot((0, 0))
    scheduler.take([work(((1, 1), 1), name=name, order=i, submitted=50.0) for i, name in enumerate(("low", "lower"))])
    scheduler.requeue(copy, 60.0)
    assert scheduler.decide(scheduler.choose(60.0), copy, 60.0) == []
    free(copy, 0, 1)
    scheduler.take([work(((1, 1), 1), name="early", order=9, submitted=1.0)])
    scheduler.requeue(copy, 61.0)
    transactions = scheduler.decide(scheduler.choose(61.0), copy, 61.0)
    assert [transaction.job for transaction in transactions] == ["early"]


def test_a_new_job_like_blocked_ones_takes_no_time_to_decide() -> None:
    scheduler, copy = Scheduler("batch", t_job=1.0), snapshot((0, 0))
    scheduler.take([work(ONE, name="first")])
    scheduler.requeue(copy, 0.0)
    assert scheduler.decide(scheduler.choose(0.0), copy, 0.0) == []
    scheduler.take([work(ONE, name="second", order=1), work(((2, 1), 1), name="other", order=2)])
    scheduler.requeue(copy, 1.0)
    assert [found.id for found in scheduler.choose(1.0)] == ["other"]
    assert scheduler.queue.blocked_jobs == 2

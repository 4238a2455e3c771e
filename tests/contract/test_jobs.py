"""Counts of a job, stopping it (semantics 4), submitting it again, and how long it is kept (21)."""

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import Gang, Job, JobSpec, JobState, TaskGroup
from omega.cellstate.ranges import indices
from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Make, Member, job, requeue_lost


def kept(cell: AnyCell, job_id: str) -> Job:
    found = cell.jobs.get(job_id)
    assert found is not None
    for group in found.groups:
        assert group.unplaced + group.placed + group.finished + group.failed + group.stopped == group.total
        assert len(indices(group.waiting)) == group.ready
    assert found.pending == (job_id in cell.schedulers.pending().get(found.kind, []))
    return found


def counts(cell: AnyCell, job_id: str) -> tuple[int, int, int, int, int]:
    group = kept(cell, job_id).groups[0]
    return group.unplaced, group.placed, group.finished, group.failed, group.stopped


def test_counts_of_every_sort_of_end(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=8)], 0, "ada")
    assert counts(cell, "a") == (8, 0, 0, 0, 0)
    member.place("a", (0, 4), (1, 3))
    assert counts(cell, "a") == (1, 7, 0, 0, 0)
    run = kept(cell, "a").groups[0].runs[0][0]
    endings = [
        TaskEnd(0, run, how, str(i))
        for i, how in enumerate([EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.EVICTED])
    ]
    assert cell.executors.end(endings, 1, "e0") == [1, 1, 1, 1]
    assert counts(cell, "a") == (3, 3, 1, 1, 0)
    assert kept(cell, "a").groups[0].waiting == "3,7"
    assert requeue_lost(cell) == 1
    assert kept(cell, "a").groups[0].waiting == "2-3,7"


def test_stop_ends_what_is_unplaced_at_once_and_the_rest_in_batches(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=6)], 0, "ada")
    member.place("a", (0, 3), (1, 2))
    stopped = cell.jobs.stop("a", 1, "ada")
    assert (stopped.state, stopped.groups[0].stopped, stopped.groups[0].placed) == (JobState.STOPPED, 1, 5)
    assert counts(cell, "a") == (0, 5, 0, 0, 1)
    assert member.place("a", (2, 1)).claims == ((0, Verdict.UNKNOWN),)
    version = cell.counters()["version"]
    assert cell.jobs.stop("a", 2, "ada", JobState.ABANDONED).state is JobState.STOPPED
    assert cell.counters()["version"] == version, "a second time changes nothing"
    first, second = (run for run, _, _ in kept(cell, "a").groups[0].runs)
    assert cell.executors.end([TaskEnd(0, first, EndKind.STOPPED)], 3, "ada") == [3]
    assert cell.executors.end(
        [TaskEnd(0, first, EndKind.STOPPED), TaskEnd(1, second, EndKind.FINISHED, "3")], 3, "ada"
    ) == [0, 1]
    assert cell.executors.end([TaskEnd(1, second, EndKind.LOST)], 3, "ada") == [1]
    assert counts(cell, "a") == (0, 0, 1, 0, 5)
    assert kept(cell, "a").state is JobState.STOPPED


def test_abandoned(cell: AnyCell) -> None:
    cell.jobs.submit([job("a")], 0, "ada")
    assert cell.jobs.stop("a", 1, "batch/0", JobState.ABANDONED).state is JobState.ABANDONED
    assert [fact.event[0] for fact in cell.log.facts()][-2:] == ["abandon", "done"]


def test_stopping_what_is_not_there(cell: AnyCell) -> None:
    with pytest.raises(Refused, match="job a: not in cell"):
        cell.jobs.stop("a", 1, "ada")


def test_done_when_nothing_is_left(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 1, "e0")
    assert kept(cell, "a").state is JobState.DONE
    assert cell.schedulers.pending() == {}


def test_what_returns_goes_to_the_end_of_the_queue(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a"), job("b"), job("c")], 0, "ada")
    member.place("a", (0, 1))
    assert cell.schedulers.pending() == {"batch": ["b", "c"]}
    cell.executors.end([TaskEnd(0, 1, EndKind.LOST)], 1, "e0")
    assert cell.schedulers.pending() == {"batch": ["b", "c"]}
    requeue_lost(cell)
    assert cell.schedulers.pending() == {"batch": ["b", "c", "a"]}


def test_a_held_job_is_pending_and_not_claimed(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a")], 0, "ada", held=True)
    assert cell.schedulers.pending() == {"batch": ["a"]}
    assert member.place("a", (0, 1)).claims == ((0, Verdict.UNKNOWN),)


def test_submitting_again(cell: AnyCell) -> None:
    words = {"user": "ada", "policy": {"x": ["y"]}}
    mine = JobSpec("a", "name", "batch", (TaskGroup((1, 1), 2, 5, {"command": ["true"]}),), 7, Gang.YES, words)
    other = job("b")
    assert [answer.status for answer in cell.jobs.submit([mine, other, mine], 0, "ada")] == ["new", "new", "same"]
    version = cell.counters()["version"]
    taken = JobSpec("c", "name", "batch", mine.groups)
    twice = JobSpec("d", "b", "batch", mine.groups)
    answers = cell.jobs.submit([mine, job("a"), taken, job("b", count=3), twice], 0, "ada")
    assert [(answer.status, answer.holder) for answer in answers] == [
        ("same", ""),
        ("id", ""),
        ("name", "a"),
        ("id", ""),
        ("name", "b"),
    ]
    assert cell.counters()["version"] == version
    found = kept(cell, "a")
    assert (found.name, found.precedence, found.gang, found.submitted_ms) == ("name", 7, Gang.YES, 0)
    assert found.spec == {"user": "ada", "policy": {"x": ["y"]}, "groups": [{"command": ["true"]}]}
    assert [each.id for each in cell.jobs.all()] == ["a", "b"]
    assert sorted(cell.jobs.ids()) == ["a", "b"]
    assert cell.jobs.names() == {"name": "a", "b": "b"}


def test_a_name_is_free_again_when_its_job_has_ended(cell: AnyCell) -> None:
    cell.jobs.submit([job("a")], 0, "ada")
    cell.jobs.stop("a", 1, "ada")
    again = JobSpec("b", "a", "batch", job("a").groups)
    assert [answer.status for answer in cell.jobs.submit([again], 2, "ada")] == ["new"]


def test_a_name_leads_to_its_newest_job_for_as_long_as_that_is_kept(make: Make) -> None:
    cell = make(keep_jobs=2).cell

    def named() -> tuple[dict[str, str], str | None, int]:
        return dict(cell.jobs.ids_by_name(["n", "nobody"])), cell.jobs.id_of("n"), cell.jobs.live_count()

    groups = job("x").groups
    for job_id in ("a", "b", "n"):
        (answer,) = cell.jobs.submit([JobSpec(job_id, "n", "batch", groups)], 0, "ada")
        assert (answer.status, named()) == ("new", ({"n": job_id}, job_id, 1))
        (taken,) = cell.jobs.submit([JobSpec("late", "n", "batch", groups)], 0, "ada")
        assert (taken.status, taken.holder) == ("name", job_id)
        cell.jobs.stop(job_id, 1, "ada")
        assert named() == ({"n": job_id}, None, 0)
    assert cell.jobs.get("a") is None
    assert cell.jobs.names() == {"n": "n"}, "its oldest job is gone, the newest keeps the name"
    cell.jobs.submit([job("other"), job("more")], 2, "ada")
    cell.jobs.stop("other", 3, "ada")
    assert named() == ({"n": "n"}, None, 1)
    cell.jobs.stop("more", 3, "ada")
    assert named() == ({}, None, 0)
    assert cell.jobs.names() == {"other": "other", "more": "more"}


def test_names_of_jobs_that_age_out_are_free_of_them(make: Make) -> None:
    cell = make(keep_ms=6_400).cell
    cell.jobs.submit([JobSpec("a", "n", "batch", job("x").groups), job("b")], 0, "ada")
    cell.jobs.stop("a", 0, "ada")
    assert cell.jobs.retire(5_000) == 0
    assert cell.jobs.retire(11_400) == 1
    assert cell.jobs.names() == {"b": "b"}


@pytest.mark.parametrize("need", [(1,), (1, 2, 3), (-1, 0), (10**14, 0)])
def test_amounts_a_job_cannot_have(cell: AnyCell, need: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="job a"):
        cell.jobs.submit([job("b"), job("a", need)], 0, "ada")
    assert cell.jobs.all() == []


def test_finished_jobs_are_kept_by_count(make: Make) -> None:
    cell = make(keep_jobs=3).cell
    names = [f"j{i}" for i in range(8)]
    cell.jobs.submit([job(name) for name in names], 0, "ada")
    for name in names[:6]:
        cell.jobs.stop(name, 1, "ada")
    assert [each.id for each in cell.jobs.all()] == ["j3", "j4", "j5", "j6", "j7"], "live ones are not counted"
    assert cell.jobs.get("j0") is None


def test_finished_jobs_are_kept_by_age(make: Make) -> None:
    """By the server's clock alone, whatever the clients' clocks show (semantics 30)."""
    cell = make(keep_ms=6_400).cell
    cell.jobs.submit([job(f"j{i}") for i in range(9)], 0, "ada")

    def kept() -> list[str]:
        return [each.id for each in cell.jobs.all()]

    day = 86_400_000
    for i, at in enumerate((5_000, 5_000 + 2 * day, 5_000 - 2 * day)):
        cell.jobs.stop(f"j{i}", at, "ada")
    assert len(kept()) == 9, "a client that is days ahead deletes nothing"
    assert cell.jobs.retire(5_000) == 0, "their age counts from now on"
    assert cell.jobs.retire(4_000) == 0
    cell.jobs.stop("j3", 0, "ada")
    assert cell.jobs.retire(5_050) == 0
    assert cell.jobs.retire(8_000) == 0
    assert cell.jobs.retire(11_399) == 0
    assert cell.jobs.retire(11_400, most=2) == 2
    assert cell.jobs.retire(7_000) == 0, "a clock that went back deletes nothing early"
    assert cell.jobs.retire(11_400) == 1
    assert kept() == ["j3", "j4", "j5", "j6", "j7", "j8"]
    assert cell.jobs.retire(14_400) == 1, "j3 ended before 8000"
    assert cell.jobs.retire(99_000) == 0, "live jobs stay"
    assert kept() == ["j4", "j5", "j6", "j7", "j8"]


def test_times_that_no_job_needs_are_forgotten(make: Make) -> None:
    cell = make(keep_ms=6_400).cell
    for i, now in enumerate((1_000, 2_000, 8_400)):
        cell.jobs.submit([job(f"j{i}")], 0, "ada")
        cell.jobs.retire(now)
    if isinstance(cell, RedisCell):
        kept = [int(each.split()[1]) for each in cell.client.lrange(cell.prefix + "times", 0, -1)]
    else:
        kept = [ms for _, ms in cell.times]
    assert kept == [2_000, 8_400], "what is as old as jobs become, and what is younger"
    assert verify(cell).ok


def test_tasks_evicted_in_any_order_wait_in_order(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=6)], 0, "ada")
    member.place("a", (0, 2), (1, 2), (0, 2))
    runs = kept(cell, "a").groups[0].runs
    last, first, middle = ((machine, run) for run, machine, _ in (runs[2], runs[0], runs[1]))
    endings = [TaskEnd(machine, run, EndKind.EVICTED, "*", "drain") for machine, run in (last, first)]
    assert cell.executors.end(endings, 1, "e0") == [2, 2]
    assert kept(cell, "a").groups[0].waiting == "0-1,4-5"
    assert member.place("a", (2, 3)).placed == 3
    assert kept(cell, "a").groups[0].waiting == "5"
    assert cell.executors.end([TaskEnd(*middle, EndKind.EVICTED, "*", "drain")], 2, "e0") == [2]
    assert kept(cell, "a").groups[0].waiting == "2-3,5"

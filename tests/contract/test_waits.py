"""Jobs that wait for other jobs: released, or stopped, by the call that ends what they wait for."""

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.memory.tasks import RELEASES
from omega.cellstate.model import After, JobSpec, JobState, MachineState, TaskGroup
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Verdict
from tests.contract.conftest import AnyCell, Member, job
from tests.contract.test_changes import arrivals
from tests.contract.test_jobs import kept

OK, ANY = False, True


def submit(cell: AnyCell, name: str, *waits: tuple[str, bool], held: bool = False) -> str:
    """Submit a job of two tasks; returns what became of it."""
    after = tuple(After(*wait) for wait in waits)
    answer = cell.jobs.submit([job(name, count=2, after=after)], 0, "ada", held=held)[0]
    return f"{answer.status} {answer.holder}".strip()


def end(cell: AnyCell, member: Member, name: str, how: EndKind = EndKind.FINISHED) -> None:
    """Place both tasks of a job and end them, one after the other."""
    assert member.place(name, (0, 2)).accepted
    placement = kept(cell, name).groups[0].runs[0][0]
    cell.executors.end([TaskEnd(0, placement, EndKind.FINISHED, "0")], 1, "e0")
    cell.executors.end([TaskEnd(0, placement, how, "1")], 1, "e0")


def states(cell: AnyCell) -> dict[str, str]:
    return {job.id: job.state.name.lower() for job in cell.jobs.all()}


def test_a_waiting_job_is_not_placed_and_is_released_by_the_end_of_the_other(cell: AnyCell, member: Member) -> None:
    submit(cell, "a")
    assert submit(cell, "b", ("a", OK)) == "new"
    assert (kept(cell, "b").state, kept(cell, "b").held, kept(cell, "b").after) == (JobState.HELD, False, (After("a"),))
    assert kept(cell, "a").awaited is True
    assert member.place("b", (0, 1)).claims == ((0, Verdict.UNKNOWN),)
    before = arrivals(cell)[-1][0]
    cell.schedulers.members()
    end(cell, member, "a")
    assert (kept(cell, "b").state, kept(cell, "b").after, kept(cell, "a").awaited) == (JobState.ACTIVE, (), False)
    assert arrivals(cell, before) == [(before + 1, "b")]
    assert cell.schedulers.wait_for_work("batch/0", 0.01)
    assert member.place("b", (0, 2)).accepted


@pytest.mark.parametrize(
    ("how", "outcome", "state"),
    [
        (EndKind.FINISHED, OK, "active"),
        (EndKind.FAILED, OK, "stopped"),
        (EndKind.FAILED, ANY, "active"),
        (EndKind.STOPPED, OK, "stopped"),
        (EndKind.STOPPED, ANY, "active"),
    ],
)
def test_how_the_other_ends_decides(cell: AnyCell, member: Member, how: EndKind, outcome: bool, state: str) -> None:
    submit(cell, "a")
    submit(cell, "b", ("a", outcome))
    end(cell, member, "a", how)
    assert states(cell)["b"] == state


@pytest.mark.parametrize(("outcome", "state"), [(OK, "stopped"), (ANY, "active")])
def test_a_job_that_is_stopped_has_ended_otherwise(cell: AnyCell, outcome: bool, state: str) -> None:
    submit(cell, "a")
    submit(cell, "b", ("a", outcome))
    cell.jobs.stop("a", 1, "ada")
    assert states(cell) == {"a": "stopped", "b": state}


def test_a_stopped_job_ends_with_its_last_task(cell: AnyCell, member: Member) -> None:
    submit(cell, "a")
    submit(cell, "b", ("a", ANY))
    member.place("a", (0, 1))
    cell.jobs.stop("a", 1, "ada")
    assert states(cell)["b"] == "held"
    cell.machines.set_state(0, MachineState.DOWN, 2, "ada")
    assert states(cell)["b"] == "active"


def test_what_can_never_come_true_stops_the_whole_chain_in_one_call(cell: AnyCell, member: Member) -> None:
    submit(cell, "a")
    for name, wait in (("b", ("a", OK)), ("c", ("b", OK)), ("d", ("c", ANY)), ("e", ("d", OK))):
        submit(cell, name, wait)
    version = cell.counters()["version"]
    cell.jobs.stop("a", 1, "ada")
    assert cell.counters()["version"] == version + 1
    assert states(cell) == {"a": "stopped", "b": "stopped", "c": "stopped", "d": "active", "e": "held"}
    assert kept(cell, "b").after == (After("a"),), "it keeps saying why"
    assert cell.jobs.id_of("b") is None
    assert ("stop", "b", "2", "after:a") in {fact.event for fact in cell.log.facts(version)}
    end(cell, member, "d")
    assert states(cell)["e"] == "active"


def test_a_job_may_wait_for_several(cell: AnyCell, member: Member) -> None:
    for name in "abc":
        submit(cell, name)
    submit(cell, "z", ("a", OK), ("b", ANY), ("c", OK))
    end(cell, member, "b", EndKind.FAILED)
    end(cell, member, "a")
    assert kept(cell, "z").after == (After("c"),)
    assert states(cell)["z"] == "held"
    end(cell, member, "c")
    assert states(cell)["z"] == "active"


def test_two_that_end_in_one_call(cell: AnyCell, member: Member) -> None:
    for name in "ab":
        submit(cell, name)
        member.place(name, (0, 2))
    submit(cell, "z", ("a", OK), ("b", OK))
    submit(cell, "y", ("z", ANY))
    endings = [TaskEnd(0, 1, EndKind.FINISHED), TaskEnd(0, 2, EndKind.FAILED)]
    cell.executors.end(endings, 1, "e0")
    assert states(cell) == {"a": "done", "b": "done", "z": "stopped", "y": "active"}


def test_a_person_may_hold_a_job_that_waits(cell: AnyCell, member: Member) -> None:
    submit(cell, "a")
    submit(cell, "b", ("a", OK), held=True)
    end(cell, member, "a")
    assert (states(cell)["b"], kept(cell, "b").held, kept(cell, "b").after) == ("held", True, ())
    cell.jobs.release("b", 2, "ada")
    assert states(cell)["b"] == "active"


def test_release_by_a_person_does_not_end_the_wait(cell: AnyCell) -> None:
    submit(cell, "a")
    submit(cell, "b", ("a", OK), held=True)
    assert cell.jobs.release("b", 1, "ada").state is JobState.HELD
    assert kept(cell, "b").after == (After("a"),)


def test_a_waiting_job_may_be_stopped(cell: AnyCell, member: Member) -> None:
    submit(cell, "a")
    submit(cell, "b", ("a", OK))
    cell.jobs.stop("b", 1, "ada")
    end(cell, member, "a")
    assert states(cell) == {"a": "done", "b": "stopped"}


def test_what_is_true_already_is_not_waited_for(cell: AnyCell, member: Member) -> None:
    submit(cell, "a")
    end(cell, member, "a")
    submit(cell, "f")
    end(cell, member, "f", EndKind.FAILED)
    assert submit(cell, "b", ("a", OK), ("f", ANY)) == "new"
    assert states(cell)["b"] == "active"


def test_what_did_not_finish_stops_a_later_job_as_an_earlier_one(cell: AnyCell, member: Member) -> None:
    submit(cell, "f")
    end(cell, member, "f", EndKind.FAILED)
    submit(cell, "s")
    member.place("s", (1, 2))
    cell.jobs.stop("s", 1, "ada")
    assert submit(cell, "b", ("f", OK)) == submit(cell, "c", ("s", OK)) == submit(cell, "d", ("b", ANY)) == "new"
    assert submit(cell, "e", ("s", ANY)) == "new"
    assert [states(cell)[name] for name in "bcde"] == ["held"] * 4
    assert sorted(cell.jobs.chores()) == ["f", "s"]
    version = cell.counters()["version"]
    while cell.jobs.housekeep(2, "batch/0").more:
        pass
    assert [states(cell).get(name, "stopped") for name in "bcd"] == ["stopped", "stopped", "active"]
    assert {("stop", "b", "2", "after:f"), ("stop", "c", "2", "after:s")} <= {f.event for f in cell.log.facts(version)}
    assert (states(cell)["e"], list(cell.jobs.chores())) == ("active", [])


def test_a_job_that_is_not_there_cannot_be_waited_for(cell: AnyCell) -> None:
    version = cell.counters()["version"]
    assert submit(cell, "b", ("absent", ANY)) == "after absent"
    assert submit(cell, "b", ("b", ANY)) == "after b"
    assert cell.counters()["version"] == version


def test_jobs_of_one_call_may_wait_for_earlier_ones_only(cell: AnyCell) -> None:
    chain = [job("a"), job("b", after=(After("a"),)), job("c", after=(After("b"), After("a")))]
    assert [answer.status for answer in cell.jobs.submit(chain, 0, "ada")] == ["new"] * 3
    assert [kept(cell, name).awaited for name in "abc"] == [True, True, False]
    assert [kept(cell, name).after for name in "bc"] == [(After("a"),), (After("b"), After("a"))]
    circle = [job("x", after=(After("y"),)), job("y", after=(After("x"),))]
    assert [answer.status for answer in cell.jobs.submit(circle, 0, "ada")] == ["after", "after"]


def test_the_same_again_is_the_same(cell: AnyCell) -> None:
    submit(cell, "a")
    assert [submit(cell, "b", ("a", OK)) for _ in range(2)] == ["new", "same"]
    assert kept(cell, "a").awaited is True


def test_optional_tasks_that_are_dropped_do_not_count(cell: AnyCell, member: Member) -> None:
    groups = (TaskGroup((1, 1), 1), TaskGroup((1, 1), 1, optional=True))
    cell.jobs.submit([JobSpec("a", "a", "batch", groups)], 0, "ada")
    submit(cell, "b", ("a", OK))
    member.place("a", (0, 1))
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 1, "e0")
    cell.jobs.resize("a", {1: 0}, 2, "ada")
    assert states(cell) == {"a": "done", "b": "active"}


def test_waits_are_named_by_ids(cell: AnyCell) -> None:
    with pytest.raises(BadInput, match="waits for at most 1000 jobs, named by their ids"):
        job("a", after=(After("no id"),))


@pytest.mark.parametrize(("wait", "then"), [(OK, "stopped"), (ANY, "active")])
def test_jobs_that_many_wait_for_release_them_in_steps(cell: AnyCell, wait: bool, then: str) -> None:
    submit(cell, "a")
    waiting = [job(f"w{i:03}", after=(After("a", wait),)) for i in range(RELEASES + 30)]
    chain = [job("x", after=(After("w000", ANY), After(waiting[-1].id, ANY)))]
    cell.jobs.submit([*waiting, *chain], 0, "ada")
    cell.jobs.stop("w001", 1, "ada")
    version = cell.counters()["version"]
    cell.jobs.stop("a", 1, "ada")
    known = states(cell)  # few ended jobs are kept, also the one with jobs to release
    assert [known.get(each.id, "stopped") for each in waiting[2 : RELEASES + 1]] == [then] * (RELEASES - 1)
    assert {known[each.id] for each in waiting[RELEASES + 1 :]} == {"held"}
    assert (kept(cell, "a").awaited, [*cell.jobs.chores()]) == (True, ["a", "w000"] if wait is OK else ["a"])
    assert submit(cell, "late", ("a", ANY)) == "new"
    assert states(cell)["late"] == "active"
    assert not cell.jobs.housekeep(2, "batch/0").more
    assert (kept(cell, "a").awaited, [*cell.jobs.chores()]) == (False, [])
    assert cell.counters()["version"] == version + 3
    ended = states(cell)
    assert {ended.get(each.id, "stopped") for each in waiting[2:]} == {then}
    assert ended["x"] == ("active" if wait is OK else "held")
    assert not cell.jobs.housekeep(3, "batch/0").more
    assert cell.counters()["version"] == version + 3, "nothing is left to release"


def test_what_waits_for_a_job_that_ended_badly_is_stopped_though_a_task_leaves_meanwhile(
    cell: AnyCell, member: Member
) -> None:
    """The process of an evicted task ends after another job has come; neither it nor a lost task is placed again."""
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 2, 0, once=True),))], 0, "ada")
    assert member.place("a", (0, 2)).accepted
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "0", "drain"), TaskEnd(0, 1, EndKind.LOST, "1")], 1, "e0")
    assert submit(cell, "b", ("a", OK)) == "new"
    assert states(cell) == {"a": "done", "b": "held"}
    assert cell.executors.end([TaskEnd(0, 1, EndKind.LEFT, "0")], 3, "e0") == [1]
    cell.jobs.housekeep(4, "batch/0")
    assert states(cell) == {"a": "done", "b": "stopped"}

"""Stopping and abandoning are states of the store: housekeeping ends what still runs (semantics 24)."""

from omega.cellstate.model import Job, JobState, MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Housekept
from omega.cellstate.tasks import EndKind, TaskEnd
from tests.contract.conftest import AnyCell, Make, Member, Stand, job


def kept(cell: AnyCell, job_id: str = "a") -> Job:
    found = cell.jobs.get(job_id)
    assert found is not None
    return found


def counts(cell: AnyCell, job_id: str = "a") -> tuple[int, int]:
    group = kept(cell, job_id).groups[0]
    return group.placed, group.stopped


def running(cell: AnyCell, member: Member, job_id: str = "a") -> None:
    """A job of seven tasks, three runs of which are placed."""
    cell.jobs.submit([job(job_id, count=7)], 0, "ada")
    for machine in range(3):
        member.place(job_id, (machine, 2))


def test_tasks_of_a_stopped_job_end_whoever_asked_and_died(stand: Stand, cell: AnyCell, member: Member) -> None:
    running(cell, member)
    cell.jobs.stop("a", 1, "ada")
    assert counts(cell) == (6, 1), "who asked has died since"
    assert cell.jobs.chores() == {"a": 0}
    other = stand.other()
    assert other.jobs.housekeep(2, "batch/1", most=2) == Housekept(4, 0, more=True), "bounded"
    assert counts(cell) == (2, 5)
    assert cell.jobs.housekeep(3, "batch/0", most=2) == Housekept(2, 0, more=False)
    assert (counts(cell), cell.jobs.chores()) == ((0, 7), {})
    assert all(run.leaving for run in cell.machines.runs([0, 1, 2]))
    version = cell.counters()["version"]
    assert other.jobs.housekeep(4, "batch/1") == Housekept(0, 0, more=False), "done once"
    assert cell.counters()["version"] == version
    assert [fact.event[0] for fact in cell.log.facts()][-2:] == ["stopped", "done"]


def test_tasks_of_an_abandoned_job_end_unless_they_are_to_run_on(cell: AnyCell, member: Member) -> None:
    for job_id in ("a", "b"):
        cell.jobs.submit([job(job_id, count=2)], 0, "ada")
        member.place(job_id, (0, 1))
    cell.jobs.stop("a", 1, "batch/0", JobState.ABANDONED)
    cell.jobs.stop("b", 1, "batch/0", JobState.ABANDONED, keep=True)
    assert cell.jobs.housekeep(2, "batch/0") == Housekept(1, 0, more=False)
    assert (counts(cell, "a"), counts(cell, "b")) == ((0, 2), (1, 1))
    cell.jobs.stop("b", 3, "batch/0", JobState.ABANDONED)
    assert cell.jobs.chores() == {}, "abandoned already"


def test_a_person_stops_what_an_abandoned_job_kept(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 1))
    cell.jobs.stop("a", 1, "batch/0", JobState.ABANDONED, keep=True)
    stopped = cell.jobs.stop("a", 2, "ada")
    assert (stopped.state, stopped.modified) == (JobState.STOPPED, cell.counters()["version"])
    assert cell.jobs.stop("a", 3, "ada").modified == stopped.modified, "once"
    assert cell.jobs.housekeep(4, "batch/0") == Housekept(1, 0, more=False)


def test_what_ends_by_itself_leaves_nothing_to_do(cell: AnyCell, member: Member) -> None:
    running(cell, member)
    cell.jobs.stop("a", 1, "ada")
    runs = cell.machines.runs([0, 1, 2])
    cell.executors.end([TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in runs], 2, "e0")
    assert cell.jobs.chores() == {}
    assert cell.jobs.housekeep(3, "batch/0") == Housekept(0, 0, more=False)


def test_entries_without_anything_to_do_are_removed(make: Make) -> None:
    cell = make().cell
    cell.machines.join("e0", [MachineSpec("m0", (4, 8))], 0)
    cell.jobs.submit([job("a", count=2), job("b")], 0, "ada")
    Member(cell).place("a", (0, 1))
    cell.jobs.stop("b", 1, "ada")
    if isinstance(cell, RedisCell):
        cell.client.zadd(cell.prefix + "housekeeping", dict.fromkeys(("a", "b", "gone"), 0))
    cell.jobs.housekeep(2, "batch/0")
    assert cell.jobs.chores() == {}


def test_an_attempt_that_is_noted_after_a_placement_is_no_event(cell: AnyCell, member: Member) -> None:
    """Otherwise the log says "placed nothing of a" after the placement of all its tasks."""
    cell.jobs.submit([job("a"), job("b", count=2)], 0, "ada")
    member.place("a", (0, 1))
    member.place("b", (0, 1))
    version = cell.counters()["version"]
    assert cell.jobs.note_attempts(["a", "b"], 2, "batch/0") == 0
    assert cell.counters()["version"] == version


def test_a_job_that_was_tried_in_vain_has_begun(cell: AnyCell, member: Member) -> None:
    del member
    cell.jobs.submit([job("a"), job("b"), job("c")], 0, "ada")
    cell.jobs.stop("c", 1, "ada")
    assert cell.jobs.note_attempts(["a", "c", "gone", "a"], 2, "batch/0") == 1
    version = cell.counters()["version"]
    assert cell.jobs.note_attempts(["a"], 3, "batch/0") == 0, "it is known"
    cell.jobs.hold("a", 3, "ada")
    cell.jobs.release("a", 4, "ada")
    assert [kept(cell, name).begun for name in "abc"] == [True, False, False]
    assert [fact.event for fact in cell.log.facts() if fact.version == version] == [("attempt", "a")]


def test_a_job_that_was_placed_and_evicted_has_begun(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2), job("b")], 0, "ada")
    member.place("a", (0, 2))
    assert not kept(cell).begun
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "*", "drain")], 1, "e0")
    cell.jobs.hold("a", 2, "ada")
    cell.jobs.release("a", 3, "ada")
    assert (kept(cell).begun, kept(cell).groups[0].unplaced) == (True, 2)
    assert kept(cell).modified == cell.counters()["version"]
    assert not kept(cell, "b").begun

"""Copies of slow tasks (semantics 41): what ends a task or its copy ends or promotes the other in the same call."""

import pytest

from omega.cellstate.digest.step import digest
from omega.cellstate.errors import BadInput, Overtaken, Refused
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, Job, JobSpec, JobState, MachineState, TaskGroup
from omega.cellstate.pages import own_groups
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.replies import Budget, Original
from omega.cellstate.tasks import EndKind, Retried, TaskEnd, TaskProgress, unpack_progress
from omega.cellstate.transaction import Claim, Outcome, Transaction, Verdict
from omega.cellstate.verify import verify
from omega.cli.job.why import counted
from omega.live.task_log import TaskLog
from omega.queries.event_list import listed_json
from omega.queries.event_text import sentences
from omega.queries.events import UNREADABLE, events as read_events
from omega.queries.explanations import Explained, explain_job
from omega.queries.job_state import counts as counts_of_job, group_names, state
from omega.queries.names import Names
from omega.queries.task_results import job_tasks
from tests.contract.conftest import AnyCell, Member, RedisStand, job, requeue_lost

MANY = Budget(10, 10)
FINISHED, FAILED, LOST, EVICTED, STOPPED = (
    EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.EVICTED, EndKind.STOPPED
)  # fmt: skip


def spec(name: str = "a", count: int = 2, **words: object) -> JobSpec:
    groups = TaskGroup((1, 1), count), TaskGroup((1, 1), 0, copies=True)
    return JobSpec(name, name, "batch", groups, **words)  # type: ignore[arg-type]


def copy_to(member: Member, machine: int, count: int = 1, **words: object) -> Outcome:
    return member.transact(Transaction("a", (Claim(machine, 1, count, **words),)))[0]  # type: ignore[arg-type]


@pytest.fixture
def copied(cell: AnyCell, member: Member) -> AnyCell:
    """Tasks 0 and 1 of job a run as placements 1 and 2 on m0, a copy of task 1 as placement 3 on m2."""
    cell.jobs.submit([spec()], 0, "ada")
    assert member.place("a", (0, 1), (0, 1)).accepted
    assert len(cell.jobs.speculate("a", [Original(0, 2, 1)], MANY, 1, "batch/0")) == 1
    assert copy_to(member, 2).accepted
    return cell


def kept(cell: AnyCell) -> Job:
    found = cell.jobs.get("a")
    assert found is not None
    return found


def counts(cell: AnyCell) -> list[tuple[int, ...]]:
    return [(g.total, g.unplaced, g.placed, g.finished, g.failed, g.stopped) for g in kept(cell).groups]


def running(cell: AnyCell) -> list[tuple[int, int, int, str, bool]]:
    runs = cell.machines.runs([0, 1, 2])
    return sorted((run.placement, run.machine, run.group, run.tasks, run.leaving) for run in runs)


def sound(cell: AnyCell) -> None:
    """The audit finds nothing, nothing is demanded, and the records of the log agree with the jobs."""
    while digest(cell, 10_000_000):
        pass
    report = verify(cell)
    assert not report.violations, report.violations


def end(cell: AnyCell, *ends: tuple[int, int, EndKind]) -> list[int]:
    return cell.executors.end(
        [TaskEnd(machine, placement, how, "*", "drain") for machine, placement, how in ends], 2, "e0"
    )


ORIGINAL, COPY = (0, 2), (2, 3)
LEFT_ORIGINAL, LEFT_COPY = (2, 0, 0, "1", True), (3, 2, 1, "1", True)
AS_ORIGINAL = (3, 2, 0, "1", False)
STILL = (2, 0, 0, "1", False)
ENDINGS = {
    # the end of one of the two: what of task 1 is on machines then, and the counts of the group
    "the original finishes": (ORIGINAL, FINISHED, [LEFT_COPY], (2, 0, 1, 1, 0, 0)),
    "the copy finishes": (COPY, FINISHED, [LEFT_ORIGINAL], (2, 0, 1, 1, 0, 0)),
    "the original is lost": (ORIGINAL, LOST, [AS_ORIGINAL], (2, 0, 2, 0, 0, 0)),
    "the original fails": (ORIGINAL, FAILED, [AS_ORIGINAL], (2, 0, 2, 0, 0, 0)),
    "the original is retried": (ORIGINAL, EndKind.RETRIED, [AS_ORIGINAL], (2, 0, 2, 0, 0, 0)),
    "the original is evicted": (ORIGINAL, EVICTED, [LEFT_ORIGINAL, AS_ORIGINAL], (2, 0, 2, 0, 0, 0)),
    "the original is stopped": (ORIGINAL, STOPPED, [LEFT_ORIGINAL, LEFT_COPY], (2, 0, 1, 0, 0, 1)),
    "the copy is lost": (COPY, LOST, [STILL], (2, 0, 2, 0, 0, 0)),
    "the copy fails": (COPY, FAILED, [STILL], (2, 0, 2, 0, 0, 0)),
    "the copy is evicted": (COPY, EVICTED, [STILL, LEFT_COPY], (2, 0, 2, 0, 0, 0)),
    "the copy is stopped": (COPY, STOPPED, [STILL, LEFT_COPY], (2, 0, 2, 0, 0, 0)),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_one_end_ends_or_promotes_the_other(copied: AnyCell, case: str) -> None:
    where, how, left, of_group = ENDINGS[case]
    assert end(copied, (*where, how)) == [1]
    assert running(copied) == sorted([(1, 0, 0, "0", False), *left])
    assert counts(copied) == [of_group, (0, 0, 0, 0, 0, 0)]
    assert (kept(copied).pending, kept(copied).groups[1].losses) == (False, ())
    assert copied.machines.all()[2].allocated == ((1, 1) if AS_ORIGINAL in left else (0, 0))
    assert end(copied, (*where, how)) == [0], "a repeated call changes nothing"
    sound(copied)


@pytest.mark.parametrize("first", [ORIGINAL, COPY])
def test_both_finish_at_once_and_one_counts(copied: AnyCell, first: tuple[int, int]) -> None:
    second = COPY if first == ORIGINAL else ORIGINAL
    assert end(copied, (*first, FINISHED), (*second, FINISHED), (0, 1, FINISHED)) == [1, 0, 1]
    assert counts(copied) == [(2, 0, 0, 2, 0, 0), (0, 0, 0, 0, 0, 0)]
    assert kept(copied).state is JobState.DONE
    outrun = [fact.event for fact in copied.log.facts() if fact.event[0] == "stopped"]
    assert [(words[1], words[-1]) for words in outrun] == [(str(second[1]), "outrun")]
    assert [m.allocated for m in copied.machines.all()] == [(0, 0)] * 3
    assert copied.sums().wanted == copied.sums().held == (0, 0)
    sound(copied)
    assert copied.executors.end([TaskEnd(second[0], second[1], EndKind.LEFT)], 3, "e0") == [1]
    assert running(copied) == []
    sound(copied)


def test_a_lost_end_of_the_winner_is_sent_again(copied: AnyCell) -> None:
    assert end(copied, (*COPY, FINISHED)) == [1]
    assert end(copied, (*COPY, FINISHED)) == [0]
    assert end(copied, (*ORIGINAL, FINISHED)) == [0], "it is leaving: it was outrun"
    assert counts(copied)[0] == (2, 0, 1, 1, 0, 0)
    late = [TaskEnd(0, 2, FINISHED, "*", "", "a")]
    assert copied.executors.end(late, 4, "e0") == [0]


def test_a_late_end_of_a_lost_original_has_no_effect_while_its_copy_runs(copied: AnyCell) -> None:
    end(copied, (*ORIGINAL, LOST))
    assert copied.executors.end([TaskEnd(0, 2, FINISHED, "*", "", "a")], 4, "e0") == [0]
    assert end(copied, (*COPY, FINISHED)) == [1]
    assert counts(copied)[0] == (2, 0, 1, 1, 0, 0)
    sound(copied)


def test_machines_that_go_down_with_a_copy_or_an_original(copied: AnyCell) -> None:
    copied.machines.set_state(2, MachineState.DOWN, 5, "ada")
    assert counts(copied) == [(2, 0, 2, 0, 0, 0), (0, 0, 0, 0, 0, 0)]
    assert running(copied) == [(1, 0, 0, "0", False), STILL, LEFT_COPY]
    sound(copied)


def test_an_original_on_a_machine_that_goes_down_is_not_requeued(copied: AnyCell) -> None:
    copied.machines.set_state(0, MachineState.DOWN, 5, "ada")
    assert counts(copied)[0] == (2, 1, 1, 0, 0, 0), "task 0 has no copy"
    assert AS_ORIGINAL in running(copied)
    sound(copied)


def test_an_executor_that_ends_loses_both_and_each_task_is_requeued_once(copied: AnyCell, member: Member) -> None:
    copied.executors.deregister(copied.executors.register("e0", "n", 600_000, 0), 5, "e0", reaped=False)
    assert counts(copied) == [(2, 2, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0)]
    sound(copied)


@pytest.mark.parametrize("placed", [True, False])
def test_stopping_and_shrinking_a_job_ends_its_copies(copied: AnyCell, member: Member, placed: bool) -> None:
    if not placed:
        assert len(copied.jobs.speculate("a", [Original(0, 1, 0)], MANY, 1, "batch/0")) == 1
    copied.jobs.resize("a", {0: 1}, 3, "ada")
    assert counts(copied)[1][:3] == ((0, 0, 0) if placed else (1, 1, 0)), "task 1 and its copy are stopped"
    sound(copied)
    copied.jobs.stop("a", 4, "ada")
    assert kept(copied).groups[1].total == 0
    copied.jobs.housekeep(5, "batch/0")
    assert counts(copied) == [(1, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0)]
    sound(copied)
    with pytest.raises(Refused):
        copied.jobs.resize("a", {1: 1}, 3, "ada")


def test_a_stopped_job_ends_both_in_any_order(copied: AnyCell) -> None:
    copied.jobs.stop("a", 4, "ada", JobState.ABANDONED, keep=True)
    assert end(copied, (*COPY, FINISHED)) == [1]
    assert counts(copied) == [(2, 0, 1, 1, 0, 0), (0, 0, 0, 0, 0, 0)]
    sound(copied)


def test_what_a_copy_takes_and_what_it_does_not(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([spec(count=3), job("low")], 0, "ada")
    member.place("a", (0, 1), (0, 1), (1, 1))
    sums = cell.sums()
    asked = [Original(0, 2, 1), Original(0, 2, 1), Original(1, 3, 2), Original(1, 3, 1), Original(2, 9, 0)]
    assert len(cell.jobs.speculate("a", asked, MANY, 1, "batch/0")) == 2, "those that run so, once each"
    assert len(cell.jobs.speculate("a", asked, MANY, 1, "batch/0")) == 0
    after = cell.sums()
    assert (after.wanted, after.held, after.tasks) == (sums.wanted, sums.held, sums.tasks), "no demand"
    assert copy_to(member, 0).claims == ((0, Verdict.FULL),), "the original runs there"
    assert copy_to(member, 1, 2).claims == ((1, Verdict.FULL),), "that of the second does"
    assert copy_to(member, 2, evict=((1, 1),)).claims == ((0, Verdict.PRECEDENCE),), "a copy evicts nothing"
    assert copy_to(member, 2).accepted
    placed = cell.sums()
    assert (placed.held, placed.tasks) == ((5, 5), sums.tasks), "copies hold room, and are not counted as tasks"
    assert [head.counts.placed for head in cell.jobs.heads() if head.id == "a"] == [3]
    sound(cell)


def test_copies_are_placed_task_by_task(cell: AnyCell, member: Member) -> None:
    """Originals 0, 1 and 2 are on m0, m1 and m2: a claim places the copies before the first that is beside its own."""
    cell.jobs.submit([spec(count=3)], 0, "ada")
    member.place("a", (0, 1), (1, 1), (2, 1))
    assert len(cell.jobs.speculate("a", [Original(n, n + 1, n) for n in range(3)], MANY, 1, "batch/0")) == 3
    assert copy_to(member, 0, 3).claims == ((0, Verdict.FULL),)
    assert copy_to(member, 2, 3).claims == ((2, Verdict.FULL),)
    assert copy_to(member, 2, 1).claims == ((0, Verdict.FULL),)
    assert copy_to(member, 0, 3).claims == ((1, Verdict.DUPLICATE),)
    sound(cell)


def test_the_requests_that_were_taken_are_returned(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([spec(count=3)], 0, "ada")
    member.place("a", (0, 1), (0, 1), (1, 1))
    gone, taken, late = Original(2, 9, 0), Original(1, 3, 2), Original(0, 1, 0)
    assert cell.jobs.speculate("a", [gone, taken, taken, late], Budget(1, 9), 1, "batch/0") == [taken]
    assert cell.jobs.speculate("a", [taken, gone, late], MANY, 1, "batch/0") == [late]


def test_a_pool_counts_copies_also_after_it_was_changed(cell: AnyCell, member: Member) -> None:
    """A limit of three tasks: two and a copy; then the pool's weight changes, and the copy ends."""
    pools = cell.pools.set(Pools((Pool("p", limits={"tasks": 3}),)), None, 0, "ada")
    cell.jobs.submit([spec(spec={"pool": "p"}), job("more", count=5, spec={"pool": "p"})], 0, "ada")
    member.place("a", (0, 1), (0, 1))
    cell.jobs.speculate("a", [Original(0, 2, 1)], MANY, 1, "batch/0")
    assert copy_to(member, 2).accepted
    before = cell.pools.use()
    assert before["p"].tasks == 3
    cell.pools.set(Pools((Pool("p", limits={"tasks": 3}, weight=2),)), pools.version, 1, "ada")
    assert cell.pools.use() == before
    assert cell.sums().tasks.placed == 2
    sound(cell)
    end(cell, (*COPY, FAILED))
    assert cell.pools.use()["p"].tasks == 2
    assert member.place("more", (1, 2)).claims == ((1, Verdict.LIMIT),)
    sound(cell)


def test_a_held_job_of_which_only_a_copy_waits_is_not_counted_as_held(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([spec()], 0, "ada")
    member.place("a", (0, 2))
    cell.jobs.speculate("a", [Original(0, 1, 0)], MANY, 1, "batch/0")
    cell.jobs.hold("a", 2, "ada")
    assert cell.sums().jobs["held"] == 0
    sound(cell)
    cell.jobs.release("a", 3, "ada")
    sound(cell)


def test_a_task_whose_copy_was_lost_gets_another(copied: AnyCell) -> None:
    assert end(copied, (*COPY, LOST)) == [1]
    assert len(copied.jobs.speculate("a", [Original(0, 2, 1)], MANY, 1, "batch/0")) == 1
    sound(copied)


@pytest.mark.parametrize("how", [LOST, EndKind.RETRIED])
def test_copies_of_several_tasks_of_one_run_are_lost_after_them(cell: AnyCell, member: Member, how: EndKind) -> None:
    """The audit said: task 0 of group 0 was lost 1 times, by the log from 2 to 2 times."""
    cell.jobs.submit([spec(count=3)], 0, "ada")
    assert member.place("a", (0, 3)).accepted
    asked = [Original(0, 1, task) for task in range(3)]
    assert len(cell.jobs.speculate("a", asked, Budget(9, 9), 1, "batch/0")) == 3
    for machine in (1, 2):
        assert copy_to(member, machine).accepted
    end(cell, (0, 1, how))
    sound(cell)
    end(cell, (1, 2, LOST), (2, 3, LOST))
    sound(cell)


def test_the_budgets_of_job_and_cell(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([spec(count=4), spec("b", 1)], 0, "ada")
    member.place("a", (0, 1), (0, 1), (0, 1), (0, 1))
    member.place("b", (1, 1))
    asked = [Original(0, n, n - 1) for n in (1, 2, 3, 4)]
    assert len(cell.jobs.speculate("a", asked, Budget(2, 9), 1, "batch/0")) == 2
    assert len(cell.jobs.speculate("a", asked, Budget(9, 3), 1, "batch/0")) == 1
    assert len(cell.jobs.speculate("b", [Original(1, 5, 0)], Budget(9, 3), 1, "batch/0")) == 0, (
        "those of all jobs count"
    )
    end(cell, (0, 1, FINISHED))
    assert len(cell.jobs.speculate("b", [Original(1, 5, 0)], Budget(9, 3), 1, "batch/0")) == 1, (
        "a copy that waited is gone"
    )
    sound(cell)


def test_copies_are_victims_of_any_precedence(copied: AnyCell) -> None:
    copied.jobs.submit([JobSpec("high", "high", "batch", (TaskGroup((4, 8), 1),), 1)], 0, "ada")
    other = Member(copied, "batch/1")
    outcome = other.transact(Transaction("high", (Claim(2, 0, 1, evict=((3, 1),)),)))[0]
    assert outcome.accepted
    assert running(copied)[:2] == [(1, 0, 0, "0", False), STILL]
    assert counts(copied)[1] == (0, 0, 0, 0, 0, 0)
    sound(copied)


def test_gangs_and_at_most_once_tasks_are_refused(cell: AnyCell) -> None:
    with pytest.raises(BadInput, match="gang"):
        spec(gang=Gang.YES)
    for first in (TaskGroup((1, 1), 1, once=True), TaskGroup((2, 1), 1), TaskGroup((1, 1), 1, optional=True)):
        with pytest.raises(BadInput, match="copies"):
            JobSpec("a", "a", "batch", (first, TaskGroup((1, 1), 0, copies=True)))
    with pytest.raises(BadInput, match="begins empty"):
        TaskGroup((1, 1), 1, copies=True)


def test_many_copies_end_with_the_tasks_of_one_run(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([spec(count=4)], 0, "ada")
    member.place("a", (0, 4))
    assert len(cell.jobs.speculate("a", [Original(0, 1, n) for n in (3, 1, 0)], MANY, 1, "batch/0")) == 3
    assert copy_to(member, 1, 2).accepted, "tasks 0 and 1, a run each; the copy of 3 waits"
    assert end(cell, (0, 1, EVICTED)) == [4]
    assert counts(cell) == [(4, 2, 2, 0, 0, 0), (0, 0, 0, 0, 0, 0)]
    assert kept(cell).groups[0].waiting == "2-3"
    assert [run for run in running(cell) if not run[4]] == [(2, 1, 0, "0", False), (3, 1, 0, "1", False)]
    sound(cell)


def test_views_mark_copies_and_do_not_count_them(copied: AnyCell) -> None:
    job = kept(copied)
    assert (counts_of_job(own_groups(job))["total"], state(job)) == (2, "running")
    assert group_names(job) == ["0", "0 (copies)"]
    assert [each["task_name"] for each in job_tasks(copied, job).as_json({}, None, 0)] == ["0[0-1]", "0 (copies)[1]"]
    assert [(row.group, row.tasks, row.state) for row in job_tasks(copied, job).rows] == [
        (0, "0-1", "running"),
        (1, "1", "running"),
    ]
    end(copied, (*COPY, FINISHED))
    rows = job_tasks(copied, kept(copied)).rows
    assert [(row.group, row.tasks, row.state, row.machine) for row in rows] == [
        (0, "0", "running", 0),
        (0, "1", "finished", 2),
    ]
    said = [
        event for event in read_events(copied, 0, 99) if event.kind in ("speculate", "promote", "stopped", UNREADABLE)
    ]
    assert [(each.kind, each.more.get("reason") or each.more.get("how")) for each in said] == [
        ("speculate", None),
        ("stopped", "outrun"),
        ("promote", "stopped"),
    ]
    said += [event for event in read_events(copied, 0, 99) if event.kind == "place" and event.more["group"]]
    text = " ".join(line for _, line in sentences(said, Names(copied)))
    assert text == (
        "1 task of a (a) to be copied 1 task of a (a) stopped on m0: outrun · 1 task of a (a) goes on as its copy;"
        " first run: stopped placed the copy of 1 task of a (a) on m2"
    )
    assert [each.get("copies") for each in listed_json(copied, said)] == [None, None, None, True]


def test_the_end_of_a_copy_is_one_sentence(copied: AnyCell) -> None:
    end(copied, (*COPY, FAILED))
    assert {fact.event[0] for fact in copied.log.facts()} >= {"drop", "failed"}
    said = [event for event in read_events(copied, 0, 99) if event.kind in ("drop", "failed")]
    assert [line for _, line in sentences(said, Names(copied))] == ["the copy of 1 task of a (a) failed on m2: drain"]


def test_an_explanation_counts_copies_apart_and_leaves_out_the_machine_of_the_task(
    cell: AnyCell, member: Member
) -> None:
    cell.jobs.submit([spec(count=1)], 0, "ada")
    member.place("a", (0, 1))
    for machine in (1, 2):
        cell.machines.set_state(machine, MachineState.DRAINED, 1, "ada")
    assert len(cell.jobs.speculate("a", [Original(0, 1, 0)], MANY, 1, "batch/0")) == 1
    said = explain_job(cell, kept(cell))
    assert (said["unplaced"], said["total"], said["reason"]) == (0, 1, "SPREAD")
    (part,) = said["groups"]
    assert (part["name"], part["unplaced"], part["fits"]) == ("0 (copies)", 1, 0)
    last = part["steps"][-1]
    assert (last["what"], last["machines"], last["remaining"]) == ("another machine than its task", ["m0"], 0)
    assert counted(Explained.of(cell, kept(cell))) == "a is running: 0 of 1 task unplaced, 1 copy waiting"
    cell.machines.set_state(1, MachineState.UP, 1, "ada")
    assert [part["fits"] for part in explain_job(cell, kept(cell))["groups"]] == [1]


OUTPUTS = {
    # ends, in order; whose output of task 1 is shown
    "both run": ((), "original"),
    "the original finishes": (((*ORIGINAL, FINISHED),), "original"),
    "the copy finishes": (((*COPY, FINISHED),), "copy"),
    "the copy continues": (((*ORIGINAL, LOST),), "copy"),
    "the copy is lost too, and the task pending": (((*ORIGINAL, LOST), (*COPY, LOST)), "copy"),
    "the task is placed again": (((*ORIGINAL, LOST), (*COPY, LOST), None), "original"),
}


@pytest.mark.parametrize("digested", [False, True])
@pytest.mark.parametrize("case", OUTPUTS)
def test_the_output_of_a_task_is_that_of_the_run_that_counts(
    copied: AnyCell, server: RedisStand, member: Member, case: str, digested: bool
) -> None:
    ends, shown = OUTPUTS[case]
    copied.tasks.keep_tails({("a", 0, 1, "stdout"): b"original", ("a", 1, 1, "stdout"): b"copy"})
    for step in ends:
        if step is None:
            assert requeue_lost(copied) == 1
            member.at_ms = 9
            assert member.place("a", (1, 1)).accepted
        else:
            end(copied, step)
        if digested:
            sound(copied)
    assert TaskLog(server.cell, kept(copied), 0, 1, "stdout", silent=None).as_json()["text"] == shown


def test_jobs_that_may_have_copies_are_listed_until_their_end(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([spec(), job("b"), JobSpec("c", "c", "mine", spec().groups)], 0, "ada")
    assert (cell.jobs.copied("batch"), cell.jobs.copied("mine")) == (["a"], ["c"])
    assert member.place("a", (0, 2)).accepted
    assert len(cell.jobs.speculate("a", [], MANY, 1, "batch/0")) == 0
    assert cell.jobs.copied("batch") == ["a"], "it has not ended"
    assert cell.executors.end([TaskEnd(0, 1, FINISHED, "*", "")], 2, "e0") == [2]
    for ended in ("a", "unknown"):
        assert len(cell.jobs.speculate(ended, [], MANY, 3, "batch/0")) == 0
    assert cell.jobs.copied("batch") == []
    sound(cell)


def test_reported_progress_is_that_of_the_last_report_of_each_machine(cell: AnyCell) -> None:
    first, second = [TaskProgress(0, 3, 7), TaskProgress(1, 2, 100)], [TaskProgress(0, 5, 0)]
    for machine, tasks in ((0, first[::-1]), (2, first), (2, second), (1, first), (1, [])):
        cell.tasks.report_progress("a", machine, tasks)
    assert cell.tasks.reported_progress("a", [2, 0, 1, 7]) == {2: second, 0: first}
    assert cell.tasks.reported_progress("b", [0]) == {}
    assert not verify(cell).violations


@pytest.mark.parametrize("record", [b"", b"1:2", b"1:2:101", b"0:1:05", b"0:1:5 ", b"x"])
def test_a_record_of_progress_that_no_agent_writes_is_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match="no record"):
        unpack_progress(record)


@pytest.mark.parametrize("make", ["memory"], indirect=True)
def test_the_audit_finds_a_copy_without_its_original(copied: MemoryCell) -> None:
    copies = copied.J["a"].groups[1]
    copies.losses = (copies.losses[0]._replace(retried=Retried(1, 2)), *copies.losses[1:])
    found = [each.what for each in verify(copied).violations if each.invariant == 2]
    assert found == [
        "has a copy of task 1 of placement 2 on machine 2, which does not run it",
        "has the copy of task 1 on machine 2, as its original",
    ]


def test_a_step_that_was_decided_before_a_copy_continued_as_its_task_is_overtaken(copied: AnyCell) -> None:
    """The counts of the tasks are as before, and the task is another placement, which may not have proved itself."""
    assert end(copied, (*ORIGINAL, LOST)) == [1]
    assert counts(copied)[0] == (2, 0, 2, 0, 0, 0)
    with pytest.raises(Overtaken):
        copied.jobs.resize("a", {0: 3}, 3, "batch/0", None, {0: 2}, {0: 2, 1: 1})
    assert counts(copied)[0][0] == 2
    with pytest.raises(Refused):
        copied.jobs.resize("a", {1: 3}, 3, "batch/0", None, {0: 2}, {0: 2})
    copied.jobs.resize("a", {0: 3}, 3, "batch/0", None, {0: 2}, {0: 2, 1: 0})
    copied.jobs.resize("a", {0: 3}, 3, "batch/0", None, {0: 2}, {0: 2, 1: 5})  # the same once more changes nothing
    assert [total for total, *_ in counts(copied)] == [3, 0]
    sound(copied)

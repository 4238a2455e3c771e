"""Placements and their ends (semantics 1 and 2): ids, leaving, and when what was placed in the room may start."""

from typing import Any

import pytest

from omega.cellstate.model import Gang, JobState, MachineSpec, MachineState
from omega.cellstate.redis.job_records import decode
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Transaction, Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Make, Member, RedisStand, job, requeue_lost


def placement(cell: AnyCell, job_id: str, number: int = -1) -> int:
    found = cell.jobs.get(job_id)
    assert found is not None
    return found.groups[0].runs[number][0]


def end(cell: AnyCell, machine: int, placed: int, how: EndKind, tasks: str = "*") -> int:
    return cell.executors.end(
        [TaskEnd(machine, placed, how, tasks, "drain" if how is EndKind.EVICTED else "")], 1, "e0"
    )[0]


def counts(cell: AnyCell, job_id: str) -> tuple[int, int, int, int, int]:
    found = cell.jobs.get(job_id)
    assert found is not None
    group = found.groups[0]
    return group.unplaced, group.placed, group.finished, group.failed, group.stopped


def test_late_end_of_an_old_placement_has_no_effect(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a")], 0, "ada")
    member.place("a", (0, 1))
    old = placement(cell, "a")
    end(cell, 0, old, EndKind.LOST)
    requeue_lost(cell)
    member.place("a", (0, 1))
    new = placement(cell, "a")
    version = cell.schedulers.sync(member.position).position.version
    assert new != old
    assert [end(cell, 0, old, how) for how in EndKind] == [0] * len(EndKind)
    assert [end(cell, 1, new, how) for how in EndKind] == [0] * len(EndKind), "it is not on that machine"
    assert cell.schedulers.sync(member.position).position.version == version
    assert counts(cell, "a") == (0, 1, 0, 0, 0)
    assert end(cell, 0, new, EndKind.FINISHED) == 1


@pytest.mark.parametrize("how", [EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.EVICTED, EndKind.LEFT])
@pytest.mark.parametrize("count", [1, 2], ids=["whole run", "part"])
def test_the_end_of_another_job_under_the_same_placement_has_no_effect(
    cell: AnyCell, member: Member, how: EndKind, count: int
) -> None:
    """A store that lost versions gives placement ids again: an agent may still have a task of a lost placement."""
    cell.jobs.submit([job("mine", count=count), job("waits")], 0, "ada")
    member.place("mine", (0, count))
    placed = placement(cell, "mine")
    if how is EndKind.LEFT:
        end(cell, 0, placed, EndKind.EVICTED)
    before = cell.machines.runs([0])
    reason = "drain" if how is EndKind.EVICTED else ""
    assert cell.executors.end([TaskEnd(0, placed, how, "0", reason, "lost")], 1, "e0") == [0]
    assert cell.machines.runs([0]) == before
    assert cell.executors.end([TaskEnd(0, placed, how, "0", reason, "mine")], 1, "e0") == [1]
    assert cell.machines.runs([0]) != before


@pytest.mark.parametrize("how", [EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.EVICTED, EndKind.LEFT])
@pytest.mark.parametrize("count", [1, 2], ids=["whole run", "part"])
def test_the_end_of_a_job_that_was_submitted_at_another_time_has_no_effect(
    cell: AnyCell, member: Member, how: EndKind, count: int
) -> None:
    """The store lost the job, and it was submitted again under its id."""
    cell.jobs.submit([job("mine", count=count)], 2_000, "ada")
    member.place("mine", (0, count))
    placed = placement(cell, "mine")
    if how is EndKind.LEFT:
        end(cell, 0, placed, EndKind.EVICTED)
    before = cell.machines.runs([0])
    reason = "drain" if how is EndKind.EVICTED else ""
    assert cell.executors.end([TaskEnd(0, placed, how, "0", reason, "mine", 1_000)], 1, "e0") == [0]
    assert cell.machines.runs([0]) == before
    assert cell.executors.end([TaskEnd(0, placed, how, "0", reason, "mine", 2_000)], 1, "e0") == [1]
    assert cell.machines.runs([0]) != before


def test_a_late_end_of_a_job_that_was_submitted_at_another_time_has_no_effect(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("mine")], 2_000, "ada")
    member.place("mine", (0, 1))
    placed = placement(cell, "mine")
    end(cell, 0, placed, EndKind.LOST)
    assert cell.executors.end([TaskEnd(0, placed, EndKind.FAILED, "0", "", "mine", 1_000)], 1, "e0") == [0]
    assert cell.executors.end([TaskEnd(0, placed, EndKind.FAILED, "0", "", "mine", 2_000)], 1, "e0") == [1]


def test_parts_of_a_run_end_once(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=4)], 0, "ada")
    member.place("a", (0, 4))
    run = placement(cell, "a")
    endings = [
        TaskEnd(0, run, EndKind.FINISHED, "1"),
        TaskEnd(0, run, EndKind.FINISHED, "0-2"),
        TaskEnd(0, run, EndKind.FAILED, "1,3"),
        TaskEnd(0, run, EndKind.FINISHED, "7-9"),
        TaskEnd(0, run, EndKind.FINISHED, "-"),
    ]
    assert cell.executors.end(endings, 1, "e0") == [1, 2, 1, 0, 0]
    assert counts(cell, "a") == (0, 0, 3, 1, 0)
    assert cell.machines.runs([0]) == []
    assert cell.machines.all()[0].allocated == (0, 0)


def test_evicted_leaves_until_acknowledged(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("low", (2, 2), 2), job("high", (4, 4), precedence=9)], 0, "ada")
    member.place("low", (0, 2))
    victim = placement(cell, "low")
    assert member.place("high", (0, 1), evict=((victim, 2),)).accepted
    high = placement(cell, "high")
    assert cell.machines.all()[0].allocated == (4, 4), "what leaves has given its amounts up"
    assert [(run.placement, run.leaving) for run in cell.machines.runs([0])] == [(victim, True), (high, False)]
    assert cell.executors.receive(1) == [
        f"+ {victim} 0 low 0 0-1 0 0",
        f"- {victim} 0 0-1",
        f"+ {high} 0 high 0 0 0 1",
    ]
    assert cell.executors.may_start([(0, high), (0, victim), (1, high)]) == ["wait", "gone", "gone"]
    assert end(cell, 0, victim, EndKind.LEFT, "0") == 1
    assert cell.executors.may_start([(0, high)]) == ["wait"], "one of two is gone"
    assert end(cell, 0, victim, EndKind.LEFT) == 1
    assert end(cell, 0, victim, EndKind.LEFT) == 0
    assert cell.executors.may_start([(0, high)]) == ["go"]


def test_next_placement_waits_for_the_old_one_elsewhere(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (0, 3))
    old = placement(cell, "a")
    end(cell, 0, old, EndKind.EVICTED, "1-2")
    member.place("a", (1, 1))
    member.place("a", (2, 1))
    first, second = placement(cell, "a", -2), placement(cell, "a", -1)
    assert cell.executors.receive(1)[-2:] == [f"+ {first} 1 a 0 1 0 1", f"+ {second} 2 a 0 2 0 1"]
    assert cell.executors.may_start([(1, first), (2, second), (0, old)]) == ["wait", "wait", "go"]
    end(cell, 0, old, EndKind.LEFT, "1")
    assert cell.executors.may_start([(1, first), (2, second)]) == ["go", "wait"]


def test_starts_at_once_where_there_is_room_for_both(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a"), job("b", (3, 3))], 0, "ada")
    member.place("a", (0, 1))
    end(cell, 0, placement(cell, "a"), EndKind.EVICTED)
    member.place("b", (0, 1))
    assert cell.executors.may_start([(0, placement(cell, "b"))]) == ["go"]


def test_leaving_merges_and_keeps_its_place(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=4)], 0, "ada")
    member.place("a", (0, 4))
    run = placement(cell, "a")
    end(cell, 0, run, EndKind.EVICTED, "3")
    end(cell, 0, run, EndKind.EVICTED, "0,2")
    assert [(each.tasks, each.leaving) for each in cell.machines.runs([0])] == [("1", False), ("0,2-3", True)]
    found = cell.jobs.get("a")
    assert found is not None
    assert (found.groups[0].waiting, found.groups[0].runs) == ("0,2-3", ((run, 0, False), (run, 0, True)))


def test_tasks_leave_a_machine_that_goes_down_before_they_start_elsewhere(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    end(cell, 0, placement(cell, "a"), EndKind.EVICTED, "0")
    assert cell.machines.set_state(0, MachineState.DOWN, 1, "ada") == 1
    assert [(run.tasks, run.leaving) for run in cell.machines.runs([0])] == [("0-1", True)]
    member.place("a", (1, 2))
    second = placement(cell, "a")
    assert cell.executors.may_start([(1, second)]) == ["wait"]
    end(cell, 0, 1, EndKind.LEFT, "0")
    assert cell.executors.may_start([(1, second)]) == ["wait"]
    end(cell, 0, 1, EndKind.LEFT, "1")
    assert cell.executors.may_start([(1, second)]) == ["go"]
    assert counts(cell, "a") == (0, 2, 0, 0, 0)


def test_victims_are_the_last_tasks_of_a_run(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("low", count=4), job("high", (2, 2), precedence=9)], 0, "ada")
    member.place("low", (0, 4))
    member.place("high", (0, 1), evict=((placement(cell, "low"), 4),))
    assert [(run.job, run.tasks, run.leaving) for run in cell.machines.runs([0])] == [
        ("low", "0-1", False),
        ("low", "2-3", True),
        ("high", "0", False),
    ]


def test_evicting_one_of_a_gang_leaves_the_rest(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("gang", count=2, gang=Gang.YES), job("high", (4, 4), precedence=9)], 0, "ada")
    member.place("gang", (0, 1), (1, 1), mode=Mode.GANG)
    assert member.place("high", (0, 1), evict=((placement(cell, "gang", 0), 1),)).accepted
    assert counts(cell, "gang") == (1, 1, 0, 0, 0)
    assert member.place("gang", (1, 1), mode=Mode.GANG).accepted, "what is unplaced of it is covered"


def test_a_strict_gang_leaves_together_for_any_reason(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("gang", count=6, gang=Gang.STRICT)], 0, "ada")
    member.place("gang", (0, 2), (1, 2), (2, 2), mode=Mode.GANG)
    assert end(cell, 0, placement(cell, "gang", 0), EndKind.EVICTED, "0") == 6
    assert counts(cell, "gang") == (6, 0, 0, 0, 0)
    assert member.place("gang", (0, 2), (1, 2), (2, 2), mode=Mode.GANG).accepted
    assert cell.machines.set_capacity(1, (1, 8), 1, "ada", [(placement(cell, "gang", -2), 2)]) == 6
    assert counts(cell, "gang") == (6, 0, 0, 0, 0)


def test_a_wide_strict_gang_leaves_together(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("gang", (0, 0), 900, gang=Gang.STRICT), job("high", (4, 4), precedence=9)], 0, "ada")
    cell.jobs.submit([job("low", (4, 4))], 0, "ada")
    assert member.place("gang", (0, 300), (1, 300), (2, 300), mode=Mode.GANG).accepted
    assert member.place("low", (0, 1)).accepted
    victims = ((placement(cell, "low"), 1), (placement(cell, "gang", 0), 1))
    assert member.place("high", (0, 1), evict=victims[:1]).accepted
    assert end(cell, 0, placement(cell, "gang", 0), EndKind.EVICTED, "0") == 900
    assert counts(cell, "gang") == (900, 0, 0, 0, 0)
    assert member.place("gang", (0, 300), (1, 300), (2, 300), mode=Mode.GANG).accepted
    cell.jobs.submit([job("top", (4, 4), precedence=10)], 0, "ada")
    high = placement(cell, "high")
    gang = placement(cell, "gang", 0)
    assert member.place("top", (0, 1), evict=((gang, 1), (high, 1))).accepted
    assert counts(cell, "gang") == (900, 0, 0, 0, 0), "each of its machines is read"


def test_a_lost_member_leaves_a_strict_gang_placed(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("gang", count=2, gang=Gang.STRICT)], 0, "ada")
    member.place("gang", (0, 1), (1, 1), mode=Mode.GANG)
    end(cell, 0, placement(cell, "gang", 0), EndKind.LOST)
    assert counts(cell, "gang") == (1, 1, 0, 0, 0)


def test_a_machine_that_goes_down_evicts_a_strict_gang_as_a_whole(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("gang", count=2, gang=Gang.STRICT)], 0, "ada")
    member.place("gang", (0, 1), (1, 1), mode=Mode.GANG)
    assert cell.machines.set_state(0, MachineState.DOWN, 1, "ada") == 2
    assert counts(cell, "gang") == (2, 0, 0, 0, 0)


def test_a_finished_job_is_kept_while_its_tasks_leave(make: Make) -> None:
    cell = make(keep_jobs=0).cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 8))], 0)
    member = Member(cell)
    cell.jobs.submit([job("old", (4, 4))], 0, "ada")
    member.place("old", (0, 1))
    old = placement(cell, "old")
    cell.jobs.stop("old", 1, "ada", JobState.STOPPED)
    end(cell, 0, old, EndKind.STOPPED)
    cell.jobs.submit([job("new", (4, 4)), *(job(f"j{i}") for i in range(3))], 2, "ada")
    assert member.place("new", (0, 1)).accepted
    for i in range(3):
        cell.jobs.stop(f"j{i}", 3, "ada")
    assert cell.executors.may_start([(0, placement(cell, "new"))]) == ["wait"], "the old one still holds all of it"
    assert end(cell, 0, old, EndKind.LEFT) == 1
    assert cell.executors.may_start([(0, placement(cell, "new"))]) == ["go"]
    cell.jobs.stop("new", 4, "ada")
    end(cell, 0, placement(cell, "new"), EndKind.FINISHED)
    assert cell.jobs.all() == []


def test_a_failed_claim_leaves_no_trace(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (9, 9))], 0, "ada")
    before = cell.machines.all(), cell.jobs.all(), cell.pools.kinds()
    assert member.place("a", (0, 1)).claims == ((0, Verdict.FULL),)
    assert (cell.machines.all(), cell.jobs.all(), cell.pools.kinds()) == before


def test_placements_of_a_call_have_ids_one_after_another(cell: AnyCell, member: Member) -> None:
    """The log and the messages name the first of a line alone; facts of submissions, the name that is the id once."""
    cell.jobs.submit([job("first"), job("a", count=3)], 0, "ada")
    member.place("first", (0, 1))
    before = cell.counters()["version"]
    cell.executors.receive(1)
    member.place("a", (2, 1), (0, 1), (1, 1))
    first = placement(cell, "first") + 1
    expected = [(str(first), "2", "0"), (str(first + 1), "0", "1"), (str(first + 2), "1", "2")]
    places = [fact.event for fact in cell.log.facts(before, kinds={"place"})]
    assert [(words[1], words[2], words[5]) for words in places] == expected
    assert [message.split(" ")[1:6] for message in cell.executors.receive(1)] == [
        [placed, machine, "a", "0", tasks] for placed, machine, tasks in expected
    ]
    assert sorted(row[0] for row in cell.log.changed_records(before).rows.tolist()) == [0, 1, 2]
    submissions = [("submit", "first", "first", "batch", "0", "1"), ("submit", "a", "a", "batch", "0", "3")]
    assert [fact.event for fact in cell.log.facts(kinds={"submit"})] == submissions


@pytest.mark.parametrize("make", ["fake", "resp3"], indirect=True)
@pytest.mark.parametrize("how", [EndKind.FINISHED, EndKind.LOST])
def test_runs_of_one_transaction_are_stored_with_one_id(stand: RedisStand, how: EndKind) -> None:
    """A run whose id follows is written without it; finished runs end on the fast path, lost ones do not."""
    cell = stand.cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (4, 8)) for i in range(6)], 0)
    cell.jobs.submit([job("a", count=9)], 0, "ada")
    member = Member(cell)
    member.place("a", *((machine, 1) for machine in range(5)))

    def runs() -> str:
        record: Any = cell.client.hget(stand.key("jobs"), "a")
        return str(decode(record, len(cell.dimensions))["groups"][0]["runs"])

    assert runs() == "1@0,@1,@2,@3,@4,"
    end(cell, 1, 2, how)
    assert runs() == "1@0,3@2,@3,@4,"
    member.place("a", (5, 1), (0, 1))
    assert runs() == "1@0,3@2,@3,@4,6@5,@0,"
    assert (
        cell.executors.end([TaskEnd(machine, placed, how) for machine, placed in ((0, 1), (3, 4), (5, 6))], 1, "e0")
        == [1] * 3
    )
    assert runs() == "3@2,5@4,7@0,"
    end(cell, 2, 3, EndKind.EVICTED)
    assert runs() == "5@4,7@0,!3@2,"
    assert verify(cell).ok


def test_an_acknowledgement_that_names_another_job_has_no_effect_in_the_same_call(
    cell: AnyCell, member: Member
) -> None:
    """Also of a run that an ending before it in the call made leave."""
    cell.jobs.submit([job("a"), job("b")], 0, "ada")
    member.place("a", (0, 1))
    placed = placement(cell, "a")
    evicted = TaskEnd(0, placed, EndKind.EVICTED, "*", "drain", "a")
    left = TaskEnd(0, placed, EndKind.LEFT, "*", "", "b")
    assert cell.executors.end([evicted, left], 1, "e0") == [1, 0]
    assert [(run.placement, run.leaving) for run in cell.machines.runs([0])] == [(placed, True)]
    assert cell.executors.end([left._replace(job="a")], 1, "e0") == [1]


def test_claims_of_no_tasks_are_no_transaction_that_placed_some(cell: AnyCell, member: Member) -> None:
    """The audit counted the answer to them among those: "has another number of transactions … by the log 0"."""
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    outcomes = member.transact(Transaction("a", (Claim(0, 0, 0), Claim(1, 0, 0))), Transaction("a", (Claim(0, 0, 1),)))
    assert [each.claims for each in outcomes] == [((0, Verdict.PLACED),) * 2, ((1, Verdict.PLACED),)]
    assert verify(cell).ok

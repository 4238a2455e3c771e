"""Single facts that contradict others, fed to the readers of the log without a store."""

import fakeredis
import pytest

from omega.cellstate.events import Fact, parse
from omega.cellstate.fold import Books
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Claim, Detection, Mode, Position, Transaction
from omega.cellstate.verify import verify
from omega.queries.events import events
from tests.unit.cellstate.audit.test_broken_cell import spoken
from tests.unit.cellstate.audit.town import SMALL, Town, job

SUBMIT = "submit {} {}-name batch {} 9"


def fact(version: int, text: str) -> Fact:
    return Fact(version, 0, "ada", parse(text)[0])


EPOCHS: list[tuple[bool, list[tuple[int, str]], int]] = [
    (True, [(3, "epoch 1 0 x"), (5, "epoch 2 0 x"), (7, "epoch 3 6 x")], 0),
    (True, [(3, "epoch 2 0 x")], 1),
    (True, [(3, "epoch 1 3 x")], 1),
    (True, [(3, "epoch 1 2 x"), (5, "epoch 1 2 x")], 1),
    (True, [(3, "epoch 1 2 x"), (5, "epoch 3 2 x")], 1),
    (True, [(3, "epoch 1 2 x"), (5, "epoch 2 1 x")], 1),
    (False, [(9, "epoch 4 2 x"), (11, "epoch 5 2 x")], 0),
    (False, [(9, "epoch 4 9 x")], 1),
    (False, [(9, "epoch 4 0 x")], 0),
]
"""Whether the log begins with the cell, its facts with their versions, how many of them contradict."""


@pytest.mark.parametrize(("complete", "facts", "wrong"), EPOCHS)
def test_epochs_are_numbered_in_order_and_computed_before_they_are_published(
    complete: bool, facts: list[tuple[int, str]], wrong: int
) -> None:
    books = Books(2, 1 if complete else 2)
    for version, text in facts:
        books.feed([fact(version, text)])
    assert len(books.violations) == wrong


HOLDS: list[tuple[bool, list[str], list[str]]] = [
    (True, ["gate a one reason", "gate a other reason", "pass a", "gate a one", "release a"], []),
    (True, ["hold a", "gate a why", "release a", "hold a", "release a"], []),
    (True, ["gate a why", "gate a why"], ["says gate of job a, which changes nothing"]),
    (True, ["pass a"], ["says pass of job a, which changes nothing"]),
    (True, ["gate a why", "release a", "gate a other"], ["says gate of job a, which changes nothing"]),
    (True, ["hold a", "release a", "release a"], ["says release of job a, which changes nothing"]),
    (True, ["gate b why"], ["says gate of job b, which was not submitted"]),
    (True, ["attempt b"], ["says attempt of job b, which was not submitted"]),
    (True, ["awaited a b"], ["says awaited of job b, which was not submitted"]),
    (True, ["awaited b a"], ["says awaited of job b, which was not submitted"]),
    (False, ["gate b why", "pass b", "release b", "hold c", "release c"], []),
    (False, ["pass b", "pass b"], ["says pass of job b, which changes nothing"]),
]
"""Whether the log begins with the cell, its facts after the submission of `a`, and which of them are wrong."""


@pytest.mark.parametrize(("complete", "facts", "wrong"), HOLDS)
def test_holds_and_releases_change_something_of_a_submitted_job(
    complete: bool, facts: list[str], wrong: list[str]
) -> None:
    books = Books(2, 1 if complete else 2)
    for version, text in enumerate([SUBMIT.format("a", "a", 4), *facts], 1):
        books.feed([fact(version, text)])
    assert [each.what.partition(" (version ")[0] for each in books.violations] == wrong


def test_a_job_that_is_submitted_again_under_the_id_of_a_deleted_one_may_take_other_amounts() -> None:
    books = Books(1, 1)
    first = ["join 0 m0 1 9", SUBMIT.format("a", "a", 4), "place 1 0 a 0 0 1", "finished 1 0 a 0 0 3 0 -"]
    again = [SUBMIT.format("a", "a", 4), "place 2 0 a 0 0 2", "finished 2 0 a 0 0 5 0 -"]
    for version, text in enumerate(first + again, 1):
        books.feed([fact(version, text)])
    assert books.violations == []


@pytest.mark.parametrize(
    ("after", "stands"),
    [("drop low 0 1 evicted", False), ("drop high 0 1 evicted", True), ("resize low 0 9 -1 0", True)],
)
def test_an_eviction_at_equal_precedence_stands_as_a_violation_unless_its_own_task_is_dropped(
    after: str, stands: bool
) -> None:
    books = Books(1, 1)
    for version, text in enumerate(
        ["join 0 m0 1 9", SUBMIT.format("low", "low", 4), SUBMIT.format("high", "high", 4), "place 1 0 low 0 0 1"],
        1,
    ):
        books.feed([fact(version, text)])
    evicted = [fact(5, "evicted 1 0 low 0 0 3 0 precedence:high"), fact(5, after)]
    books.feed(evicted)
    told = [each.what for each in books.violations if each.invariant == 5 and "gave way" in each.what]
    assert bool(told) == stands


def test_a_gang_that_its_entry_does_not_describe_is_one_by_its_record_alone(fake_redis: fakeredis.FakeRedis) -> None:
    """The client leaves out an id that a call has twice: it cannot know which of the two the store takes."""
    cell = RedisCell.create(fake_redis, "c", Dimensions(("cpu",)))
    gang = JobSpec("twice", "twice", "batch", (TaskGroup((1,), 3),), gang=Gang.YES)
    cell.jobs.submit([gang, gang], 0, "ada")
    assert verify(cell).ok


def test_an_optional_task_gives_way_to_a_lower_precedence(fake_redis: fakeredis.FakeRedis) -> None:
    cell = RedisCell.create(fake_redis, "c", Dimensions(("cpu",)))
    cell.executors.register("e", "n", 600_000, 0)
    cell.machines.join("e", [MachineSpec("m", (4,))], 0)
    groups = TaskGroup((2,), 1), TaskGroup((2,), 1, optional=True)
    cell.jobs.submit(
        [JobSpec("shop", "shop", "batch", groups, 9), JobSpec("low", "low", "batch", (TaskGroup((2,), 1),), 1)], 0, "a"
    )
    member = cell.schedulers.register("batch/0", "n", 600_000, 0)
    cell.schedulers.commit(
        CommitRequest(member, 1, [Transaction("shop", (Claim(0, 0, 1), Claim(0, 1, 1)))], Position(), 0)
    )
    wanted = Transaction("low", (Claim(0, 0, 1, seen=0, evict=((2, 1),)),), Mode.INCREMENTAL, Detection.FINE)
    assert cell.schedulers.commit(CommitRequest(member, 2, [wanted], Position(), 0)).outcomes[0].placed == 1
    report = verify(cell)
    assert report.ok, report.violations
    job = cell.jobs.get("shop")
    assert job is not None
    assert [group.total for group in job.groups] == [1, 0], "it was dropped"


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (("resize next 0", "resize next 1"), "is in the log and not in the job"),
        (("join 5 m5 22", "drop many 2 1 evicted\njoin 5 m5 22"), ""),
        (("join 5 m5 22", "drop many 1 1 evicted\njoin 5 m5 22"), "has tasks dropped, and is not optional"),
    ],
)
def test_facts_name_groups_that_a_job_has(town: Town, edit: tuple[str, str], what: str) -> None:
    town.replace_fact(*edit)
    report = verify(town.cell)
    assert not report.ok
    where = "job next group 1" if "next" in edit[0] else "job many group 1"
    assert not what or spoken(report, 4, where, what), report.violations
    assert {violation.invariant for violation in report.violations} == {4}


def test_transactions_of_a_job_in_one_call_are_parted(town: Town) -> None:
    """A machine's number rises with each; without the fact between them it would rise once."""
    town.cell.jobs.submit([job("twice", SMALL)], 40, "ada")
    assert town.commit_each("twice", Claim(3, 0, 1), Claim(3, 0, 1), Claim(0, 0, 1)) == 3
    assert verify(town.cell).ok
    words = [fact.event[0] for fact in town.cell.log.facts() if fact.event[0] == "again" or "twice" in fact.event[3:4]]
    assert words == ["place", "again", "place", "again", "place"]
    assert "again" not in {each.kind for each in events(town.cell, 0, 100)}
    town.replace_fact("again twice", "again high")
    assert spoken(verify(town.cell), 3, "job high", "has a transaction again, after one of twice")
    town.replace_fact("again high", "").replace_fact("again twice", "")
    assert spoken(verify(town.cell), 3, "machine 3", "its number is")


def test_placements_of_a_line_have_the_next_task_where_none_is_stated() -> None:
    facts = parse("places a 0 100,50 7 12 2,4 5 9:6-8 3 3:1")
    assert [words[1:3] + words[5:6] for words in facts] == [
        tuple(text.split()) for text in ("7 12 2,4", "8 5 5", "9 9 6-8", "10 3 9", "11 3 1")
    ]
    assert {words[3:5] + words[6:] for words in facts} == {("a", "0", "100,50")}


def test_an_optional_task_of_an_abandoned_job_gives_way_to_any_precedence_above_0() -> None:
    """No fact says that it is dropped: the job has ended. Tasks of its other groups keep the job's precedence."""
    cell = MemoryCell()
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 8)), MachineSpec("m1", (4, 8))], 0)
    member = cell.schedulers.register("batch/0", "n", 600_000, 0)
    low = (TaskGroup((4, 4), 1), TaskGroup((4, 4), 1, optional=True))
    cell.jobs.submit([JobSpec("low", "low", "batch", low, 5)], 1, "ada")
    cell.jobs.submit([JobSpec("high", "high", "batch", (TaskGroup((4, 4), 1),), 1)], 1, "ada")
    claims = Claim(0, 0, 1), Claim(1, 1, 1)
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction("low", claims)], Position(), 2))
    cell.jobs.stop("low", 3, "batch/0", JobState.ABANDONED, keep=True)
    for number, machine in ((2, 0), (3, 1)):
        claim = Claim(machine, 0, 1, evict=((machine + 1, 1),))
        reply = cell.schedulers.commit(CommitRequest(member, number, [Transaction("high", (claim,))], Position(), 4))
        assert reply.outcomes[0].placed == machine, "only the optional task gives way"
    assert verify(cell).violations == ()

"""The digest of the log: results of tasks, histories of jobs and sums of use, added once."""

from dataclasses import dataclass

import pytest

from omega.cellstate.digest.history import History
from omega.cellstate.digest.hours import COUNTS, HOUR_MS, Hour, Owner, Position, Settled
from omega.cellstate.digest.results import (
    EVICTED,
    FAILED,
    FINISHED,
    NOTHING,
    RETRIED,
    RUNNING,
    TaskResult,
    unpack_results,
)
from omega.cellstate.digest.step import digest
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Transaction
from omega.queries.jobs import list_jobs
from tests.contract.conftest import AnyCell, Make, Member, Stand

T = 1_000 * HOUR_MS
ADA = Owner("batch", "ada", "web")


@dataclass
class Day:
    """A cell whose calls have times."""

    cell: AnyCell
    member: Member

    def submit(self, job_id: str, count: int, at: int, user: str = "ada") -> None:
        spec = {"user": user, "pool": "web"}
        self.cell.jobs.submit([JobSpec(job_id, job_id, "batch", (TaskGroup((1, 2), count),), spec=spec)], T + at, "ada")

    def place(self, job_id: str, *claims: tuple[int, int], at: int) -> None:
        member = self.member
        member.number += 1
        made = tuple(Claim(machine, 0, count) for machine, count in claims)
        request = CommitRequest(member.membership, member.number, [Transaction(job_id, made)], member.position, T + at)
        member.position = self.cell.schedulers.commit(request).position

    def end(self, machine: int, how: EndKind, at: int, tasks: str = "*", reason: str = "") -> None:
        (run,) = [each for each in self.cell.machines.runs([machine]) if not each.leaving]
        self.cell.executors.end([TaskEnd(machine, run.placement, how, tasks, reason)], T + at, "e0")

    def digest(self, at: int, most: int = 1_000) -> bool:
        return digest(self.cell, T + at, most)

    def results(self, job_id: str) -> list[TaskResult]:
        record = self.cell.digest.result_records([f"{job_id} 0 0"]).get(f"{job_id} 0 0", b"")
        found = self.cell.jobs.get(job_id)
        assert found is not None
        return unpack_results(record, found.submitted_ms)

    def use(self, hour: int = 0, owner: Owner = ADA) -> dict[str, int]:
        hour_sums = Hour.unpack(self.cell.digest.usage_hour(T // HOUR_MS + hour))
        return dict(zip([*COUNTS, "cpu", "memory"], hour_sums.uses.get(owner, []), strict=False))

    def history(self, job_id: str) -> History:
        return History.unpack(self.cell.digest.job_history(job_id)[1])


def day(cell: AnyCell, member: Member) -> Day:
    return Day(cell, member)


def test_results_have_machine_times_and_reason(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 6, 0)
    a.place("a", (0, 3), (1, 2), at=500)
    a.end(0, EndKind.FAILED, 1_500, "1", "exit 3")
    a.end(0, EndKind.FINISHED, 2_500, "0,2")
    assert not a.digest(3_000)
    begun = T + 500
    assert a.results("a") == [
        TaskResult(FINISHED, 0, (begun, T + 2_500)),
        TaskResult(FAILED, 0, (begun, T + 1_500), 1),
        TaskResult(FINISHED, 0, (begun, T + 2_500)),
        TaskResult(RUNNING, 1, (begun, 0)),
        TaskResult(RUNNING, 1, (begun, 0)),
    ]
    assert a.history("a").reasons == ["exit 3"]
    a.end(1, EndKind.EVICTED, 4_000, "3", "drain")
    a.digest(5_000)
    assert a.results("a")[3] == TaskResult(EVICTED, 1, (begun, T + 4_000))
    assert a.results("a")[4] == TaskResult(RUNNING, 1, (begun, 0))


def test_each_entry_counts_once_whoever_reads_it(stand: Stand, cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 4, 0)
    a.place("a", (0, 4), at=1_000)
    other = stand.other()
    read = cell.digest.undigested(1_000)
    assert not digest(other, T + 2_000)
    position = cell.digest.position()
    from omega.cellstate.digest.step import _Step

    late = _Step(cell, read, Position.unpack(read.position), T + 2_000)
    late.take(read.facts)
    assert not cell.digest.write(late.close()), "another process was first"
    assert (cell.digest.position(), a.use()["started"]) == (position, 4)
    for now in (2_000, 2_001, 9_000):
        assert not a.digest(now)
    assert a.use()["started"] == 4


def test_use_is_what_tasks_held_for_how_long(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 3, 0)
    a.place("a", (0, 2), (1, 1), at=1_000)
    a.digest(5_000)
    assert a.use() == {
        **dict.fromkeys(COUNTS, 0),
        "started": 3,
        "waits": 1,
        "wait_ms": 1_000,
        "cpu": 12_000,
        "memory": 24_000,
    }
    a.end(0, EndKind.FINISHED, 6_000)
    a.end(1, EndKind.FAILED, 11_000, reason="exit 1")
    a.digest(20_000)
    assert (a.use()["cpu"], a.use()["finished"], a.use()["failed"]) == (2 * 5_000 + 10_000, 2, 1)


def test_use_is_divided_among_the_hours_in_which_tasks_ran(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 1, 0)
    a.place("a", (0, 1), at=HOUR_MS - 1_000)
    a.digest(2 * HOUR_MS + 500)
    assert [a.use(hour).get("cpu") for hour in (0, 1, 2)] == [1_000, HOUR_MS, 500]
    assert a.digest(2 * HOUR_MS + 60_500) is False
    assert a.use(2)["cpu"] == 60_500, "running tasks count though nothing happens"


def test_steps_are_bounded_and_go_on(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    for i in range(6):
        a.submit(f"j{i}", 1, i)
        a.place(f"j{i}", (i % 3, 1), at=100 + i)
    steps = 1
    while a.digest(9_000, most=2):
        steps += 1
    assert (steps > 5, a.use()["started"]) == (True, 6)


def test_records_go_with_their_job(make: Make) -> None:
    stand = make(keep_jobs=1)
    cell = stand.cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (400, 800)) for i in range(3)], 0)
    a = day(cell, Member(cell))
    for i in range(3):
        a.submit(f"j{i}", 300, i)
        a.place(f"j{i}", (0, 300), at=100 + i)
        a.digest(1_000)
        assert len(cell.digest.result_records([f"j{i}", f"j{i} 0 0", f"j{i} 0 1"])) == 3
        a.end(0, EndKind.FINISHED, 200 + i)
    a.digest(2_000)
    gone = [f"j{i}{part}" for i in range(2) for part in ("", " 0 0", " 0 1")]
    assert (cell.digest.result_records(gone), cell.digest.histories(["j0", "j1"])) == ({}, {})
    assert len(cell.digest.result_records(["j2", "j2 0 0", "j2 0 1"])) == 3
    assert a.use()["finished"] == 900, "also those of jobs that are deleted"


def test_jobs_deleted_before_they_were_counted_are_nobodys(make: Make) -> None:
    cell = make(keep_jobs=0).cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 8))], 0)
    a = day(cell, Member(cell))
    a.submit("a", 2, 0)
    a.place("a", (0, 2), at=1_000)
    a.digest(2_000)
    a.end(0, EndKind.FINISHED, 3_000)
    a.digest(4_000)
    assert cell.jobs.get("a") is None
    assert a.use(owner=Owner("?", "?", "?"))["finished"] == 2
    assert Position.unpack(cell.digest.position()).settled is Settled.YES
    before = a.use()["cpu"]
    a.digest(200_000)
    assert a.use()["cpu"] == before, "nothing runs any more"


def test_a_gap_in_the_log_is_noted_and_ends(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 2, 0)
    a.digest(500)
    a.place("a", (0, 2), at=1_000)
    trim(cell)
    a.submit("b", 1, 5_000)
    a.digest(6_000)
    hour = Hour.unpack(cell.digest.usage_hour(T // HOUR_MS))
    assert hour.gaps == [[T + 500, T + 6_000]]
    a.digest(70_000)
    assert a.use()["cpu"] == 2 * 64_000, "what tasks hold is read again from the cell"
    position = Position.unpack(cell.digest.position())
    assert (position.settled, position.since_order) == (Settled.YES, 2)
    a.submit("c", 1, 71_000)
    a.place("c", (0, 1), at=72_000)
    a.place("b", (1, 1), at=73_000)
    a.digest(74_000)
    rows = list_jobs(cell, cell.jobs.page(), T + 75_000)["jobs"]
    assert [row["started_ms"] for row in rows] == [None, None, T + 72_000], "of jobs before the gap nothing is sure"


def test_who_evicted_whom_is_in_both_histories(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 2, 0)
    a.submit("b", 1, 0)
    a.place("a", (0, 2), at=1_000)
    a.end(0, EndKind.EVICTED, 2_000, "0", "precedence:b")
    a.place("a", (1, 1), at=3_000)
    a.digest(4_000)
    history = a.history("a")
    assert (history.evicted_for, history.again, a.history("b").evicted) == ({"b": 1}, 1, {"a": 1})
    assert (history.attempts, history.by, history.first_placed_ms) == (2, ["batch/0"], T + 1_000)


def test_late_reports_and_at_most_once_failures_are_results(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    once = TaskGroup((1, 1), 1, budget=0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (once,))], T, "ada")
    a.place("a", (0, 1), at=1_000)
    a.end(0, EndKind.LOST, 2_000)
    a.digest(3_000)
    assert a.results("a") == [TaskResult(FAILED, 0, (T + 1_000, T + 2_000), 1)]
    assert a.history("a").reasons == ["lost"]


def test_a_retried_task_failed_and_is_placed_again(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 1, 0)
    a.place("a", (0, 1), at=1_000)
    a.end(0, EndKind.RETRIED, 2_000, reason="exit 3")
    a.digest(3_000)
    assert a.results("a") == [TaskResult(RETRIED, 0, (T + 1_000, T + 2_000), 1)]
    assert (a.use()["failed"], a.history("a").failures_of([0]), a.history("a").returned) == (1, {"exit 3": 1}, 1)
    before = a.use()["cpu"]
    a.digest(70_000)
    assert (before, a.use()["cpu"]) == (1_000, 1_000), "it holds nothing while it waits"


def test_failures_are_counted_by_group(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    groups = tuple(TaskGroup((1, 1), 1) for _ in range(20))
    cell.jobs.submit([JobSpec("a", "a", "batch", groups)], T, "ada")
    for group in range(20):
        member.number += 1
        made = [Transaction("a", (Claim(0, group, 1),))]
        position = cell.schedulers.commit(
            CommitRequest(member.membership, member.number, made, member.position, T)
        ).position
        member.position = position
        a.end(0, EndKind.FAILED, 1_000, reason="exit 3" if group else "exit 4")
    a.digest(2_000)
    history = a.history("a")
    assert (history.failures_of([0]), history.failures_of(range(20))) == (
        {"exit 4": 1, "exit 3": 4},
        {"exit 4": 1, "exit 3": 19},
    ), "the groups of further ones are unknown"


def test_a_clock_that_is_years_behind_costs_no_step(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 1, -T)
    a.place("a", (0, 1), at=1 - T)
    now = 60 * 365 * 24 * HOUR_MS
    assert not digest(cell, now)
    hours = cell.digest.usage_hours(range(now // HOUR_MS - 91 * 24, now // HOUR_MS + 1))
    assert len(hours) <= 90 * 24 + 1


def test_damaged_records_are_replaced(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 2, 0)
    a.place("a", (0, 2), at=1_000)
    a.digest(2_000)
    damage(cell, {"history": ["a"], "results": ["a 0 0"], "usage": [str(T // HOUR_MS), "position"]})
    a.digest(3_000)
    a.end(0, EndKind.FINISHED, 4_000)
    a.digest(5_000)
    assert a.results("a") == [TaskResult(FINISHED, 0, (T + 4_000, T + 4_000))] * 2
    assert (a.use()["finished"], a.history("a").attempts) == (2, 0)


def test_a_job_without_results_has_none(cell: AnyCell, member: Member) -> None:
    a = day(cell, member)
    a.submit("a", 2, 0)
    a.digest(1_000)
    assert (cell.digest.histories(["a"]), cell.digest.result_records(["a"])) == ({}, {})
    a.place("a", (0, 1), at=2_000)
    a.digest(3_000)
    assert NOTHING not in a.results("a")
    assert len(a.results("a")) == 1


def trim(cell: AnyCell) -> None:
    """Remove all entries of the log."""
    if isinstance(cell, MemoryCell):
        cell.entries.clear()
    else:
        cell.client.xtrim(cell.prefix + "log", maxlen=0, approximate=False)


def damage(cell: AnyCell, fields: dict[str, list[str]]) -> None:
    """Write something else over records."""
    for key, names in fields.items():
        for name in names:
            if not isinstance(cell, MemoryCell):
                cell.client.hset(cell.prefix + key, name, b"\xc1nothing")
            elif name == "position":
                cell.digested = b"\xc1nothing"
            elif key == "usage":
                cell.hours[int(name)] = b"\xc1nothing"
            else:
                kept = cell.past if key == "history" else cell.results
                kept[name] = b"\xc1nothing"


def test_the_newest_facts_are_a_bounded_part_of_the_log(cell: AnyCell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question about a job reads some entries or bytes, whatever an entry and the log hold."""

    def bound(versions: int, size: int) -> None:
        for module in ("redis.log", "memory.cell"):
            monkeypatch.setattr(f"omega.cellstate.{module}.MOST_VERSIONS", versions)
            monkeypatch.setattr(f"omega.cellstate.{module}.MOST_BYTES", size)

    def read(since: int = 0, text: str = "") -> tuple[int, list[tuple[str, ...]]]:
        found = cell.log.newest_facts(since, text)
        assert found.newest == newest
        return found.newest - found.after, [fact.event[:2] for fact in found.facts]

    cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 2), 3),)) for name in ("job-a", "job-b")], T, "ada")
    for change in (cell.jobs.hold, cell.jobs.release, cell.jobs.hold, cell.jobs.release):
        change("job-b", T, "ada")
    newest = cell.counters()["version"]
    end = [("release", "job-b"), ("hold", "job-b"), ("release", "job-b")]
    bound(3, 1_000)
    assert read() == (3, end)
    assert read(text="job-a") == (3, []), "what is not wanted is read, and not returned"
    assert read(newest - 1) == (1, end[-1:]), "only what is newer"
    bound(5, 1_000)
    assert read(text="job-a") == (5, [("submit", "job-a")])
    assert len(read()[1]) == 6
    bound(5, 15)
    assert read() == (2, end[1:]), "the entry that reaches the bound is whole"
    bound(100, 100_000)
    first = cell.log.newest_facts(0).first
    assert read()[0] == newest - first + 1
    assert cell.log.newest_facts(newest + 10).facts == []

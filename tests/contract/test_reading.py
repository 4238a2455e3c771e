"""Private copies: what changed since a position, full reads, and histories that were lost (semantics 16, 18)."""

import struct
from typing import Any

import numpy as np
import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import BUCKETS, MachineSpec, MachineState, bucket_of
from omega.cellstate.redis import calls
from omega.cellstate.replies import CommitRequest, Reply
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Ask, Basis, Claim, Detection, Intake, Position, Transaction, Verdict
from tests.contract.conftest import AnyCell, Make, Member, MemoryStand, RedisStand, Stand, job

ALL = "1" * BUCKETS


def rows(reply: Reply) -> dict[int, list[int]]:
    return {row[0]: row for row in reply.rows.tolist()}


def test_a_record_of_a_machine(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (1, 2), 2)], 0, "ada")
    member.place("a", (1, 2))
    reply = cell.schedulers.sync(Position())
    assert reply.full
    assert reply.rows.dtype == np.int64
    assert rows(reply) == {0: [0, 1, 0, 1, 4, 8, 0, 0], 1: [1, 2, 0, 1, 4, 8, 2, 4], 2: [2, 1, 0, 1, 4, 8, 0, 0]}


def test_only_what_changed(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    start = cell.schedulers.sync(Position()).position
    again = cell.schedulers.sync(start)
    assert (again.full, again.rows.shape, again.position) == (False, (0, 8), start)
    member.place("a", (1, 1))
    member.place("a", (1, 1))
    cell.machines.set_state(2, MachineState.DRAINED, 0, "ada")
    reply = cell.schedulers.sync(start)
    assert not reply.full
    assert rows(reply) == {1: [1, 3, 0, 1, 4, 8, 2, 2], 2: [2, 2, 1, 1, 4, 8, 0, 0]}
    assert reply.position.version == start.version + 3


def test_a_commit_answers_with_what_the_copy_lacks(stand: Stand, cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    start = cell.schedulers.sync(Position()).position
    other = Member(stand.other(), "batch/1")
    other.place("a", (2, 1))
    reply = cell.schedulers.commit(CommitRequest(member.membership, 1, [Transaction("a", (Claim(0, 0, 1),))], start, 0))
    assert set(rows(reply)) == {0, 2}
    assert rows(reply) == {index: row for index, row in rows(cell.schedulers.sync(Position())).items() if index != 1}


def test_gone_machines_stay_in_the_rows(cell: AnyCell) -> None:
    start = cell.schedulers.sync(Position()).position
    cell.machines.set_state(1, MachineState.GONE, 0, "ada")
    assert [row[2] for row in cell.schedulers.sync(start).rows] == [MachineState.GONE]
    assert [row[2] for row in cell.schedulers.sync(Position()).rows] == [0, MachineState.GONE, 0]


@pytest.mark.parametrize("version", [0, 3, 999])
def test_an_unknown_position_reads_everything(cell: AnyCell, version: int) -> None:
    for i in range(5):
        cell.machines.set_state(0, MachineState(1 - i % 2), 0, "ada")
    now = cell.schedulers.sync(Position()).position
    for since in (Position(version, "not-a-tag-"), Position(now.version, "not-a-tag-"), Position(version, now.tag)):
        reply = cell.schedulers.sync(since)
        assert reply.full
        assert (len(reply.rows), reply.position) == (3, now)


def test_what_was_trimmed_reads_everything(make: Make) -> None:
    stand = make()
    cell = stand.cell
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (4, 8)) for i in range(3)], 0)
    if isinstance(stand, MemoryStand):
        stand.cell.changes_kept = 4
    positions = [cell.schedulers.sync(Position()).position]
    for i in range(20):
        cell.machines.set_state(i % 3, MachineState(1 - i // 3 % 2), 0, "ada")
        positions.append(cell.schedulers.sync(positions[-1]).position)
    if isinstance(stand, RedisStand):
        client = stand.cell.client
        client.ltrim(stand.key("changes"), -4, -1)
        client.hset(stand.key("meta"), "floor", positions[-1].version - 4)
    floor = cell.counters()["floor"]
    truth = rows(cell.schedulers.sync(Position()))
    for number, position in enumerate(positions):
        reply = cell.schedulers.sync(position)
        assert reply.full == (position.version <= floor)
        assert all(truth[index] == row for index, row in rows(reply).items())
        changed = {i % 3 for i in range(number, 20)}
        assert set(rows(reply)) == ({0, 1, 2} if reply.full else changed)
    assert any(not cell.schedulers.sync(position).full for position in positions[:-1])


def test_the_store_trims_by_itself(make: Make) -> None:
    """The memory of changes is bounded; the twin's is made small so that it happens."""
    cell = MemoryCell()
    cell.changes_kept = 10
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 8))], 0)
    for i in range(300):
        cell.machines.set_state(0, MachineState(1 - i % 2), 0, "ada")
        assert cell.version - cell.floor == len(cell.marks) <= 20
        assert len(cell.trail) <= 20


@pytest.mark.parametrize("make", ["resp3"], indirect=True)
@pytest.mark.parametrize(
    ("machines", "changed", "kept"), [(10_000, 10, 523), (10_000, 300, 32), (10**5, 1, 8192), (5, 10, 104)]
)
def test_the_change_list_keeps_what_is_shorter_than_a_full_read(
    stand: RedisStand, machines: int, changed: int, kept: int
) -> None:
    """As many versions as have 5,000 of these rows, 10 and a tag each: 32 to 8,192, and at least 1,000 rows."""
    cell, client, meta, changes = stand.cell, stand.cell.client, stand.key("meta"), stand.key("changes")
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 8))], 0)
    client.hset(stand.key("machines"), mapping={f"x{i}": "" for i in range(machines - 1)})
    entry = b"0123456789" + struct.pack("<8q", 0, 1, 0, 1, 4, 8, 0, 0) * changed
    while (version := cell.counters()["version"]) < 9 * 1024 - 1:
        more = min(256, 9 * 1024 - 1 - version)
        client.rpush(changes, *[entry] * more)
        client.hset(meta, "version", version + more)
    position = cell.schedulers.sync(Position()).position
    cell.machines.set_state(0, MachineState.DRAINED, 0, "ada")
    counters = cell.counters()
    assert counters["version"] - counters["floor"] == client.llen(changes) == kept
    reply = cell.schedulers.sync(position)
    assert (reply.full, [row[0] for row in reply.rows.tolist()]) == (False, [0])


@pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
def test_a_full_read_in_chunks_is_right_while_others_change(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk read early is mended by the delta since the first one; machines may join meanwhile."""
    assert isinstance(stand, RedisStand)
    monkeypatch.setattr(calls, "CHUNK", 200)  # smaller hashes are read whole, whatever is asked for
    cell, other = stand.cell, stand.other()
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (40, 80)) for i in range(600)], 0)
    cell.jobs.submit([job("a", count=99)], 0, "ada")
    member, scan, chunks = Member(other), cell.client.hscan, []

    def meddle(*arguments: Any, **options: Any) -> Any:
        chunks.append(arguments)
        member.place("a", (0, 1))
        member.place("a", (599, 1))
        if len(chunks) == 2:
            other.executors.register("e0", "n", 600_000, 0)
            other.machines.join("e0", [MachineSpec("late", (1, 1))], 0)
        return scan(*arguments, **options)

    monkeypatch.setattr(cell.client, "hscan", meddle)
    reply = cell.schedulers.sync(Position())
    monkeypatch.undo()
    assert len(chunks) > 1
    assert reply.full
    assert len(rows(reply)) == 601
    assert rows(reply) == rows(cell.schedulers.sync(Position()))
    assert rows(reply)[0][6] == rows(reply)[599][6] == len(chunks)
    assert not cell.schedulers.sync(reply.position).full


class Backup:
    """An older state of a store, put back: what a fail-over to a lagging replica looks like."""

    def __init__(self, stand: RedisStand) -> None:
        self.stand = stand
        self.dumps = {key: stand.cell.client.dump(key) or b"" for key in self.keys(stand)}

    def keys(self, stand: RedisStand) -> list[Any]:
        """Everything but the leases, which live by the server's clock."""
        keys: list[Any] = stand.cell.client.keys(stand.key("*"))
        return [key for key in keys if b":lease:" not in key]

    def restore(self) -> None:
        client = self.stand.cell.client
        client.delete(*self.keys(self.stand))
        for key, dump in self.dumps.items():
            client.restore(key, 0, dump)


@pytest.mark.parametrize("make", ["resp2", "resp3"], indirect=True)
def test_a_store_that_went_back_in_time(stand: RedisStand, cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=20)], 0, "ada")
    member.place("a", (0, 1))
    backup = Backup(stand)
    known = member.position
    member.place("a", (1, 1))
    lost, seen = member.position, member.seen(1)
    backup.restore()
    assert cell.schedulers.sync(lost).full, "a version the store does not have"
    assert not cell.schedulers.sync(known).full, "what both have in common is no loss"
    member.place("a", (1, 2))
    assert member.position.version >= lost.version, "the report of the cut has a version of its own on a server"
    assert member.seen(1) == seen, "the same number of another history"
    assert cell.schedulers.sync(lost).full
    claims = (Claim(1, 0, 1, seen=seen), Claim(2, 0, 1, seen=member.seen(2)))
    coarse = Transaction("a", claims, detection=Detection.COARSE)
    member.position = lost
    assert member.transact(coarse)[0].claims == ((0, Verdict.MOVED),) * 2
    assert member.transact(coarse)[0].accepted, "its copy is whole again"


def asking(*asks: tuple[int, int, int], kind: str = "batch", most: int = 9, owned: str = ALL) -> Intake:
    return Intake(kind, tuple(Ask(*each) for each in asks), most, owned)


def test_intake_in_order_of_arrival(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job(f"j{i}") for i in range(7)] + [job("s", kind="service")], 0, "ada")
    member.place("j2", (0, 1))
    assert {number: str(lane) for number, (_, lane) in cell.schedulers.lanes().items()} == {
        1: "batch 0 ,,",
        2: "service 0 ,,",
    }
    reply = cell.schedulers.sync(Position(), asking((1, 0, 4)))
    assert [pending.job.id for pending in reply.jobs] == ["j0", "j1", "j3", "j4"]
    assert (reply.jobs[0].job, reply.counts, reply.arrivals) == (cell.jobs.get("j0"), [4], 8)
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "*", "drain")], 0, "e0")
    last = reply.jobs[-1].arrival
    later = cell.schedulers.sync(Position(), asking((1, last, 4)))
    assert [pending.job.id for pending in later.jobs] == ["j5", "j6", "j2"], "what came back came last"
    nothing = cell.schedulers.sync(Position(), asking((1, later.jobs[-1].arrival, 4)))
    assert (nothing.jobs, nothing.counts, nothing.arrivals) == ([], [0], 9)
    assert cell.schedulers.sync(Position(), asking((1, 0, 4), kind="other")).jobs == []
    assert cell.schedulers.sync(Position(), asking((1, 0, 4), most=0)).jobs == []
    several = cell.schedulers.sync(Position(), asking((2, 0, 3), (9, 0, 3), (1, 0, 3), most=3, kind="service"))
    assert ([pending.job.id for pending in several.jobs], several.counts) == (["s"], [1, 0, 0])


def test_lanes_are_served_in_the_order_in_which_they_are_asked(cell: AnyCell) -> None:
    users = ["ada", "bob", "eve"]
    cell.jobs.submit([job(f"{user}{i}", spec={"user": user}) for i in range(3) for user in users], 0, "ada")
    numbers = {lane.user: number for number, (_, lane) in cell.schedulers.lanes().items()}
    asks = [(numbers["bob"], 0, 2), (numbers["eve"], 0, 9), (numbers["ada"], 0, 9)]
    reply = cell.schedulers.sync(Position(), asking(*asks, most=5))
    assert [pending.job.id for pending in reply.jobs] == ["bob0", "bob1", "eve0", "eve1", "eve2"]
    assert reply.counts == [2, 3, None]


def test_intake_of_the_own_buckets_only(cell: AnyCell) -> None:
    names = [f"j{i}" for i in range(60)]
    cell.jobs.submit([job(name) for name in names], 0, "ada")
    mine = {bucket_of(name) for name in names[:3] + names[15:17]}
    owned = "".join("1" if bucket in mine else "0" for bucket in range(BUCKETS))
    after, found = 0, list[str]()
    for _ in range(60):
        reply = cell.schedulers.sync(Position(), asking((1, after, 2), owned=owned))
        after = max([after, *(each.arrival for each in reply.jobs)])
        found += [pending.job.id for pending in reply.jobs]
    assert found == [name for name in names if bucket_of(name) in mine]


def test_intake_of_a_lane_whose_jobs_are_all_in_one_bucket(cell: AnyCell) -> None:
    """Each bucket gives a few jobs first; one that has most of them gives the rest."""
    names = [name for name in (f"j{i}" for i in range(3_000)) if bucket_of(name) == 7 or name in ("j0", "j40")]
    cell.jobs.submit([job(name) for name in names], 0, "ada")
    reply = cell.schedulers.sync(Position(), asking((1, 0, 50), most=50))
    assert [pending.job.id for pending in reply.jobs] == names[:50]


def test_intake_follows_the_queue_through_many_changes(cell: AnyCell, member: Member) -> None:
    """Jobs leave the queue and come back; what was swept out of the twin's list is not missed."""
    names = [f"j{i}" for i in range(200)]
    cell.jobs.submit([job(name, (0, 0)) for name in names], 0, "ada")
    member.transact(*(Transaction(name, (Claim(0, 0, 1),)) for name in names[:150]))
    runs = {run.job: run.placement for run in cell.machines.runs([0])}
    cell.executors.end([TaskEnd(0, runs[name], EndKind.EVICTED, "*", "drain") for name in names[10:20]], 0, "e0")
    order = names[150:] + names[10:20]
    assert cell.schedulers.pending() == {"batch": order}
    reply = cell.schedulers.sync(Position(), asking((1, 160, 100), most=100))
    assert [pending.job.id for pending in reply.jobs] == order[10:]


def test_facts_are_read_by_version(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (1, 2))], 5, "ada")
    member.place("a", (1, 1))
    member.place("a", (1, 1))
    facts = cell.log.facts()
    version = member.position.version
    assert [(fact.version, fact.at_ms, fact.by) for fact in facts[-3:]] == [
        (version - 2, 5, "ada"),
        (version - 1, 0, "batch/0"),
        (version, 0, "batch/0"),
    ]
    assert facts[-2].event == ("place", "1", "1", "a", "0", "0", "1,2")
    assert facts[-1].event == ("rejected", "a", "1"), "the last call changed nothing"
    assert cell.log.facts(version - 2) == facts[-2:]
    assert cell.log.facts(0, 1) == [fact for fact in facts if fact.version == 1]


@pytest.mark.parametrize("tasks", [1, 300], ids=["fast path", "general path"])
def test_the_log_has_what_a_commit_was_decided_on(cell: AnyCell, member: Member, tasks: int) -> None:
    cell.jobs.submit([job("a", (1, 2), tasks)], 5, "ada")
    known = cell.schedulers.sync(Position()).position
    cell.jobs.submit([job("b")], 6, "ada")
    transaction = Transaction("a", (Claim(1, 0, 1), Claim(0, 0, 9)))
    before = cell.counters()["version"]
    cell.schedulers.commit(
        CommitRequest(member.membership, 1, [transaction], Position(), 7, basis=Basis(known.version, 1_234))
    )
    cell.schedulers.commit(CommitRequest(member.membership, 2, [Transaction("b", (Claim(0, 0, 1),))], known, 8))
    first = {fact.basis and fact.basis[:2] for fact in cell.log.facts(before, 1)}
    assert first == {(known.version, 1_234)}, "as stated, whatever the call asks for"
    assert [fact.basis and fact.basis[:2] for fact in cell.log.facts(before + 1)] == [(known.version, 8)], (
        "else what the caller has, and now"
    )
    assert {fact.basis for fact in cell.log.facts(0, before)} == {None}


def test_running_tasks_of_some_jobs_by_group(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (1, 2), 3), job("b")], 0, "ada")
    member.place("a", (1, 2), (2, 1))
    assert cell.jobs.running(["b", "absent", "a"]) == {"a": [3], "b": [0]}
    cell.executors.end([TaskEnd(1, cell.machines.runs([1])[0].placement, EndKind.FINISHED)], 1, "e1")
    assert cell.jobs.running(["a"]) == {"a": [1]}


def test_running_tasks_of_a_job_by_machine(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", (1, 2), 7), job("b", (1, 2))], 0, "ada")
    member.place("a", (1, 2), (2, 1), (1, 1))
    member.place("b", (1, 1))
    assert cell.jobs.tasks_by_machine("absent") == {}
    assert cell.jobs.tasks_by_machine("a") == {1: 3, 2: 1}
    runs = [
        TaskEnd(run.machine, run.placement, EndKind.STOPPED) for run in cell.machines.runs([1, 2]) if run.job == "a"
    ]
    cell.executors.end([end._replace(how=EndKind.FINISHED) for end in runs if end.machine == 2], 1, "e1")
    assert cell.jobs.tasks_by_machine("a") == {1: 3}
    cell.executors.end([end for end in runs if end.machine == 1], 2, "ada")
    assert cell.jobs.tasks_by_machine("a") == {}, "they are leaving"


def test_jobs_by_id_without_what_only_schedulers_read(cell: AnyCell) -> None:
    cell.jobs.submit([job("a", spec={"pool": "x"}), job("b", count=3)], 1, "ada")
    found = cell.jobs.by_id(["b", "absent", "a"])
    assert {job_id: (one.unplaced, one.spec) for job_id, one in found.items()} == {"a": (1, {}), "b": (3, {})}
    assert cell.jobs.by_id([]) == {}

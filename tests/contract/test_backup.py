"""A backup is a cell at one version, whatever goes on; what is restored from it is that cell and goes on."""

import io
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgpack
import pytest

from omega.cellstate import backup as backup_file
from omega.cellstate.backup import AHEAD, Image, read_backup, restore
from omega.cellstate.errors import BadInput, Fenced
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell, cells
from omega.cellstate.shards import KEPT_MS
from omega.cellstate.tasks import STREAM, Consumption, EndKind, TaskEnd, TaskProgress, merged_consumption
from omega.cellstate.transaction import Position
from omega.cellstate.verify import verify
from tests.contract.conftest import Make, Member, RedisStand, job
from tests.contract.test_resend import everything, history

pytestmark = pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
Again = Callable[[Image], RedisCell]


@pytest.fixture
def stand(make: Make) -> RedisStand:
    """A cell that has seen a bit of everything."""
    found = make()
    assert isinstance(found, RedisStand)
    history(found.cell, found.expire_lease)
    return found


@pytest.fixture
def again(stand: RedisStand) -> Iterator[Again]:
    """Restores a backup beside the cell it is of, through its file."""
    made: list[RedisCell] = []

    def build(backup: Image) -> RedisCell:
        cell = restore(stand.connect(), through_a_file(backup), f"{stand.cell.name}-again", 99, "ada")
        assert isinstance(cell, RedisCell)
        made.append(cell)
        return cell

    yield build
    for cell in made:
        cell.delete()
        cell.close()


def written(backup: Image) -> bytes:
    to = io.BytesIO()
    assert backup_file.write(backup, to, "test") == len(to.getvalue())
    return to.getvalue()


def through_a_file(backup: Image) -> Image:
    return backup_file.read(io.BytesIO(written(backup)), "file")[0]


def test_what_is_restored_is_the_cell(stand: RedisStand, again: Again) -> None:
    before = everything(stand.cell)
    copy = again(read_backup(stand.cell, 1))
    after = everything(copy)
    # The log has one fact more, counters are ahead, and nobody's lease was taken along.
    facts, members, agents, counters = 7, 8, 9, 10
    assert after[:facts] == before[:facts]
    assert after[facts][:-1] == before[facts]
    assert after[facts][-1].event == ("restore", str(before[counters]["version"]), str(after[counters]["placements"]))
    assert {name: found[0] for name, found in after[members].items()} == {
        name: found[0] for name, found in before[members].items()
    }
    assert after[agents].keys() == before[agents].keys()
    assert after[counters + 1 :] == before[counters + 1 :]
    moved = {"version": 1, **AHEAD}
    same = {name: value for name, value in before[counters].items() if name not in (*moved, "floor")}
    assert {name: after[counters][name] for name in same} == same
    assert {name: after[counters][name] - before[counters][name] for name in moved} == moved
    assert verify(copy).ok
    assert copy.name in cells(stand.cell.client)


def test_what_agents_measured_is_restored_and_expires_as_before(stand: RedisStand, again: Again) -> None:
    """The output itself is not: its agent has it."""
    cell = stand.cell
    used = {("a", 0, machine, STREAM): Consumption(tasks=2, cpu_ms=machine).pack() for machine in range(3)}
    cell.tasks.keep_tails(used | {("a", 0, 1, "stdout"): b"words"})
    copy = again(read_backup(cell, 1))
    measured = Consumption(tasks=6, cpu_ms=3)
    assert merged_consumption(copy.tasks.measured("a")) == merged_consumption(cell.tasks.measured("a")) == measured
    assert (cell.tasks.tail("a", 0, 1, "stdout"), copy.tasks.tail("a", 0, 1, "stdout")) == (b"words", None)
    assert isinstance(cell, RedisCell)
    before, after = (each.client.pttl(f"{each.prefix}output") for each in (cell, copy))
    assert 0 < after <= before + 60_000
    assert verify(copy).ok
    copy.tasks.keep_tails({("a", 0, 7, STREAM): b"1 1 1 1"})
    assert merged_consumption(copy.tasks.measured("a")).tasks == 7
    assert verify(copy).ok


def test_a_queue_that_is_emptied_between_listing_and_reading_is_left_out(
    stand: RedisStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler placed its last job: "the key …:pending:service is a none, another program created it"."""
    assert isinstance(stand.cell, RedisCell)
    client, listed = stand.cell.client, stand.cell.client.scan_iter
    gone = f"omega:1:{{{stand.cell.name}}}:pending:gone".encode()
    monkeypatch.setattr(client, "scan_iter", lambda **words: [*listed(**words), gone])
    assert b"gone" not in read_backup(stand.cell, 1).hashes["arrivals"]


def test_a_restored_cell_goes_on(stand: RedisStand, again: Again) -> None:
    stand.cell.jobs.submit([job("writer", count=1, kind="other")], 99, "ada")
    assert stand.cell.shards.claim_directory("/out", "writer", expire_ms=KEPT_MS) is None
    copy = again(read_backup(stand.cell, 1))
    assert copy.shards.claim_directory("/out/part", "reader", expire_ms=KEPT_MS) == "writer", "a backup has the claims"
    member = Member(copy, "batch/7")
    copy.jobs.submit([job("new", count=2)], 100, "ada")
    assert member.place("new", (0, 1)).accepted
    placed = [run.placement for run in copy.machines.runs([0]) if run.job == "new"]
    copy.executors.end([TaskEnd(0, placed[0], EndKind.FINISHED)], 101, "e1")
    found = copy.jobs.get("new")
    assert found is not None
    assert (found.groups[0].finished, found.groups[0].unplaced) == (1, 1)
    assert verify(copy).ok


def test_jobs_with_copies_stay_listed_and_progress_is_left_out(stand: RedisStand, again: Again) -> None:
    groups = TaskGroup((1, 1), 1), TaskGroup((1, 1), 0, copies=True)
    stand.cell.jobs.submit([JobSpec("slow", "slow", "batch", groups)], 0, "ada")
    stand.cell.tasks.report_progress("slow", 0, [TaskProgress(0, 0, 5)])
    copy = again(read_backup(stand.cell, 1))
    assert (copy.jobs.copied("batch"), copy.tasks.reported_progress("slow", [0])) == (["slow"], {})
    assert verify(copy).ok


def test_executors_are_told_to_read_afresh(stand: RedisStand, again: Again) -> None:
    copy = again(read_backup(stand.cell, 1))
    assert copy.executors.receive(copy.executors.number("e1")) == ["!"]


def test_where_the_history_was_trimmed_it_stays_so(stand: RedisStand, again: Again) -> None:
    client: Any = stand.cell.client
    client.xtrim(stand.key("log"), minid="6-0")
    kept = stand.cell.log.facts()
    copy = again(read_backup(stand.cell, 1))
    assert copy.log.facts()[: len(kept)] == kept
    assert verify(copy).ok
    # Who stands anywhere before the restore reads everything; who stands after it gets what changed.
    version = copy.counters()["version"]
    old = stand.cell.schedulers.sync(Position()).position
    for position in (Position(), old, Position(version, old.tag), Position(version + 3, old.tag)):
        assert copy.schedulers.sync(position).full
    copy.jobs.submit([job("new")], 100, "ada")
    now = copy.schedulers.sync(Position()).position
    copy.jobs.submit([job("newer")], 100, "ada")
    assert not copy.schedulers.sync(now).full


def test_a_cell_that_changes_while_it_is_read(stand: RedisStand, again: Again) -> None:
    """Whatever is being read, somebody has just changed it: the result is the cell at one version all the same."""
    other, rng, number = stand.other(), Random("backup/changes"), 0
    member = Member(other, "batch/9")

    def change(_: int) -> None:
        nonlocal number
        number += 1
        other.jobs.submit([job(f"late-{number}", count=2, kind=rng.choice(("batch", "mine")))], number, "ada")
        other.executors.register("e9", "n", 600_000, 0)
        index = other.machines.join("e9", [MachineSpec(f"late{number}", (4, 8), {"rack": f"r{number}"})], number)[0]
        if rng.random() < 0.7:
            member.place(f"late-{number}", (index, 1))
        ended = [TaskEnd(0, run.placement, EndKind.FINISHED) for run in other.machines.runs([0])[:1]]
        ended += [TaskEnd(index - 1, run.placement, EndKind.FAILED) for run in other.machines.runs([index - 1])[:1]]
        other.executors.end(ended, number, "e1")

    backup = read_backup(stand.cell, 1, change)
    assert number > 5
    copy = again(backup)
    report = verify(copy)
    assert (report.ok, report.violations) == (True, ())


def test_a_cell_is_written_over_and_what_worked_on_it_is_fenced(stand: RedisStand) -> None:
    backup = read_backup(stand.cell, 1)
    member = Member(stand.cell, "batch/3")
    stand.cell.jobs.submit([job("later", count=3)], 100, "ada")
    member.place("later", (0, 1))
    given = stand.cell.counters()
    restore(stand.connect(), backup, stand.cell.name, 200, "ada").close()
    assert stand.cell.jobs.get("later") is None
    with pytest.raises(Fenced):
        member.place("held", (0, 1))
    now = stand.cell.counters()
    assert now["placements"] > given["placements"]
    assert now["incarnations"] > given["incarnations"]
    assert verify(stand.cell).ok


def test_until_all_is_written_there_is_no_cell(stand: RedisStand, monkeypatch: pytest.MonkeyPatch) -> None:
    backup, name = read_backup(stand.cell, 1), f"{stand.cell.name}-half"

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(stand.connect(), backup, name, 1, "ada", told=stop)
    assert name not in cells(stand.cell.client)
    copy = restore(stand.connect(), backup, name, 1, "ada")
    assert verify(copy).ok
    copy.delete()
    copy.close()


def test_a_key_that_no_cell_has_is_named(stand: RedisStand) -> None:
    stand.cell.client.sadd(stand.key("mine"), "x")
    with pytest.raises(Exception, match="mine is a set, which is no part of a cell"):
        read_backup(stand.cell, 1)


# Files


def test_a_file_may_hold_several_cells(stand: RedisStand) -> None:
    backup = read_backup(stand.cell, 1)
    both = io.BytesIO(written(backup) + written(backup))
    assert [each.records for each in backup_file.read(both, "file")] == [backup.records] * 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not written by omega store backup"),
        (b"jobs: []\n", "not written by omega store backup"),
        (b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtins.", "not written by omega store backup"),
        (
            msgpack.packb(["omega-backup", 1, {}]),
            "written in format 1, this Omega reads format 3; use the Omega that wrote it",
        ),
        (msgpack.packb(["omega-backup", 4, {}]), "written in format 4, this Omega reads format 3; use the newer Omega"),
        (msgpack.packb(["omega-backup", 3, {"cell": 7}]), "it is damaged, or something else"),
    ],
)
def test_what_is_no_backup_is_refused(make: Make, data: bytes, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        backup_file.read(io.BytesIO(data), "file")


def test_a_damaged_file_is_refused_wherever_it_is_damaged(stand: RedisStand) -> None:
    data, rng = written(read_backup(stand.cell, 1)), Random("backup/damage")
    for _ in range(200):
        at = rng.randrange(len(data))
        with pytest.raises(BadInput):
            backup_file.read(io.BytesIO(data[:at]), "cut")
        changed = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        with pytest.raises(BadInput):
            backup_file.read(io.BytesIO(changed), "changed")

"""Copies of a cell of ten thousand versions with every kind of entry: backup, restore, recording, export."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from omega.cellstate import backup as backup_file
from omega.cellstate.backup import AHEAD, Image, read_backup, restore
from omega.cellstate.events import FORMS
from omega.cellstate.model import TaskGroup
from omega.cellstate.redis import RedisCell, cells
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Transaction
from omega.recording.file import Writer
from omega.recording.judge import judge
from omega.recording.recorder import Recorder
from omega.recording.recording import load
from tests.cli.conftest import Omega
from tests.contract.conftest import Member
from tests.unit.cellstate.audit.tampered import full
from tests.unit.cellstate.audit.town import Town, job

pytestmark = pytest.mark.server
VERSIONS, AT_ONCE = 10_000, 40
ONE = TaskGroup((1, 1), 1)


@pytest.fixture(scope="module")
def town(store_url: str) -> Iterator[Town]:
    """A cell in which everything has happened, and then thousands of short jobs; nothing may change it."""
    with full(store_url) as town:
        town.client.hdel(town.prefix + "meta", "durability")  # this server has no replicas
        restore(town.client, read_backup(town.cell, 1), town.cell.name, 30, "ada").close()  # the fact of a restore
        copy = RedisCell.open(town.client, town.cell.name)
        member = Member(copy)
        for number in range(VERSIONS):
            if copy.counters()["version"] >= VERSIONS:
                break
            live(copy, member, f"short-{number}")
        copy.close()
        yield town


def live(cell: RedisCell, member: Member, name: str) -> None:
    """Forty jobs of a task, placed on machine 0 with a transaction each; the tasks end one by one."""
    names = [f"{name}-{number}" for number in range(AT_ONCE)]
    cell.jobs.submit([job(each, ONE) for each in names], 31, "ada")
    outcomes = member.transact(*(Transaction(each, (Claim(0, 0, 1),)) for each in names))
    assert all(outcome.accepted for outcome in outcomes)
    mine = [run.placement for run in cell.machines.runs([0]) if run.job.startswith(f"{name}-")]
    for placement in mine:
        cell.executors.end([TaskEnd(0, placement, EndKind.FINISHED)], 32, "simulated")


@pytest.fixture
def omega(store_url: str, town: Town) -> Omega:
    return Omega(store_url, town.cell.name)


@pytest.fixture
def beside(town: Town) -> Iterator[str]:
    """The name of a copy; what has it is deleted."""
    name = f"{town.cell.name}-{uuid4().hex[:4]}"
    yield name
    if name in cells(town.client):
        RedisCell.open(town.client, name).delete()


def flat(town: Town, name: str = "") -> Image:
    """The records of the cell, or of another one."""
    cell = RedisCell.open(town.client, name or town.cell.name)
    backup = read_backup(cell, 1)
    backup.cell = town.cell.name
    return backup


def check_copy(town: Town, name: str) -> None:
    """A copy has every record and entry of the cell, the fact of its restore, and counters that are ahead."""
    before, after = flat(town), flat(town, name)
    assert after.log[:-1] == before.log
    assert after.log[-1][1][-1].startswith(b"restore ")
    assert (after.zsets, after.lists, after.strings) == (before.zsets, before.lists, before.strings)
    assert after.hashes.keys() == before.hashes.keys()
    assert {key for key, records in after.hashes.items() if records != before.hashes[key]} == {"meta"}
    moved = {b"version", b"floor", *(counter.encode() for counter in AHEAD)}
    same = [{key: value for key, value in each.hashes["meta"].items() if key not in moved} for each in (before, after)]
    assert same[0] == same[1]


def test_the_cell_has_every_kind_of_entry(town: Town) -> None:
    facts = town.cell.log.facts(most=1_000_000)
    assert town.cell.counters()["version"] >= VERSIONS
    assert {fact.event[0] for fact in facts} == {*FORMS}


def test_a_backup_is_read_back_checked_and_restored(town: Town, omega: Omega, beside: str, tmp_path: Path) -> None:
    file = str(tmp_path / "cell.omega")
    (written,) = omega.json("store", "backup", file)["cells"]
    assert (written["version"], written["entries"]) == (town.cell.counters()["version"], len(flat(town).log))
    (found,) = Omega("unix:///nowhere").json("store", "backup", "--check", file)["cells"]
    assert found.pop("age_seconds") >= 0
    assert found == {name: value for name, value in written.items() if name != "bytes"}
    (restored,) = Omega(omega.url).json("store", "restore", file, "--as", beside)["cells"]
    assert restored["ok"], restored["violations"]
    check_copy(town, beside)


def test_a_backup_that_is_not_read_back_is_none(
    town: Town, omega: Omega, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that loses an entry: the file is not there, the earlier one is."""
    file = tmp_path / "cell.omega"
    file.write_text("the last one")
    pieces = backup_file._pieces

    def lossy(backup: Image) -> Iterator[list[Any]]:
        for piece in pieces(backup):
            yield piece if piece[1] != "stream" else [*piece[:3], piece[3][int(piece[3][1]) + 2 :]]

    monkeypatch.setattr(backup_file, "_pieces", lossy)
    error = omega.error("store", "backup", str(file), "--force")
    assert error.startswith(f"backup {file}: log of cell {town.cell.name} is read back as something else than")
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "the last one"
    assert "read back as something else" in omega.run("store", "backup", "-", code=1).stderr


def test_a_recording_of_the_whole_log_is_read_and_judged(town: Town, tmp_path: Path) -> None:
    """The picture of the cell, and the facts that came after it."""
    path = tmp_path / "a.rec.gz"
    with path.open("wb") as file:
        recorder = Recorder(town.cell, Writer(file))
        recorder.begin()
        while recorder.step():
            pass
        recorder.end("time")
    (segment,) = load(path).segments
    assert segment.picture["version"] == town.cell.counters()["version"]
    assert judge(segment, town.cell.dimensions).ok


@pytest.mark.chaos
def test_the_safety_copy_of_a_restore_is_restored(town: Town, omega: Omega, beside: str, tmp_path: Path) -> None:
    first, file = str(tmp_path / "first.omega"), str(tmp_path / "second.omega")
    omega.run("store", "backup", first)
    other = Omega(omega.url)
    other.run("store", "restore", first, "--as", beside)
    there = Omega(omega.url, beside)
    there.run("store", "backup", file)
    there.run("job", "run", "--name", "after-the-backup", "--detach")
    before = read_backup(RedisCell.open(town.client, beside), 1)
    (kept,) = there.json("store", "restore", file, "--force")["overwritten"].values()
    with Path(kept).open("rb") as source:
        (copy,) = backup_file.read(source, kept)
    assert (copy.hashes, copy.lists, copy.log) == (before.hashes, before.lists, before.log)
    (again,) = there.json("store", "restore", kept, "--force", "--no-backup")["cells"]
    assert again["ok"], again["violations"]
    assert there.json("job", "status", "after-the-backup")["state"] == "pending"


@pytest.mark.chaos
def test_a_backup_while_four_schedulers_commit(town: Town, store_url: str, beside: str, tmp_path: Path) -> None:
    restore(town.client, flat(town), beside, 1, "ada").close()
    stop, failed, rounds = threading.Event(), list[BaseException](), [0] * 4

    def work(number: int) -> None:
        try:
            cell = RedisCell.open(connect(store_url), beside)
            member = Member(cell, f"batch/{number + 5}")
            while not stop.is_set():
                rounds[number] += 1
                commit(cell, member, f"while-{number}-{rounds[number]}", number)
            cell.close()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    there, done = Omega(store_url, beside), list[Any]()
    for number in range(3):
        done += there.json("store", "backup", str(tmp_path / f"{number}.omega"))["cells"]
    stop.set()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert done[0]["version"] < done[1]["version"] < done[2]["version"]
    (again,) = there.json("store", "restore", str(tmp_path / "1.omega"), "--force", "--no-backup")["cells"]
    assert again["ok"], again["violations"]
    assert again["version"] == done[1]["version"]


def commit(cell: RedisCell, member: Member, name: str, machine: int) -> None:
    """A job of three tasks is placed; some end."""
    cell.jobs.submit([job(name, TaskGroup((1, 1), 3))], 40, "ada")
    member.transact(Transaction(name, (Claim(machine, 0, 3),)))
    mine = [run.placement for run in cell.machines.runs([machine]) if run.job == name]
    cell.executors.end([TaskEnd(machine, placement, EndKind.FINISHED, "0-1") for placement in mine], 41, "simulated")


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_a_damaged_file_is_found_without_a_server(town: Town, omega: Omega, tmp_path: Path, at: float) -> None:
    file = tmp_path / "cell.omega"
    omega.run("store", "backup", str(file))
    data = bytearray(file.read_bytes())
    data[int(at * len(data))] ^= 1
    file.write_bytes(data)
    assert f"backup {file}: " in Omega("unix:///nowhere").error("store", "backup", "--check", str(file))

"""`omega store backup` and `restore`: a cell as a file, and back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.cellstate import backup as backup_file, keys
from omega.cellstate.backup import read_backup
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell, cells
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.cli.conftest import Omega, join

pytestmark = pytest.mark.server


@pytest.fixture
def omega(store_url: str, cell: RedisCell) -> Iterator[Omega]:
    """The program on a cell with two machines and a job; what was restored beside it is deleted."""
    join(cell, 2)
    program = Omega(store_url, cell.name)
    program.run("job", "run", "--name", "crawl", "--count", "3", "--detach")
    yield program
    if f"{cell.name}-b" in cells(cell.client):
        RedisCell.open(cell.client, f"{cell.name}-b").delete()


def test_there_and_back(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    file = str(tmp_path / "cell.omega")
    header, row = omega.text("store", "backup", file).splitlines()
    assert header.split() == ["cell", "version", "schema", "machines", "jobs", "entries", "records", "bytes"]
    assert row.split()[:6] == [cell.name, "3", str(keys.SCHEMA), "2", "1", "3"]
    header, row = Omega("unix:///nowhere").text("store", "backup", "--check", file).splitlines()
    assert header.split() == ["cell", "version", "schema", "machines", "jobs", "entries", "records", "age"]
    assert row.split()[:6] == [cell.name, "3", str(keys.SCHEMA), "2", "1", "3"]
    assert Omega(None, "other").error("store", "backup", "--check", file) == f"backup {file}: has no cell 'other'"
    assert (tmp_path / "cell.omega").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "cell.omega"]

    beside = Omega(omega.url)
    name = f"{cell.name}-b"
    header, row = beside.text("store", "restore", file, "--as", name).splitlines()
    assert row.split() == [name, "3", "2", "3", "1", "ok"]
    restored = Omega(omega.url, name)
    assert restored.json("job", "status", "crawl")["counts"]["pending"] == 3
    assert "the cell was restored from a backup of version 3" in restored.text("events")

    omega.run("job", "stop", "crawl")
    assert omega.error("store", "restore", file) == (
        f"cell {cell.name}: exists, with 2 machines and 0 live jobs; "
        "--force overwrites it, --as NAME restores under another name"
    )
    version = cell.counters()["version"]
    found = omega.json("store", "restore", file, "--force")
    (kept,) = found.pop("overwritten").values()
    assert omega.json("store", "restore", kept, "--force", "--no-backup")["cells"][0]["version"] == version
    found = omega.json("store", "restore", file, "--force", "--no-backup")
    assert found.pop("overwritten") == {}
    assert found == {
        "file": file,
        "ok": True,
        "cells": [
            {
                "cell": cell.name,
                "version": 3,
                "checked": {"machines": 2, "tasks": 3, "jobs": 1},
                "ok": True,
                "violations": [],
            }
        ],
    }
    assert omega.json("job", "status", "crawl")["state"] == "pending"


def test_what_will_be_missing_is_said_before_anything_is_changed(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    for name in ("h1", "h2"):
        agent = cell.executors.register_agent(name, "n", 60_000, 1)
        cell.machines.join(f"agent/{name}", [MachineSpec(name, (4000, 4096))], 1)
        assert agent.incarnation
    member = cell.schedulers.register("batch/0", "n", 60_000, 1)
    index = next(machine.index for machine in cell.machines.all() if machine.name == "h2")
    claim = Transaction(cell.jobs.all()[0].id, (Claim(index, 0, 2),))
    assert cell.schedulers.commit(CommitRequest(member, 1, [claim], Position(), 1)).outcomes[0].accepted
    file = str(tmp_path / "cell.omega")
    omega.run("store", "backup", file)
    cell.client.delete(cell.prefix + "lease:agent/h2")
    said = omega.run("store", "restore", file, "--force").stderr
    assert (
        f"cell {cell.name}: 1 machine of the backup (2 running tasks) without a live agent in this store: h2; " in said
    )
    said = omega.run("store", "restore", file, "--as", f"{cell.name}-b").stderr
    assert "2 machines of the backup (2 running tasks) without a live agent in this store: h1, h2; if no" in said


def test_the_file_is_not_overwritten_unasked(omega: Omega, tmp_path: Path) -> None:
    file = tmp_path / "cell.omega"
    file.write_text("mine")
    assert omega.error("store", "backup", str(file)) == f"backup {file}: exists; --force overwrites it"
    assert file.read_text() == "mine"
    assert omega.json("store", "backup", str(file), "--force")["bytes"] == file.stat().st_size


def test_into_a_pipe(omega: Omega, tmp_path: Path) -> None:
    result = omega.run("store", "backup", "-")
    (tmp_path / "piped").write_bytes(result.stdout_bytes)
    assert result.stderr == "1 cell written\n"
    assert "exists, with" in omega.error("store", "restore", str(tmp_path / "piped"))


def test_what_cannot_be_restored(omega: Omega, tmp_path: Path) -> None:
    other = tmp_path / "jobs.yaml"
    other.write_text("name: crawl\n")
    assert "not written by omega store backup" in omega.error("store", "restore", str(other))
    assert "No such file" in omega.error("store", "restore", str(tmp_path / "none"))
    file = str(tmp_path / "cell.omega")
    omega.run("store", "backup", file)
    assert Omega(omega.url, "elsewhere").error("store", "restore", file) == f"backup {file}: has no cell 'elsewhere'"
    assert omega.error("store", "restore", file, "--as", "a b") == "cell name 'a b': use letters, digits, . _ -"
    assert "choose another place" in omega.error("store", "backup", str(tmp_path / "none" / "file"))


def test_a_draft_that_somebody_else_made_does_not_receive_the_backup(omega: Omega, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    (tmp_path / "cell.omega.part").symlink_to(elsewhere)
    omega.run("store", "backup", str(tmp_path / "cell.omega"))
    assert elsewhere.read_text() == "theirs"
    assert (tmp_path / "cell.omega").stat().st_mode & 0o777 == 0o600


def test_another_schema_is_refused_wherever_it_is_met(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    backup, file = read_backup(cell, 1), tmp_path / "cell.omega"
    cell.client.hset(keys.prefix(cell.name) + "meta", "schema", 2)
    said = f"cell {cell.name}: written with schema 2, this Omega has schema 1; use the newer Omega"
    for words in (("job", "list"), ("store", "backup", str(file))):
        assert omega.error(*words) == f"{said}, or name another cell with --cell"
    backup.schema = 2
    with file.open("wb") as to:
        backup_file.write(backup, to, "another")
    assert omega.error("store", "backup", "--check", str(file)) == said
    assert omega.error("store", "restore", str(file), "--as", "other") == said


def test_cells_of_a_version_before_the_first_schema_are_named(omega: Omega, cell: RedisCell) -> None:
    elsewhere = Omega(omega.url, "elsewhere")
    assert "before schema 1" not in elsewhere.error("job", "list")
    cell.client.sadd(keys.UNREAD, "prod")
    said = elsewhere.error("job", "list")
    assert "xargs valkey-cli unlink omega:cells); make one with omega cell create elsewhere" in said
    cell.client.delete(keys.UNREAD)

"""docs/operations.md is true: a cell of the older version is upgraded with its commands, beside processes of both."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate import keys
from omega.cellstate.backup import NAMES, Backup, file
from omega.cellstate.backup.restore import _write_key
from omega.cellstate.backup.upgrade import STEPS
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.cli.conftest import Omega
from tests.integration.stage import own_server, until
from tests.tutorial.page import DOCS, blocks
from tests.tutorial.test_tour import Reader

pytestmark = pytest.mark.server
OLD = keys.SCHEMA - 1
OLDER = (
    "import sys; from omega.cellstate import keys; from omega.cellstate.backup.upgrade import STEPS; "
    f"keys.SCHEMA = {OLD}; STEPS.clear(); from omega.cli.main import main; sys.argv[0] = 'omega'; main()"
)
"""A program that takes itself for the version before: it makes cells of its schema, and refuses those of another."""


def write_older(client: Any, backup: Backup) -> None:
    """Write the records of a backup as they are, as the version that made it would have them."""
    prefix = keys.prefix(backup.cell)
    names = {static.partition(b"\n")[0]: index for index, static in backup.bulk["static"].items()}
    for name, records in (*backup.bulk.items(), (NAMES, names)):
        if records:
            client.hset(prefix + name, mapping=records)
    for name, key in backup.small.items():
        _write_key(client, prefix + name, key, lambda _: None)
    for entry, fields in backup.log:
        client.xadd(prefix + "log", dict(zip(fields[::2], fields[1::2], strict=True)), id=entry)


def test_a_cell_of_the_older_version_is_upgraded(store_url: str, tmp_path: Path) -> None:
    client: Any = connect(store_url)
    with (DOCS / "examples" / f"schema-{OLD}.omega").open("rb") as source:
        (backup,) = file.read(source, "the example")
    assert backup.schema == OLD
    write_older(client, backup)
    own = {"OMEGA_STORE": store_url, "OMEGA_CELL": backup.cell, "OMEGA_USER": "ada"}
    reader, page = Reader(tmp_path, os.environ | own), blocks("operations.md")
    shown = [(text, output) for (kind, text), (_, output) in pairwise(page) if kind == "sh"]
    assert len(shown) == 3
    for command, output in shown:
        reader.paste(command.strip(), output)
    assert {key.rpartition(b":")[2] for key in client.keys(keys.prefix(backup.cell) + "aside:*")} == set()
    RedisCell.connect(store_url, backup.cell).delete()


@contextmanager
def running(url: str, folder: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process of the older version; it is ended afterwards."""
    own = {"OMEGA_STORE": url, "OMEGA_CELL": "c", "OMEGA_STATE": str(folder / "state"), "OMEGA_LOG": "info"}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", OLDER, *words], env=os.environ | own, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.chaos
def test_old_and_new_processes_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For this test the schema before the present one has the same records."""
    monkeypatch.setitem(STEPS, OLD, lambda _: None)
    with own_server() as server:
        new = Omega(server.url, "c")
        with running(server.url, tmp_path, "cell", "create", "c") as made:
            assert made.wait(60) == 0
        with running(server.url, tmp_path, "scheduler", "run", "batch") as old:
            log = tmp_path / "log"
            until(lambda: "joined" in log.read_text(), "the older scheduler is at work")
            assert f"written with schema {OLD}, this Omega has schema {keys.SCHEMA}" in new.error("job", "list")
            assert "batch/0 still at work; stop schedulers and agents" in new.error("store", "migrate", "c")
            os.killpg(old.pid, signal.SIGSTOP)
            time.sleep(6)  # its lease is 5 s
            assert new.text("store", "migrate", "c") == f"cell c: migrated from schema {OLD} to {keys.SCHEMA}\n"
            before = new.json("cell", "status")["version"]
            os.killpg(old.pid, signal.SIGCONT)
            until(lambda: "in the form of another version of Omega; restart with that version" in log.read_text(), "")
            assert log.read_text().count("restart with that version") == 1
            assert old.poll() is None, "it waits"
            assert new.json("cell", "status")["version"] == before, "it changes nothing"
            with running(server.url, tmp_path, "job", "list") as late:
                assert late.wait(60) == 1
            assert f"written with schema {keys.SCHEMA}, this Omega has schema {OLD}" in log.read_text()
        assert new.json("cell", "verify")["ok"]

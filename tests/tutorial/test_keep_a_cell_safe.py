"""A cell as a file: deleted by mistake, and had back. Read from top to bottom."""

from pathlib import Path

import pytest

from tests.cli.conftest import Omega

pytestmark = pytest.mark.server


def test_keep_a_cell_safe(store_url: str, tmp_path: Path) -> None:
    omega = Omega(store_url, "to-keep")
    omega.run("cell", "create", "to-keep", "--machines", "10", "--cpu", "4", "--memory", "8Gi")
    omega.run("job", "run", "--name", "crawl", "--count", "40", "--cpu", "1", "--detach")

    # A file holds the whole cell, whatever server it was on; schedulers may be at work meanwhile.
    file = str(tmp_path / "cells.omega")
    omega.run("store", "backup", file)

    # Somebody deletes the cell by mistake …
    omega.run("cell", "delete", "--yes")
    assert "unknown cell 'to-keep'" in omega.error("job", "list")

    # … and has it back, verified, with its jobs and its history.
    assert omega.text("store", "restore", file).splitlines()[1].split()[-1] == "ok"
    assert omega.json("job", "status", "crawl")["counts"]["queued"] == 40
    assert "restored from a backup" in omega.text("events")
    omega.run("cell", "delete", "--yes")

"""Processes of two versions of Omega at one cell: the number of its rules decides who works on it."""

from pathlib import Path

import pytest

from omega.cellstate import keys
from omega.live.processes.supervisor import ProcessSupervisor
from tests.cli.conftest import Omega
from tests.integration.stage import made_cell, until

pytestmark = pytest.mark.server
LEASE_MS = 60_000


def test_a_scheduler_waits_while_its_cell_has_other_rules(store_url: str, tmp_path: Path) -> None:
    with (
        made_cell(store_url, "older-rules") as cell,
        ProcessSupervisor(cell.url, cell.name, tmp_path, bound=True, lease_ms=LEASE_MS) as group,
    ):
        group.start("batch/0")
        group.wait_ready(cell)
        prefix, omega = keys.prefix(cell.name), Omega(store_url, cell.name)
        cell.client.hset(prefix + "meta", "rules", keys.RULES - 1)
        said = f"has rules number {keys.RULES - 1}, this Omega has number {keys.RULES}; run omega cell upgrade"
        until(lambda: said in (group.logs / "batch-0.log").read_text(), "the scheduler waits")
        assert said in omega.error("job", "list")
        refused = omega.error("cell", "upgrade")
        assert f"cell {cell.name} has rules number {keys.RULES - 1}, and batch/0" in refused
        cell.client.delete(f"{prefix}lease:batch/0")
        document = {"cell": cell.name, "rules": keys.RULES, "before": keys.RULES - 1}
        assert omega.json("cell", "upgrade") == document
        until(lambda: cell.client.exists(f"{prefix}lease:batch/0"), "the scheduler goes on")

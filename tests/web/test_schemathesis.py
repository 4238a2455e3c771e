"""schemathesis on a live cell: whatever a request has, the answer is one that the OpenAPI document describes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.browser.demo_cell import fill
from tests.conftest import ROOT
from tests.web.serving import Console, serving

EXCLUDED = {
    "positive_data_acceptance": "the cell refuses what the types allow: names in use, pools that do not exist",
}
"""Checks that are left out, and why."""
LEAST = 5_000
"""Requests of the long form."""


@pytest.fixture
def console(store_url: str, tmp_path: Path) -> Iterator[Console]:
    """A server for a filled cell that the test may change at will."""
    demo = fill(store_url, f"fuzz-{uuid4().hex[:8]}")
    with serving(store_url, demo.cell.name, tmp_path) as console:
        yield console
    demo.cell.delete()
    demo.cell.close()


def run(console: Console, folder: Path, *options: str) -> dict[str, Any]:
    """Run schemathesis; fails with its output when a check fails. Returns its report."""
    report = folder / "report.json"
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(ROOT / "tests/web/schemathesis.toml"),
        "run", console.address_of("/v1/openapi.json"),
        "--header", f"Authorization: Bearer {console.tokens['operator']}",
        "--exclude-checks", ",".join(EXCLUDED), "--report-json-path", str(report), "--no-color", *options,
    ]  # fmt: skip
    environment = os.environ | {"OMEGA_CELL": console.cell, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout[-20_000:])
    if done.returncode:
        pytest.fail(f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}", pytrace=False)
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


def test_requests_of_the_document_are_answered_as_it_says(console: Console, tmp_path: Path) -> None:
    run(console, tmp_path, "--phases", "examples,fuzzing", "--max-examples", "3", "--generation-deterministic")


@pytest.mark.chaos
def test_thousands_of_requests_are_answered_as_the_document_says(console: Console, tmp_path: Path) -> None:
    report = run(console, tmp_path, "--max-examples", "100", "--workers", "2")
    assert report["test_cases"]["generated"] >= LEAST

"""The same seed gives the same results in other processes: whatever the hash seed, however many work."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omega.simulation import ARCHITECTURES

OMEGA = (sys.executable, "-c", "from omega.cli.main import main; main()")
SWEEP = (
    "sim", "sweep", "--days", "0.004", "--machines", "60", "--workload", "A", "--t-job-service", "20", "--t-job-batch",
    "1", "--vary", f"architecture={','.join(ARCHITECTURES)}", "--vary", "detection=fine,coarse",
)  # fmt: skip


def swept(folder: Path, hash_seed: int, workers: int) -> list[dict[str, Any]]:
    """The records of a sweep by another process, in the order of their keys, without the seconds they took."""
    path = folder / f"{hash_seed}-{workers}.jsonl"
    words = (*OMEGA, *SWEEP, "--workers", str(workers), "--results", str(path))
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=300)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(({**record, "seconds": 0.0} for record in records), key=lambda record: record["key"])


@pytest.mark.chaos
def test_results_depend_on_no_hash_seed_and_no_number_of_workers(tmp_path: Path) -> None:
    first = swept(tmp_path, 0, 1)
    assert len(first) == 2 * len(ARCHITECTURES)
    assert len({record["digest"] for record in first}) > len(ARCHITECTURES)
    assert swept(tmp_path, 1, 2) == first
    assert swept(tmp_path, 2, 1) == first


@pytest.mark.chaos
def test_results_are_the_same_with_eight_workers(tmp_path: Path) -> None:
    assert swept(tmp_path, 1, 8) == swept(tmp_path, 2, 1)

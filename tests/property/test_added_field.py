"""A field that is added to the table of a job's record needs no change of what reads and writes the others."""

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


@pytest.mark.chaos
def test_records_with_further_fields_pass_through_scripts_and_python() -> None:
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.property.added_fields"]
    chosen = ["tests/property/test_fast_path.py", "-k", "same_bytes and 1-2 or take_the_fast_path and 1-0-5-2"]
    done = subprocess.run([*program, *chosen], check=False, cwd=TOP, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 passed" in done.stdout

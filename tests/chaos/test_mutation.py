"""A sample of mutants: no more survive than are known."""

import os
import subprocess
import sys

import pytest

from tests.chaos.mutation import ALL, TREE

COUNT = 60
MOST = 3
"""Survivors a sample may have; docs/faults.md explains those that are known."""


def test_every_file_and_test_of_the_tables_is_there() -> None:
    tests = {part for runs in ALL.values() for run in runs for part in run if part.startswith("tests/")}
    assert [path for path in sorted({*ALL, *tests}) if not (TREE / path).exists()] == []


@pytest.mark.chaos
@pytest.mark.parametrize("files", [(), ("scheduling",), ("edges",)])
def test_tests_notice_nearly_every_mutant(files: tuple[str, ...]) -> None:
    """SEED and MUTANTS in the environment choose another sample."""
    seed, count = os.environ.get("SEED", "2"), os.environ.get("MUTANTS", str(COUNT))
    command = [sys.executable, "-m", "tests.chaos.mutation", seed, count, *files]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == int(count)
    survivors = [line for line in lines if line.startswith("survives")]
    sys.stdout.write("\n".join(survivors))
    assert len(survivors) <= MOST, "\n".join(survivors)

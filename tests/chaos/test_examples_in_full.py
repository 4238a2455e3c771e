"""The tests that Hypothesis draws, with all of its examples instead of a third of them."""

import os
import subprocess
import sys

import pytest

from tests.chaos.mutation import TREE


@pytest.mark.chaos
@pytest.mark.parametrize("folder", ["unit", "contract", "property", "simulation"])
def test_all_examples_pass(folder: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis and not chaos", f"tests/{folder}"]
    done = subprocess.run(
        command, cwd=TREE, env=os.environ | {"HYPOTHESIS_PROFILE": "full"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:]

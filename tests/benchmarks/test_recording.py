"""The benchmark of the recorder, in its smallest form."""

from typing import Any

import pytest

from benchmarks.instructions import countable
from benchmarks.recording import LIMIT, Settings, measure


@pytest.mark.server
@pytest.mark.skipif(not countable(), reason="needs valgrind")
@pytest.mark.chaos
def test_a_recorder_costs_the_server_less_than_the_limit() -> None:
    found: Any = measure(Settings(forms=("packed",), machines=20, jobs=64, timed=320))
    (form,) = found["forms"]
    assert 0 < form["recorder_per_task"] < LIMIT * form["per_task"]
    assert found["followed"]["tasks"] == 3_200

"""A yard with one executor, for most tests."""

import pytest

from omega.live.simulated.executor import SimulatedExecutor
from tests.unit.omega.live.yard import Yard


@pytest.fixture
def yard() -> Yard:
    return Yard()


@pytest.fixture
def executor(yard: Yard) -> SimulatedExecutor:
    return yard.executors["a"]

"""A yard with one fleet, for most tests."""

import pytest

from omega.live.fleet import Fleet
from tests.unit.omega.live.yard import Yard


@pytest.fixture
def yard() -> Yard:
    return Yard()


@pytest.fixture
def fleet(yard: Yard) -> Fleet:
    return yard.fleets["a"]

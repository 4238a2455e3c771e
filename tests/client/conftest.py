"""A cell on a real server, the program, and a client of the same cell."""

from collections.abc import Iterator

import pytest

from omega.client.client import Client
from tests.cli.conftest import Omega, at_work, cell, omega

__all__ = ["at_work", "cell", "client", "omega"]


@pytest.fixture
def client(omega: Omega) -> Iterator[Client]:
    """A client of the test's cell, for the user of the program."""
    with Client(omega.url, omega.cell, user=omega.user) as made:
        yield made

"""A cell on a real server with machines, jobs, pools and a scheduler, the program, and a client of the application."""

from collections.abc import AsyncIterator

import httpx
import pytest

from omega.web.service import Service
from tests.cli.conftest import Omega, at_work, cell, omega
from tests.web.visiting import visit

__all__ = ["at_work", "cell", "omega"]


@pytest.fixture
def anyio_backend() -> str:
    """The server's loop."""
    return "asyncio"


@pytest.fixture
async def http(omega: Omega) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, as an operator, whose default cell is the test's."""
    async with visit(Service(omega.url or "", omega.cell)) as client:
        yield client

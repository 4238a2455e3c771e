"""A town of its own for every test, in a fake server."""

import fakeredis
import pytest

from tests.unit.cellstate.audit.town import Town


@pytest.fixture(scope="session")
def settled() -> Town:
    """A cell with a history, made once; tests copy it and do not change it."""
    return Town.founded(fakeredis.FakeRedis(server=fakeredis.FakeServer()), "town").populate()


@pytest.fixture
def town(settled: Town, fake_redis: fakeredis.FakeRedis) -> Town:
    return settled.copy(fake_redis)

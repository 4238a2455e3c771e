"""A town of its own for every test, in a fake server."""

import fakeredis
import pytest

from tests.unit.cellstate.audit.town import Town


@pytest.fixture
def town(fake_redis: fakeredis.FakeRedis) -> Town:
    return Town(fake_redis, "town").populate()

"""A cell on a real server, as a simulation may keep its simulated_store copy in."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from omega.cellstate import server
from omega.cellstate.redis import RedisCell
from omega.workload.workload import DIMENSIONS


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    """A new cell of a simulation: what ends is forgotten at once."""
    made = RedisCell.create(
        server.connect(store_url), f"sim-{uuid4().hex[:8]}", DIMENSIONS, keep_jobs=0, keep_ms=0, url=store_url
    )
    yield made
    made.delete()
    made.close()

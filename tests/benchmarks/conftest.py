"""A store to measure: the worker's own server, with a cell of the test's own."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.store import Store


@pytest.fixture
def store(store_url: str, tmp_path: Path) -> Iterator[Store]:
    found = Store(store_url, f"bench-{uuid4().hex[:8]}", own=False, directory=tmp_path)
    yield found
    found.clear()
    found.client.close()

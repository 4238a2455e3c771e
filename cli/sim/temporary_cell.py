"""A temporary cell on a store, for simulations."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.resources import Dimensions


@contextmanager
def temporary_cell(url: str | None, dimensions: "Dimensions") -> "Iterator[RedisCell | None]":
    """Yield a cell on a store, removed afterwards; None without a store. Raises Unreachable and Refused."""
    if url is None:
        yield None
        return
    from omega.cellstate import server
    from omega.cellstate.store import create_cell

    server.check_suitable(server.server_info(url))
    cell = create_cell(
        server.connect(url), f"simulation-{uuid4().hex[:12]}", dimensions, keep_jobs=0, keep_ms=0, url=url
    )
    try:
        yield cell
    finally:
        cell.delete()
        cell.close()

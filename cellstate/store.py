"""Cells on a server, opened or created: the one place that makes them."""

from typing import TYPE_CHECKING

from omega.cellstate.redis import RedisCell, cells, check_name
from omega.cellstate.redis.cell import KEEP_JOBS, KEEP_MS
from omega.cellstate.redis.cell_names import answering, shards
from omega.cellstate.resources import Dimensions

if TYPE_CHECKING:
    import redis

    from omega.cellstate.durability import Durability

__all__ = [
    "answering",
    "cells",
    "check_name",
    "connect_cell",
    "create_cell",
    "create_like",
    "open_cell",
    "shards",
    "unread_cell",
]


def connect_cell(
    url: str, name: str, *, timeout: float | None = 5.0, any_schema: bool = False, patient: bool = True
) -> RedisCell:  # fmt: skip
    """Open the cell `name` on the store at `url` with connections of its own; see `open_cell`.

    Without `patient` each call is sent once: it fails at once while no server is the primary.
    """
    return RedisCell.connect(url, name, timeout=timeout, any_schema=any_schema, patient=patient)


def open_cell(client: "redis.Redis", name: str, url: str = "", *, any_schema: bool = False) -> RedisCell:
    """Open a cell over a client. Raises Refused when it does not exist, Unsuitable when it has another schema.

    With `any_schema` it is opened all the same, to be counted and deleted.
    """
    return RedisCell.open(client, name, url, any_schema=any_schema)


def create_cell(
    client: "redis.Redis", name: str, dimensions: Dimensions | None = None, *,
    keep_jobs: int = KEEP_JOBS, keep_ms: int = KEEP_MS, durability: "Durability | None" = None, url: str = "",
) -> RedisCell:  # fmt: skip
    """Create a cell; one that exists with the same resources is opened. Raises Refused when it has others.

    It keeps `keep_jobs` finished jobs, for `keep_ms` milliseconds. `durability`: None for that of an existing
    cell, none for a new one. Raises Refused when an existing cell has another one, or too few replicas are connected;
    Unsuitable when the server does not sync as it requires.
    """
    return RedisCell.create(
        client, name, dimensions, keep_jobs=keep_jobs, keep_ms=keep_ms, durability=durability, url=url
    )


def create_like(url: str, name: str, at_ms: int, by: str, *, like: str) -> "tuple[RedisCell, bool]":
    """Create a cell with the settings of the cell `like`, whole or not at all; return it, and whether it is new.

    An existing cell with the same settings is opened. Raises Refused when there is no cell `like`, or the new one
    exists with other settings; Unsuitable for a cell of another schema.
    """
    from omega.cellstate.redis.cell import create_like as create  # noqa: PLC0415 - few commands need it

    return create(url, name, at_ms, by, like=like)


def unread_cell(client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> RedisCell:
    """Return a cell without reading whether it exists, for callers that delete or overwrite it."""
    return RedisCell(client, name, dimensions, url)

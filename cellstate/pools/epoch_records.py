"""Records of a published epoch: MessagePack of plain lists, in the fields ``shares`` and ``leaves`` of ``epoch``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast
from zlib import crc32

import msgpack

from omega.cellstate.pools.shares import Epoch, Leaf, PoolShare

Value = TypeVar("Value")
FIELDS = ("number", "version", "pools", "at", "published", "by", "digest")
"""The fields of ``epoch`` beside ``shares`` and ``leaves``; all but the last two are numbers."""


def pack_shares(epoch: Epoch) -> bytes:
    """Write totals, shares of pools, and what volumes were before."""
    pools = [_plain(share) for share in epoch.pools.values()]
    return cast("bytes", msgpack.packb([dict(epoch.totals), pools, dict(epoch.before), epoch.seconds]))


def pack_leaves(epoch: Epoch) -> bytes:
    """Write the leaves and their shares."""
    leaves = {name: list(each) for name, each in epoch.leaves.items()}
    return cast("bytes", msgpack.packb([leaves, dict(epoch.leaf_shares)]))


def digest(shares: bytes, leaves: bytes) -> str:
    """Return the digest of an epoch that its fact in the log has."""
    return f"{crc32(leaves, crc32(shares)):08x}"


def unpack(known: Sequence[int], by: str, shares: bytes, leaves: bytes) -> Epoch:
    """Read an epoch; `known`: number, version, version of the pools, time, version of its publication."""
    number, version, pools_version, at_ms, published = known
    totals, pools, before, seconds = msgpack.unpackb(shares)
    stored = _Leaves(leaves)
    return Epoch(
        number, version, pools_version, at_ms, by, {name: tuple(each) for name, each in totals.items()},
        {each[0]: PoolShare(*(_tuple(value) for value in each)) for each in pools},
        _Lazily(stored.shares), _Lazily(stored.leaves),
        {name: (tuple(volume), last) for name, (volume, last) in before.items()}, seconds, published,
    )  # fmt: skip


class _Leaves:
    """The packed leaves of an epoch. Most readers need the pools alone: it is unpacked on first use."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def shares(self) -> dict[str, Sequence[tuple[float, ...]]]:
        """Return the share of each job of a leaf, by tree."""
        return {name: [tuple(share) for share in each] for name, each in msgpack.unpackb(self._data)[1].items()}

    def leaves(self) -> dict[str, Sequence[Leaf]]:
        """Return the leaves by tree."""
        return {name: [_leaf(*each) for each in rows] for name, rows in msgpack.unpackb(self._data)[0].items()}


class _Lazily(Mapping[str, Value]):
    """A mapping that is read on first use."""

    def __init__(self, read: Callable[[], Mapping[str, Value]]) -> None:
        self._read = read

    @cached_property
    def _found(self) -> Mapping[str, Value]:
        return self._read()

    def __getitem__(self, name: str) -> Value:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _leaf(pool: str, demand: list[int], usage: list[int], gang: bool, *rest: Any) -> Leaf:  # noqa: FBT001
    return Leaf(pool, tuple(demand), tuple(usage), gang, *rest)


def _plain(share: PoolShare) -> list[Any]:
    return [getattr(share, name) for name in PoolShare.__dataclass_fields__]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value

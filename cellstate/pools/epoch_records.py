"""Records of a published epoch: MessagePack of plain lists, in the fields ``shares`` and ``leaves`` of ``epoch``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast
from zlib import crc32

import msgpack

from omega.cellstate.pools.shares import Epoch, Leaf, PoolShare
from omega.cellstate.resources import LARGEST

Value = TypeVar("Value")
NUMBERS = {
    "number": "number", "version": "version", "pools": "pools_version", "at": "at_ms", "published": "published",
}  # fmt: skip
"""The fields of ``epoch`` that are numbers, as those of `Epoch`."""
FIELDS = (*NUMBERS, "by", "digest")
"""The fields of ``epoch`` beside ``shares`` and ``leaves``."""


def pack_shares(epoch: Epoch) -> bytes:
    """Write totals, shares of pools, and what volumes were before."""
    names = PoolShare.__dataclass_fields__
    pools = [[getattr(share, name) for name in names] for share in epoch.pools.values()]
    return cast("bytes", msgpack.packb([dict(epoch.totals), pools, dict(epoch.before), epoch.seconds, epoch.took_ms]))


def pack_leaves(epoch: Epoch) -> bytes:
    """Write the leaves and their shares."""
    leaves = {name: list(each) for name, each in epoch.leaves.items()}
    return cast("bytes", msgpack.packb([leaves, dict(epoch.leaf_shares)]))


def digest(shares: bytes, leaves: bytes) -> str:
    """Return the digest of an epoch that its fact in the log has."""
    return f"{crc32(leaves, crc32(shares)):08x}"


def unpack(fields: Mapping[str, bytes]) -> Epoch:
    """Read an epoch from the fields of ``epoch``. Raises ValueError for shares that are not those of the digest."""
    said = fields["digest"].decode()
    if digest(fields["shares"], fields["leaves"]) != said:
        raise ValueError(f"its digest is not {said}")
    numbers = {own: int(fields[name]) for name, own in NUMBERS.items()}
    if max(numbers.values()) > LARGEST:
        raise ValueError(f"a number of it is above {LARGEST}")
    totals, pools, before, seconds, *took = msgpack.unpackb(fields["shares"])  # earlier records have no time
    shares, stored = [_share(each) for each in pools], _Leaves(fields["leaves"])
    return Epoch(
        **numbers, by=fields["by"].decode(),
        totals={name: tuple(each) for name, each in totals.items()}, pools={share.name: share for share in shares},
        leaf_shares=_Lazily(stored.shares), leaves=_Lazily(stored.leaves),
        before={name: (tuple(volume), last) for name, (volume, last) in before.items()}, seconds=seconds,
        took_ms=took[0] if took else 0,
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


def _leaf(*values: Any) -> Leaf:
    leaf = Leaf(*values)
    return leaf._replace(demand=tuple(leaf.demand), usage=tuple(leaf.usage), most=tuple(leaf.most))


def _share(row: Sequence[Any]) -> PoolShare:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return PoolShare(**dict(zip(PoolShare.__dataclass_fields__, values, strict=False)))

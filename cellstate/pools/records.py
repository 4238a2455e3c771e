"""Records of pools: MessagePack of what differs from the defaults, and the fields of the hash ``pools``.

version     the cell's version of the last change
next        the number of the next new pool: none is given twice
trees       all trees, in their order
operators   the precedence from which jobs evict across pools (`Pools.operators_from`); "-" for none
pN          pool number N
cNAME       a leaf: the numbers of it and its ancestors that carry limits, upward, and of those that lend a part of
            their guarantee only, with their tree (lua/parts/pools.lua); NAME as in lanes. "c": of ephemeral pools.
            Where trees divide the machines, "@" and the number of its tree follow
uNAME       a leaf whose pool or ancestors have lists of users: the users that all of them admit; "u": those of
            ephemeral pools
bN          limits and use of a pool that carries limits (lua/parts/pools.lua)
kN, tN      what a pool does not lend, what a tree has, and what is occupied of both (cellstate/pools/lending.py)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast, overload
from urllib.parse import quote
from zlib import crc32

import msgpack

from omega.cellstate.pools import (
    JOBS,
    TASKS,
    Epoch,
    Integral,
    Leaf,
    Pool,
    Pools,
    PoolShare,
    PoolTree,
    PreemptionSettings,
    stated,
    table,
)
from omega.cellstate.pools.lending import keepers, lenders, lending_trees
from omega.cellstate.resources import LARGEST

ALL = "*"
"""In place of names of pools: machines may be in another tree."""
Values = TypeVar("Values", Pool, PoolTree, Integral, PreemptionSettings)


def plain(values: Pool | PoolTree | Integral | PreemptionSettings) -> dict[str, Any]:
    """Return the settings that differ from the defaults, as plain values."""
    return {each.name: _plain_value(value) for each, value in stated(values)}


def _plain_value(value: Any) -> Any:
    if isinstance(value, (Integral, PreemptionSettings)):
        return plain(value)
    if isinstance(value, Mapping):
        return dict(sorted(value.items()))
    return list(value) if isinstance(value, tuple) else value


def settings(kind: type[Values], values: Mapping[str, Any]) -> Values:
    """Return settings from plain values. Raises TypeError for an unknown field."""
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for each in table(kind):
        if each.nested and each.name in found:
            found[each.name] = settings(each.value_type, found[each.name])
    return kind(**found)


def pack(values: Pool | PoolTree | tuple[PoolTree, ...]) -> bytes:
    """Write a pool, or all trees."""
    content = [plain(tree) for tree in values] if isinstance(values, tuple) else plain(values)
    return cast("bytes", msgpack.packb(content))


def unpack_pool(data: bytes) -> Pool:
    """Read a pool."""
    return settings(Pool, msgpack.unpackb(data))


def unpack_trees(data: bytes) -> tuple[PoolTree, ...]:
    """Read all trees."""
    return tuple(settings(PoolTree, each) for each in msgpack.unpackb(data))


def digest(data: bytes) -> str:
    """Return the form of a record in the log."""
    return f"{crc32(data):08x}"


def leaf_field(name: str, kind: str = "c") -> str:
    """Return the field of a leaf's chain, or (``u``) of its users."""
    return f"{kind}{quote(name, safe='')}"


def operators_word(pools: Pools) -> bytes:
    """Return the field ``operators``."""
    return b"-" if pools.operators_from is None else b"%d" % pools.operators_from


def chains(pools: Pools) -> dict[str, str]:
    """Return the chains of all leaves and, under "c", of ephemeral pools; numbers are those of `pools`."""
    lending = lending_trees(pools)
    found = {leaf_field(name): _chain(pools, name, lending) for name in sorted(pools.leaves)}
    return found | {"c": _chain(pools, "", lending)} if pools.configured else {}


def admissions(pools: Pools) -> dict[str, str]:
    """Return the users that may submit to leaves and, under "u", to ephemeral pools, where not all may."""
    lists = {leaf_field(name, "u"): pools.admitted(name) for name in sorted({*pools.leaves, ""})}
    return {
        name: " ".join(quote(each, safe="") for each in users) for name, users in lists.items() if users is not None
    }


def leaf_rows(pools: Pools) -> dict[str, str]:
    """Return the fields by leaf: chains, and users that may submit."""
    return chains(pools) | admissions(pools) if pools.configured else {}


def _chain(pools: Pools, name: str, lending: Sequence[PoolTree]) -> str:
    chain, number = " ".join(str(pool.number) for pool in pools.chain(name)), pools.tree_number(name)
    if pools.trees[number] in lending:
        kept = " ".join(str(pools.by_name[each].number) for each in keepers(pools, name))
        chain += f"/{kept}:{number}"
    return f"{chain}@{number}" if pools.divided else chain


def limits_words(pool: Pool, resources: tuple[str, ...]) -> str:
    """Return the limits of a pool as the scripts read them: jobs, tasks, then each resource; "-" for none."""
    return " ".join(str(pool.upper.get(name, "-")) for name in (JOBS, TASKS, *resources))


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Use of a pool that carries limits: jobs with running tasks, running tasks, amounts.

    `limits` are in the same order, None where there is none.
    """

    jobs: int
    tasks: int
    amounts: tuple[int, ...]
    limits: tuple[int | None, ...] = field(default=(), compare=False)


def read_use(text: str, dimensions: int) -> PoolUse:
    """Read the use in a record ``bN``."""
    words = text.split(" ")
    if len(words) != 2 * (2 + dimensions):
        raise ValueError(f"{text!r} has {len(words)} words, not {2 * (2 + dimensions)}")
    jobs, tasks, *amounts = (int(word) for word in words[2 + dimensions :])
    limits = tuple(None if word == "-" else int(word) for word in words[: 2 + dimensions])
    return PoolUse(jobs, tasks, tuple(amounts), limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """The writes of a change of pools: fields to delete and to set, limits of the pools that carry some, facts.

    `lenders` are those without jobs, with the totals of trees that are known. `closed` are pools that hold no jobs
    afterwards because they are removed or have pools below them. `moved` are pools whose jobs, if there are any, run in
    another tree afterwards; `ALL` when machines may be in another tree.
    """

    pools: Pools
    gone: tuple[str, ...]
    rows: dict[str, bytes]
    limits: dict[str, str]
    lenders: dict[str, str]
    closed: tuple[str, ...]
    moved: tuple[str, ...]
    facts: tuple[str, ...]

    @property
    def state(self) -> int:
        """0 without pools, 1 with pools, 2 when scripts validate claims by them (`state_of`)."""
        return state_of(self.pools)


def state_of(pools: Pools) -> int:
    """Return whether there are pools (1), and some carry limits or lend in part, or trees divide the machines (2)."""
    return pools.configured + (pools.divided or any(pool.upper or pool.kept for pool in pools.pools))


def moved(before: Pools, after: Pools) -> tuple[str, ...]:
    """Return the pools whose jobs run in another tree after a change; `ALL` when machines may be in another one.

    A pool that is added, or removed, may be that of jobs which named it as an ephemeral one.
    """
    if not (before.divided or after.divided):
        return ()
    formulas = [[(tree.name, tree.machines) for tree in pools.trees] for pools in (before, after)]
    if before.divided != after.divided or formulas[0] != formulas[1]:
        return (ALL,)

    def number(pools: Pools, name: str) -> int:
        return pools.tree_number(name if name in pools.leaves else "")

    return tuple(name for name in sorted(before.leaves | after.leaves) if number(before, name) != number(after, name))


def change(
    before: Pools, after: Pools, number: int, resources: tuple[str, ...], totals: Mapping[str, Sequence[int]]
) -> PoolChange:
    """Assign numbers to new pools, from `number` on, and return the change from `before` to `after`.

    `totals` are the machines' amounts by tree at the last epoch.
    """
    known, numbered = before.by_name, list[Pool]()
    for pool in after.pools:
        own = known[pool.name].number if pool.name in known else number
        number += pool.name not in known
        numbered.append(pool if pool.number == own else replace(pool, number=own))
    numbered.sort(key=lambda pool: pool.number)  # the order in which they are read from a store
    pools = Pools(tuple(numbered), after.trees, before.version)
    rows: dict[str, bytes] = {}
    facts = list[str]()
    for pool in pools.pools:
        if pool != known.get(pool.name):
            data = rows[f"p{pool.number}"] = pack(pool)
            facts.append(f"pool {pool.name} {pool.number} {digest(data)}")
    removed = [pool for pool in before.pools if pool.name not in pools.by_name]
    facts += [f"pool {pool.name} {pool.number} -" for pool in removed]
    if pools.trees != before.trees:
        rows["trees"] = pack(pools.trees)
        rows["operators"] = operators_word(pools)
        facts.append(f"trees {digest(rows['trees'])}")
    old, new = leaf_rows(before), leaf_rows(pools)
    rows |= {name: chain.encode() for name, chain in new.items() if old.get(name) != chain}
    rows["next"] = b"%d" % number
    limited = {str(pool.number): limits_words(pool, resources) for pool in pools.pools if pool.upper}
    keeping = {name: each.words for name, each in lenders(pools, totals, resources).items()}
    unlimited = [f"b{pool.number}" for pool in before.pools if pool.upper and str(pool.number) not in limited]
    unlimited += [name for name in lenders(before, {}, resources) if name not in keeping]
    gone = [*(f"p{pool.number}" for pool in removed), *(name for name in old if name not in new), *unlimited]
    closed = sorted(before.leaves - pools.leaves)
    return PoolChange(
        pools=pools,
        gone=tuple(gone),
        rows=rows,
        limits=limited,
        lenders=keeping,
        closed=tuple(quote(name, safe="") for name in closed),
        moved=tuple(name if name == ALL else quote(name, safe="") for name in moved(before, pools)),
        facts=tuple(facts),
    )


# Records of a published epoch: MessagePack of plain lists, in the fields ``shares`` and ``leaves`` of ``epoch``.

Value = TypeVar("Value")
EPOCH_NUMBERS = {
    "number": "number", "version": "version", "pools": "pools_version", "at": "at_ms", "published": "published",
}  # fmt: skip
"""The fields of ``epoch`` that are numbers, as those of `Epoch`."""
EPOCH_FIELDS = (*EPOCH_NUMBERS, "by", "digest")
"""The fields of ``epoch`` beside ``shares`` and ``leaves``."""


def pack_shares(epoch: Epoch) -> bytes:
    """Write totals, shares of pools, and what volumes were before."""
    names = PoolShare.__dataclass_fields__
    pools = [[getattr(share, name) for name in names] for share in epoch.pools.values()]
    rest = dict(epoch.before), epoch.seconds, epoch.took_ms, dict(epoch.asked)
    return cast("bytes", msgpack.packb([dict(epoch.totals), pools, *rest]))


def pack_leaves(epoch: Epoch) -> bytes:
    """Write the leaves and their shares."""
    leaves = {name: list(each) for name, each in epoch.leaves.items()}
    return cast("bytes", msgpack.packb([leaves, {tree: list(shares) for tree, shares in epoch.leaf_shares.items()}]))


def epoch_digest(shares: bytes, leaves: bytes) -> str:
    """Return the digest of an epoch that its fact in the log has."""
    return f"{crc32(leaves, crc32(shares)):08x}"


def unpack_epoch(fields: Mapping[str, bytes]) -> Epoch:
    """Read an epoch from the fields of ``epoch``. Raises ValueError for shares that are not those of the digest."""
    said = fields["digest"].decode()
    if epoch_digest(fields["shares"], fields["leaves"]) != said:
        raise ValueError(f"its digest is not {said}")
    numbers = {own: int(fields[name]) for name, own in EPOCH_NUMBERS.items()}
    if max(numbers.values()) > LARGEST:
        raise ValueError(f"a number of it is above {LARGEST}")
    totals, pools, before, seconds, took_ms, asked = msgpack.unpackb(fields["shares"])
    shares, stored = [_share(each) for each in pools], _Leaves(fields["leaves"])
    return Epoch(
        **numbers, by=fields["by"].decode(),
        totals={name: tuple(each) for name, each in totals.items()}, pools={share.name: share for share in shares},
        leaf_shares=_Lazily(stored.shares), leaves=_Lazily(stored.leaves),
        before={name: (tuple(volume), last) for name, (volume, last) in before.items()}, seconds=seconds,
        took_ms=took_ms, asked={name: tuple(each) for name, each in asked.items()},
    )  # fmt: skip


class Rows(Sequence[Value]):
    """Packed rows: one is read when it is asked for; `rows` are the fields of each as they are stored."""

    def __init__(self, rows: Sequence[Sequence[Any]], read: Callable[[Sequence[Any]], Value]) -> None:
        """Read none yet."""
        self.rows, self._read = rows, read

    @overload
    def __getitem__(self, place: int) -> Value: ...
    @overload
    def __getitem__(self, place: slice) -> "Rows[Value]": ...
    def __getitem__(self, place: int | slice) -> "Value | Rows[Value]":
        found = self.rows[place]
        return Rows(found, self._read) if isinstance(place, slice) else self._read(found)

    def __iter__(self) -> Iterator[Value]:
        return map(self._read, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list


class _Leaves:
    """The packed leaves of an epoch. Most readers need the pools alone: it is unpacked on first use."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def _found(self) -> tuple[dict[str, list[list[Any]]], dict[str, list[list[float]]]]:
        leaves, shares = msgpack.unpackb(self._data)
        return leaves, shares

    def shares(self) -> dict[str, Sequence[tuple[float, ...]]]:
        """Return the share of each job of a leaf, by tree."""
        return {name: Rows(rows, tuple) for name, rows in self._found[1].items()}

    def leaves(self) -> dict[str, Sequence[Leaf]]:
        """Return the leaves by tree."""
        return {name: Rows(rows, _leaf) for name, rows in self._found[0].items()}


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


def _leaf(values: Sequence[Any]) -> Leaf:
    leaf = Leaf(*values)
    return leaf._replace(demand=tuple(leaf.demand), usage=tuple(leaf.usage), most=tuple(leaf.most))


def _share(row: Sequence[Any]) -> PoolShare:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return PoolShare(**dict(zip(PoolShare.__dataclass_fields__, values, strict=False)))

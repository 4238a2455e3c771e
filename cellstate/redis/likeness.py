"""Creation of a cell with the settings of another one, in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from omega.cellstate import keys
from omega.cellstate.errors import Refused, Unreadable
from omega.cellstate.override import override
from omega.cellstate.redis.calls import load_scripts
from omega.cellstate.redis.cell import RedisCell
from omega.cellstate.redis.cell_names import register
from omega.cellstate.redis.confirmation import confirm
from omega.cellstate.redis.opening import check_name
from omega.cellstate.redis.scripts import Script, script
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect, translate

if TYPE_CHECKING:
    from omega.cellstate.model import Limits
    from omega.cellstate.pools import Pools

TRIES = 40
"""Transactions that are tried, within some 10 s, while the slot of the cell moves or no server is its primary."""


@dataclass(frozen=True, slots=True)
class CellSettings:
    """What a person chose for a cell: `meta` has the fields `keys.SETTINGS`, `limits` are those of kinds."""

    meta: Mapping[str, bytes]
    limits: "Mapping[str, Limits]"
    pools: "Pools"

    def differs(self, other: "CellSettings") -> list[str]:
        """Return the names of the settings that are not equal."""
        fields = sorted(
            name for name in self.meta.keys() | other.meta.keys() if self.meta.get(name) != other.meta.get(name)
        )
        fields += ["limits"] if self.limits != other.limits else []
        return fields + (["pools"] if _plain(self.pools) != _plain(other.pools) else [])


def _plain(pools: "Pools") -> object:
    """Return pools without the numbers that a store gives them."""
    return {pool.name: replace(pool, number=0) for pool in pools.pools}, pools.trees


class CellByLikeness(RedisCell):
    """A cell that is read for its settings, or created with those of another one."""

    def __init__(self, client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> None:
        """Collect no calls yet."""
        super().__init__(client, name, dimensions, url)
        self._collected: list[tuple[Script, list[object]]] | None = None

    def settings(self) -> CellSettings:
        """Return the settings, all of one version. Raises Refused, Unsuitable, Unreadable."""
        self.dimensions = Dimensions(tuple(self.check_exists().split(",")))
        names = sorted(keys.SETTINGS)
        with self.client.pipeline(transaction=True) as pipe:
            pipe.hmget(self._prefix + "meta", names)
            pipe.hgetall(self._prefix + "kinds")
            pipe.hgetall(self._prefix + "pools")
            values, kinds, pools = self._command(pipe.execute)
        limits = {kind: use.limits for kind, use in self._kinds(kinds.items()).items()}
        if self.unreadable:
            (key, field), why = next(iter(self.unreadable.items()))
            raise Unreadable(f"cell {self.name}: its {key} {field!r} cannot be read ({why}); set it again")
        meta = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        return CellSettings(meta, limits, self._read_pools({name.decode(): value for name, value in pools.items()}))

    def create_with(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        """Create the cell; return whether it is new. Refused when it exists with other settings.

        Another client sees the whole cell or none, also after an interruption.
        """
        self.dimensions = Dimensions(tuple(settings.meta["resources"].decode().split(",")))
        durability = self._read_durability(settings.meta.get("durability"))
        self._check_permitted(durability)
        new = bool(self._command(self._make, settings, at_ms, by))
        if not new and (other := self.settings().differs(settings)):
            raise Refused(f"cell {self.name}: exists with other {', '.join(other)}; choose another name")
        self._adopt(durability)
        self._command(register, self.client, self.name)
        self._command(confirm, self.client, self.name, durability)
        return new

    def _make(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        retry = Retry(
            ExponentialWithJitterBackoff(cap=0.5, base=0.01), TRIES, (redis.ConnectionError, redis.WatchError)
        )
        return bool(retry.call_with_retry(lambda: self._try(settings, at_ms, by), lambda _: None))

    def _try(self, settings: CellSettings, at_ms: int, by: str) -> bool:
        meta = self._prefix + "meta"
        pipe: Any = self.client.pipeline(transaction=True)
        with pipe:
            pipe.watch(meta)
            if pipe.exists(meta):
                return False
            calls = self._calls(settings, at_ms, by)
            load_scripts(self.client, *(each for each, _ in calls))  # a missing one would leave out its part
            pipe.multi()
            first, *rest = calls
            _queue(pipe, [first])
            pipe.hset(meta, mapping=settings.meta)
            _queue(pipe, rest)
            try:
                pipe.execute()
            except redis.ResponseError as error:
                self.delete()
                raise translate(error, self.url) from error
        return True

    def _calls(self, settings: CellSettings, at_ms: int, by: str) -> list[tuple[Script, list[object]]]:
        """Return the calls of scripts, with keys and arguments, that make an empty cell have these settings."""
        self._collected = []
        try:
            known = {name: value.decode() for name, value in settings.meta.items()}
            self._run("create", {"schema": keys.SCHEMA, "durability": "", **known, "change": 0})
            for kind, limits in settings.limits.items():
                self.set_limits(kind, limits, at_ms, by)
            self.set_pools(settings.pools, None, at_ms, by)
            return self._collected
        finally:
            self._collected = None

    @override
    def _run(
        self, name: str, values: Mapping[str, object], rest: Sequence[object] = (), *, member: str = "",
        extra: Iterable[str] = (), own: Mapping[str, str] | None = None,
    ) -> list[Any]:  # fmt: skip
        if self._collected is None:
            return super()._run(name, values, rest, member=member, extra=extra, own=own)
        chosen = script(name)
        keys_of = self._keys(chosen, member, extra, own)
        self._collected.append((chosen, [len(keys_of), *keys_of, *chosen.pack_arguments(values, rest)]))
        return [b"ok", b"0"]


def _queue(pipe: Any, calls: Iterable[tuple[Script, list[object]]]) -> None:
    for chosen, words in calls:
        pipe.execute_command("EVALSHA", chosen.sha, *words)


def create_like(url: str, name: str, at_ms: int, by: str, *, like: str) -> tuple[RedisCell, bool]:
    """Create a cell with the settings of another one; return it, and whether it is new.

    Raises Refused when there is no such cell, or the new one exists with other settings; Unsuitable for a cell of
    another schema.
    """
    client = connect(url)
    try:
        check_name(name)
        settings = CellByLikeness(client, like, Dimensions(), url).settings()
        cell = CellByLikeness(client, name, Dimensions(), url)
        return cell, cell.create_with(settings, at_ms, by)
    except BaseException:
        client.close()
        raise

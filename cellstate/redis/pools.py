"""Pools of a cell on a server: their settings and what those that carry limits hold."""

from urllib.parse import unquote

from cellstate.errors import Unreadable
from cellstate.model import check_author
from cellstate.pool_records import PoolUse, change, read_use, unpack_pool, unpack_trees
from cellstate.pool_rules import check as check_pools
from cellstate.pools import Pool, Pools, PoolTree
from cellstate.redis import records
from cellstate.redis.reads import RedisReads
from cellstate.refusals import jobs_in_pool, pools_overtaken


class RedisPools(RedisReads):
    """What operators do with pools; see `Cell` for the methods of the port."""

    def _pool_fields(self) -> dict[str, bytes]:
        found = self._plain(self.client.hgetall, self._prefix + "pools")
        return {name.decode(errors="replace"): value for name, value in found.items()}

    def pools(self) -> Pools:
        """See Cell.pools. Raises Unreadable for a record that is none of a pool."""
        return self._read_pools(self._pool_fields())

    def _read_pools(self, fields: dict[str, bytes]) -> Pools:
        try:
            trees = unpack_trees(fields["trees"]) if "trees" in fields else (PoolTree(),)
            found = [unpack_pool(data) for name, data in fields.items() if name[0] == "p"]
            return Pools(tuple(sorted(found, key=_number)), trees, int(fields.get("version", b"0")))
        except records.UNREADABLE as error:
            raise Unreadable(f"cell {self.name}: its pools cannot be read ({error}); import them anew") from error

    def set_pools(self, pools: Pools, check: int, at_ms: int, by: str) -> Pools:
        """See Cell.set_pools."""
        check_author(by)
        resources = self.dimensions.names
        check_pools(pools, resources)
        fields = self._pool_fields()
        before = self._read_pools(fields)
        if check != before.version:
            raise pools_overtaken(self.name, check, before.version)
        changed = change(before, pools, int(fields.get("next", b"1")), resources)
        if not changed.facts:
            return before
        values = self._values(at_ms, by) | {
            "check": check, "state": bool(changed.pools.pools) + bool(changed.limits), "gone": " ".join(changed.gone),
            "closed": " ".join(changed.closed), "lines": "\n".join(changed.facts),
            "limits": ";".join(f"{number} {words}" for number, words in changed.limits.items()),
        }  # fmt: skip
        rows = [word for pair in changed.rows.items() for word in pair]
        status, word = self._run("pools", values, rows, extra=self._wakes())
        if status == b"overtaken":
            raise pools_overtaken(self.name, check, int(word))
        if status == b"jobs":
            raise jobs_in_pool(self.name, unquote(word.decode()))
        return Pools(changed.pools.pools, changed.pools.trees, int(word))

    def pool_use(self) -> dict[str, PoolUse]:
        """See Cell.pool_use."""
        fields, size = self._pool_fields(), len(self.dimensions)
        named = {f"b{pool.number}": pool.name for pool in self._read_pools(fields).pools}
        found = {
            named[name]: self._record("pools", name, read_use, value.decode(), size)
            for name, value in sorted(fields.items(), key=lambda pair: (len(pair[0]), pair[0])) if name in named
        }  # fmt: skip
        return {name: use for name, use in found.items() if use is not None}


def _number(pool: Pool) -> int:
    return pool.number

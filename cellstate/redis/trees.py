"""The pool trees of machines on a server; ``lua/assign_trees.lua``."""

from typing import TYPE_CHECKING, Any

from omega.cellstate.executors import portions
from omega.cellstate.override import override
from omega.cellstate.redis import records
from omega.cellstate.redis.reads import RedisReads

if TYPE_CHECKING:
    from omega.cellstate.pools import Pools


class RedisTrees(RedisReads):
    """Assigns machines to trees; see `Cell` for the methods of the port."""

    @override
    def assign_trees(self, at_ms: int, by: str) -> int:
        evicted, assigned = 0, int(not self.dry)
        while assigned and (unassigned := self._unassigned()):
            pools, indices = unassigned
            assigned = 0
            for portion in indices:
                reply = self._assign(pools, portion, at_ms, by)
                if reply[0] == b"overtaken":
                    assigned = 1  # by the pools as they are now
                    break
                assigned, evicted = assigned + int(reply[1]), evicted + int(reply[2])
        return evicted

    def _unassigned(self) -> "tuple[Pools, list[list[int]]] | None":
        """Return the pools and, in portions, the machines without an assigned tree; None when there are none."""
        with self.client.pipeline(transaction=False) as pipe:
            pipe.hget(self._prefix + "meta", "pools")
            pipe.hlen(self._prefix + "static")
            pipe.hlen(self._prefix + "trees")
            state, machines, assigned = self._command(pipe.execute)
        if int(state or 0) < 2 or machines == assigned or not (pools := self.pools()).divided:
            return None
        known = set(self._command(self.client.hkeys, self._prefix + "trees"))
        there = self._command(self.client.hkeys, self._prefix + "static")
        indices = sorted(int(index) for index in there if index not in known and index.isdigit())
        held = [(text or b"").count(b":") // 3 for _, text in self._fields("runs", indices)]
        return (pools, list(portions(indices, held))) if indices else None

    def _assign(self, pools: "Pools", indices: list[int], at_ms: int, by: str) -> list[Any]:
        from omega.cellstate.pools.membership import trees_of  # noqa: PLC0415 - most processes evaluate no formula

        statics = [static or b"" for _, static in self._fields("static", indices)]
        described = [
            self._record("static", str(index), records.read_described, static) or ("", ())
            for index, static in zip(indices, statics, strict=True)
        ]
        rest: list[object] = []
        for index, static, number in zip(indices, statics, trees_of(pools, described), strict=True):
            rest += [index, static, "-" if number is None else number]
        values = {**self._values(at_ms, by), "version": pools.version}
        return self._run("assign_trees", values, rest, extra=self._hints())

"""Housekeeping of a cell on a server, by any live process."""

from omega.cellstate.cell import Housekept
from omega.cellstate.override import override
from omega.cellstate.redis.agents import RedisAgents


class RedisHousekeeping(RedisAgents):
    """Housekeeping; its time is the server's."""

    @override
    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        values = self._values(at_ms, by) | {"now": self.store_ms(), "most": most}
        _, ended, queued, more = self._run("housekeep", values, extra=self._hints())
        return Housekept(int(ended), int(queued), bool(more))

    def chores(self) -> dict[str, int]:
        """Return the jobs that are due for housekeeping: from when, in ms of the server's clock."""
        found = self._command(self.client.zrange, self._prefix + "housekeeping", 0, -1, withscores=True)
        return {job_id.decode(): int(when) for job_id, when in found}

    @override
    def placed_by(self) -> tuple[tuple[int, int], ...]:
        found = self._command(self.client.hget, self._prefix + "meta", "ticks")
        read = self._record("meta", "ticks", _ticks, found or b"")
        return read or ()


def _ticks(text: bytes) -> tuple[tuple[int, int], ...]:
    pairs = (each.split(b":") for each in text.split())
    return tuple((int(at), int(last)) for at, last in pairs)

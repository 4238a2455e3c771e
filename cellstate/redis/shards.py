"""The shards of MapReduce jobs on a server: claimed, ended, counted."""

from collections.abc import Sequence
from urllib.parse import quote, unquote

from omega.cellstate import ranges
from omega.cellstate.override import override
from omega.cellstate.redis.reads import RedisReads
from omega.cellstate.resources import LARGEST
from omega.cellstate.shards import (
    KEPT_MS,
    LEARNT_MS,
    MOST_IN_A_ROW,
    RETRY_MS,
    TRIES,
    UNSENT_MS,
    Errand,
    PhaseCount,
    Progress,
    ShardDurations,
    Worker,
)


class RedisShards(RedisReads):
    """Operations of MapReduce workers."""

    @override
    def claim_shard(
        self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int, near: Sequence[str] = ()
    ) -> Errand:  # fmt: skip
        values = {
            "dims": len(self.dimensions), "job": job_id, "maps": maps, "reduces": reduces, "at": at_ms,
            "most": MOST_IN_A_ROW, "near": " ".join(near), "expire_ms": KEPT_MS,
        }  # fmt: skip
        own = {"shards": f"shards:{job_id}"}
        what, *more = self._run("claim_shard", values | worker._asdict(), own=own)
        shard = int(more[0]) if more else -1
        return Errand(what.decode(), shard, more[1].decode() if len(more) > 1 else "")

    @override
    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None, level: int | None = None,
    ) -> bool:  # fmt: skip
        values = {
            "dims": len(self.dimensions), "phase": phase, "shard": shard, "at": failed_ms or 0,
            "level": "" if level is None else level,
            "how": "done" if failed_ms is None else "failed", "milliseconds": min(max(0, milliseconds), LARGEST),
            "most": TRIES, "wait_ms": RETRY_MS, "expire_ms": KEPT_MS, "learnt_ms": LEARNT_MS,
        }  # fmt: skip
        own = {"shards": f"shards:{job_id}", "durations": f"durations:{name}"}
        return bool(self._run("end_shard", values | worker._asdict(), own=own)[0] == b"ok")

    @override
    def claim_directory(self, path: str, job_id: str, *, expire_ms: int) -> str | None:
        now = self.store_ms()
        values = {
            "dims": len(self.dimensions), "job": job_id, "path": quote(path), "keeps": int(expire_ms > 0),
            "ends_at": 0 if expire_ms > UNSENT_MS else now + expire_ms, "now": now,
        }  # fmt: skip
        _, *holder = self._run("claim_directory", values)
        return holder[0].decode() if holder else None

    @override
    def directories(self) -> dict[str, str]:
        fields = self._hash("directories").items()
        return {unquote(path.decode()): value.decode().partition(" ")[0] for path, value in fields}

    @override
    def progress(self, job_id: str) -> Progress | None:
        fields = ("map", "reduce", "held", "failed", "machines", "levels")
        maps, reduces, held, failed, machines, levels = (
            (value or b"").decode() for _, value in self._fields(f"shards:{job_id}", fields)
        )
        if not maps:
            return None
        counts, unclaimed = (_phase(maps), _phase(reduces)), maps.split(" ")[1]
        return Progress(*counts, _held(held), failed, _counts(machines), _counts(levels), unclaimed)

    @override
    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        marks = self._fields(f"shards:{job_id}", [f"{phase[0]}{shard}" for shard in range(count)])
        return [None if mark is None else mark.decode() for _, mark in marks]

    @override
    def durations(self, name: str) -> ShardDurations | None:
        text = self._command(self.client.get, f"{self._prefix}durations:{name}")
        return None if text is None else ShardDurations(*map(int, text.split()))


def _held(text: str) -> tuple[tuple[int, int, int], ...]:
    """Read a list " machine:placement:task:shard"."""
    claims = (each.split(":") for each in text.split())
    return tuple(sorted((int(placement), int(task), int(shard)) for _, placement, task, shard in claims))


def _counts(text: str) -> tuple[tuple[int, int], ...]:
    """Read a list " number:count"."""
    pairs = (each.split(":") for each in text.split())
    return tuple(sorted((int(number), int(count)) for number, count in pairs))


def _phase(text: str) -> PhaseCount:
    total, waiting, done, milliseconds = text.split(" ")
    return PhaseCount(total=int(total), waiting=ranges.count(waiting), done=int(done), milliseconds=int(milliseconds))

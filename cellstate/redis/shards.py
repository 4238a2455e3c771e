"""The shards of MapReduce jobs on a server: claimed, ended, counted."""

from collections.abc import Sequence
from urllib.parse import quote, unquote

from omega.cellstate import ranges
from omega.cellstate.redis.part import Part
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


class RedisShards(Part):
    """Shards and output directories of MapReduce jobs."""

    def claim(
        self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int, near: Sequence[str] = ()
    ) -> Errand:  # fmt: skip
        """Return the next errand of a MapReduce worker; the same one until `end_shard`.

        `maps` and `reduces` are the numbers of shards, from the job's first worker; `at_ms` is the time of the store's
        clock. Failed shards come last, after a delay (`RETRY_MS`), and on another machine if there is one. `near`:
        disjoint sets of maps (ranges) that the worker takes, best first; without any, it takes all.
        """
        values = {
            "dims": len(self._calls.dimensions), "job": job_id, "maps": maps, "reduces": reduces, "at": at_ms,
            "most": MOST_IN_A_ROW, "near": " ".join(near), "expire_ms": KEPT_MS,
        }  # fmt: skip
        own = {"shards": f"shards:{job_id}"}
        what, *more = self._calls.run("claim_shard", values | worker._asdict(), own=own)
        shard = int(more[0]) if more else -1
        return Errand(what.decode(), shard, more[1].decode() if len(more) > 1 else "")

    def end(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None, level: int | None = None,
    ) -> bool:  # fmt: skip
        """Record that a worker finished its shard, or failed on it; False when the shard is no longer its own.

        `failed_ms`: time of the failure, by the store's clock. `level`: the level of a map's locality for the worker's
        machine, None for a map without one. When all shards are done, their mean durations are
        stored under the job's `name`.
        """
        values = {
            "dims": len(self._calls.dimensions), "phase": phase, "shard": shard, "at": failed_ms or 0,
            "level": "" if level is None else level,
            "how": "done" if failed_ms is None else "failed", "milliseconds": min(max(0, milliseconds), LARGEST),
            "most": TRIES, "wait_ms": RETRY_MS, "expire_ms": KEPT_MS, "learnt_ms": LEARNT_MS,
        }  # fmt: skip
        own = {"shards": f"shards:{job_id}", "durations": f"durations:{name}"}
        return bool(self._calls.run("end_shard", values | worker._asdict(), own=own)[0] == b"ok")

    def claim_directory(self, path: str, job_id: str, *, expire_ms: int) -> str | None:
        """Claim a directory for a job for `expire_ms`, or give it up with 0; return the id of the live job that has it.

        A job has a directory with all that is in it. None: it is the job's now. A job that has ended has none. The
        claim of a job that is not stored holds for `UNSENT_MS`, the time that its submission may take.
        """
        now = self._calls.store_ms()
        values = {
            "dims": len(self._calls.dimensions), "job": job_id, "path": quote(path), "keeps": int(expire_ms > 0),
            "ends_at": 0 if expire_ms > UNSENT_MS else now + expire_ms, "now": now,
        }  # fmt: skip
        _, *holder = self._calls.run("claim_directory", values)
        return holder[0].decode() if holder else None

    def directories(self) -> dict[str, str]:
        """Return the claimed directories and the ids of their jobs, which may have ended."""
        fields = self._calls.hash_of("directories").items()
        return {unquote(path.decode()): value.decode().partition(" ")[0] for path, value in fields}

    def progress(self, job_id: str) -> Progress | None:
        """Return the progress of a MapReduce job; None before its first worker."""
        fields = ("map", "reduce", "held", "failed", "machines", "levels")
        maps, reduces, held, failed, machines, levels = (
            (value or b"").decode() for _, value in self._calls.fields(f"shards:{job_id}", fields)
        )
        if not maps:
            return None
        counts, unclaimed = (_phase(maps), _phase(reduces)), maps.split(" ")[1]
        return Progress(*counts, _held(held), failed, _counts(machines), _counts(levels), unclaimed)

    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        """Return the marks of the workers that finished the first `count` shards of a phase (`Worker.mark`)."""
        marks = self._calls.fields(f"shards:{job_id}", [f"{phase[0]}{shard}" for shard in range(count)])
        return [None if mark is None else mark.decode() for _, mark in marks]

    def durations(self, name: str) -> ShardDurations | None:
        """Return the stored durations of MapReduce jobs of this name; None before one finished."""
        text = self._calls.command(self._calls.client.get, f"{self._calls.prefix}durations:{name}")
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

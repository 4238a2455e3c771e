"""Sums of a cell on a server, read at one moment: `Queries.sums`."""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping

from omega.cellstate.lanes import Lane
from omega.cellstate.override import override
from omega.cellstate.redis import records
from omega.cellstate.redis.reads import RedisReads
from omega.cellstate.sums import DELAYED, OVER, TOTALS, CellSums, LaneSum, Shape, job_states, task_counts

LaneNumbers = tuple[Lane, tuple[int, ...]]


class RedisSums(RedisReads):
    """The sums that the scripts keep."""

    @override
    def sums(self) -> CellSums:
        prefix, size = self._prefix, len(self.dimensions)
        with self.client.pipeline() as pipe:  # one transaction: all of one version
            pipe.hmget(prefix + "meta", "version", *sorted(TOTALS))
            pipe.hgetall(prefix + "shapes")
            pipe.hgetall(prefix + "lanes")
            pipe.hlen(prefix + "jobs")
            counters, shapes, lanes, stored = self._command(pipe.execute)
        version, *values = (int(value or 0) for value in counters)
        totals = dict(zip(sorted(TOTALS), values, strict=True))
        over = shapes.pop(OVER.encode(), b"").decode().split()
        lanes.pop(b"spare", None)
        known = [each for _, each in self._readable("lanes", lanes.items(), _lane, size)]
        together, pending = sum_of_lanes(known, size)
        return CellSums(
            version=version,
            shapes={Shape.named(field.decode()): int(count) for field, count in shapes.items()},
            over=self._over(over),
            jobs=job_states(totals, together),
            stored=int(stored),
            tasks=task_counts(totals, together.placed),
            delayed=totals[DELAYED],
            wanted=together.wanted,
            held=together.held,
            pending=pending,
        )

    def _over(self, indices: Iterable[str]) -> int:
        """Return how many of these machines hold more than they have."""
        size, count = len(self.dimensions), 0
        for index, row in self._fields("machines", list(indices)):
            for whole in self._whole_rows({index.encode(): row}, records.row_bytes(size)) if row else ():
                amounts = records.read_row(whole, size)[4:]
                count += any(used > has for has, used in zip(amounts[:size], amounts[size:], strict=True))
        return count


def _lane(record: bytes, size: int) -> LaneNumbers:
    *_, lane = records.lane_row(record, size)
    return lane, struct.unpack(f"<{7 + 2 * size}q", record[: 8 * (7 + 2 * size)])


def sum_of_lanes(lanes: Iterable[LaneNumbers], size: int) -> tuple[LaneSum, Mapping[str, int]]:
    """Return what lanes count together, and the number of pending jobs of each kind."""
    sums, pending = [0] * (3 + 2 * size), Counter[str]()
    for lane, numbers in lanes:
        sums = list(map(int.__add__, sums, numbers[4:]))
        pending[lane.kind] += numbers[2]
    *amounts, live, placed, running = sums
    together = LaneSum(live, running, placed, tuple(amounts[:size]), tuple(amounts[size:]))
    return together, {kind: count for kind, count in sorted(pending.items()) if count}

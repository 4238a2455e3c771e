"""Shards of a MapReduce job: pieces of its input, then of its output, that workers process one at a time.

Their state is stored beside the cell state: it changes no version, and a job that loses it starts again.
"""

from dataclasses import dataclass
from typing import NamedTuple

from omega.cellstate.ranges import EMPTY

MAP, REDUCE = "map", "reduce"
PHASES = (MAP, REDUCE)
TRIES = 4
"""Number of failures of one shard after which its job fails."""
MOST_IN_A_ROW = 3
"""Number of consecutive failed shards after which a machine is excluded, unless the job has no other."""
RETRY_MS = 1_000
"""Delay of a shard after its first failure (ms); doubled after each further one."""
KEPT_MS = 7 * 24 * 3600 * 1000
"""Time after the last access at which the shards of a job expire (ms)."""
UNSENT_MS = 60 * 1000
"""Time for which a directory is claimed before its job is submitted (ms); then it is claimed for `KEPT_MS`."""
LEARNT_MS = 90 * 24 * 3600 * 1000
"""Time after the last run at which the durations of a job's name expire (ms)."""


class Worker(NamedTuple):
    """A placed task that works on shards; its placement fences it (semantics 1)."""

    machine: int
    placement: int
    task: int

    @property
    def mark(self) -> str:
        """Return the mark of this worker's files, which is unique: no placement id is given out twice."""
        return f"{self.placement}-{self.task}"


class Errand(NamedTuple):
    """The next step of a worker: ``map`` or ``reduce`` a shard, or one of those below.

    ``wait``: others hold what is left. ``far``: there are shards, but none that it takes. ``out``: consecutive shards
    failed on its machine, which gets no more of them. ``done``: all are finished. ``fenced``: its placement has ended.
    ``failed``: `shard` and `phase` name the shard that failed too often.
    """

    what: str
    shard: int = -1
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCount:
    """The shards of one phase: all, unclaimed ones, finished ones, and the total duration of the finished ones (ms)."""

    total: int
    waiting: int
    done: int
    milliseconds: int

    @property
    def mean(self) -> float | None:
        """Mean seconds of a shard; None before one is done."""
        return self.milliseconds / 1000 / self.done if self.done else None


class Progress(NamedTuple):
    """Progress of a MapReduce job, first by phase.

    `held` are placement, task and shard of each claim, also of workers that have left; `failed` is the shard that
    failed too often, ``phase number``. `failing`: machines by index, with the number of consecutive failed shards.
    `levels`: the number of finished maps by the level of their locality, of those that have one. `unclaimed`: the maps
    that are neither claimed nor finished (ranges).
    """

    map: PhaseCount
    reduce: PhaseCount
    held: tuple[tuple[int, int, int], ...] = ()
    failed: str = ""
    failing: tuple[tuple[int, int], ...] = ()
    levels: tuple[tuple[int, int], ...] = ()
    unclaimed: str = EMPTY

    @property
    def working(self) -> int:
        """Return the number of claimed shards."""
        return len(self.held)

    @property
    def left_out(self) -> list[int]:
        """Return the machines that get no more shards while the job has others (`MOST_IN_A_ROW`)."""
        return [machine for machine, count in self.failing if count >= MOST_IN_A_ROW]

    @property
    def phase(self) -> str:
        """``map``, ``reduce``, ``done`` or ``failed``."""
        if self.failed:
            return "failed"
        return MAP if self.map.done < self.map.total else REDUCE if self.reduce.done < self.reduce.total else "done"


class ShardDurations(NamedTuple):
    """Mean durations of earlier runs' shards in milliseconds; later runs have more weight."""

    runs: int
    map_ms: int
    reduce_ms: int

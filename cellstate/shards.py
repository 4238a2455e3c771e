"""The words of a MapReduce job's shards: pieces of its input that workers take one at a time, then of its output.

What became of them stands beside the cell state: it changes no version, and a job that loses it begins anew.
"""

from typing import NamedTuple

MAP, REDUCE = "map", "reduce"
PHASES = (MAP, REDUCE)
TRIES = 4
"""So many failures of one shard and its job gives up."""
MOST_IN_A_ROW = 3
"""A machine on which so many shards in a row failed is left out, unless the job has no other."""
RETRY_MS = 1_000
"""How long a shard waits after its first failure (ms); twice as long after each further one."""
KEPT_MS = 7 * 24 * 3600 * 1000
"""The shards of a job nobody asks about are forgotten after this long (ms)."""
LEARNT_MS = 90 * 24 * 3600 * 1000
"""How long activities of a job's name take is remembered for this long (ms) after its last run."""


class Worker(NamedTuple):
    """A placed task that works on shards: its placement is what fences it (semantics 1)."""

    machine: int
    placement: int
    task: int

    @property
    def mark(self) -> str:
        """What tells this worker's files from those of any other: no placement id is given out twice."""
        return f"{self.placement}-{self.task}"


class Errand(NamedTuple):
    """What a worker is to do: ``map`` or ``reduce`` a shard; ``wait``, ``out``, ``done``, ``failed`` or ``fenced``.

    ``out``: shard after shard failed on its machine, which gets no more of them. Of a job that failed, `shard` and
    `phase` name what was tried too often.
    """

    what: str
    shard: int = -1
    phase: str = ""


class PhaseCount(NamedTuple):
    """The shards of one phase: all, those nobody works on, those done, and how long the done ones took (ms)."""

    total: int
    waiting: int
    done: int
    milliseconds: int

    @property
    def mean(self) -> float | None:
        """Mean seconds of a shard; None before one is done."""
        return self.milliseconds / 1000 / self.done if self.done else None


class Progress(NamedTuple):
    """How far a MapReduce job is, first by phase.

    `working` shards are in some worker's hands; `failed` is the one tried too often, ``phase number``. `failing`:
    machines by their index, with the number of shards that failed there in a row.
    """

    map: PhaseCount
    reduce: PhaseCount
    working: int = 0
    failed: str = ""
    failing: tuple[tuple[int, int], ...] = ()

    @property
    def left_out(self) -> list[int]:
        """Machines that get no more shards, as long as the job has others (`MOST_IN_A_ROW`)."""
        return [machine for machine, count in self.failing if count >= MOST_IN_A_ROW]

    @property
    def phase(self) -> str:
        """``map``, ``reduce``, ``done`` or ``failed``."""
        if self.failed:
            return "failed"
        return MAP if self.map.done < self.map.total else REDUCE if self.reduce.done < self.reduce.total else "done"


class ShardDurations(NamedTuple):
    """How long the activities of earlier runs took: mean milliseconds, the latest runs weigh most."""

    runs: int
    map_ms: int
    reduce_ms: int

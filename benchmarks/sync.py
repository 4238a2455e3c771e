"""Cost of a scheduler's sync of its working copy, by number of changed machines."""

import time
from random import Random

from benchmarks.computer import middle, spread
from benchmarks.residents import CALL, CLAIMS, Filler, chunks, join
from benchmarks.store import Saved, Store
from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position

NEED = (10, 16)
SAMPLES = 21
FULL = "full"


def measure_sync(store: Store, empty: Saved, sizes: list[int], changes: list[int]) -> list[dict[str, object]]:
    """Milliseconds for a delta after so many changed machines, and for a full read, per cell size.

    Whole cost to the scheduler: the call, the reading of the reply, and taking it over into the Snapshot.
    Deltas are measured at the first size, where every number of changes up to the size is made.
    """
    found: list[dict[str, object]] = []
    for size in sizes:
        empty.restore()
        cell = store.open_cell()
        join(cell, size)
        snapshot = ArraySnapshot(len(cell.dimensions))
        snapshot.apply(cell.schedulers.sync(Position()))
        if size == sizes[0]:
            filler = Filler(cell, "sync")
            found += [_delta(cell, snapshot, filler, size, changed) for changed in changes if changed <= size]
            filler.leave()
        found.append({"machines": size, "changed": FULL} | _timed(Position(), cell, snapshot))
        cell.close()
    return found


def _delta(cell: RedisCell, snapshot: Snapshot, filler: Filler, size: int, changed: int) -> dict[str, object]:
    """Change machines as commits of a few hundred claims do, then read the same delta again and again."""
    before = cell.schedulers.sync(snapshot.position)
    snapshot.apply(before)
    machines = Random(f"sync/{changed}").sample(range(size), changed)
    for call in chunks(chunks([(machine, 1) for machine in machines], CLAIMS), CALL):
        filler.place(NEED, call)
    return {"machines": size, "changed": changed} | _timed(before.position, cell, snapshot)


def _timed(since: Position, cell: RedisCell, snapshot: Snapshot) -> dict[str, object]:
    asking, taking, total = [], [], []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        reply: Reply = cell.schedulers.sync(since)
        answered = time.perf_counter()
        snapshot.apply(reply)
        ended = time.perf_counter()
        asking.append((answered - began) * 1000)
        taking.append((ended - answered) * 1000)
        total.append((ended - began) * 1000)
    return {
        "milliseconds": round(middle(total), 3),
        "spread": spread(total, 3),
        "asking": round(middle(asking), 3),
        "taking_over": round(middle(taking), 3),
        "samples": SAMPLES,
    }

"""What lanes cost an attempt: requeueing, choosing and deciding jobs of 1 and of 50 users."""

from collections.abc import Callable, Sequence
from statistics import median
from time import process_time_ns
from typing import Any

from omega.schedulers.ordering.without_pools import FairUsers, PrecedenceFifo
from omega.schedulers.policies import Ordering
from omega.schedulers.scheduler import Scheduler
from omega.testing import snapshot, work

LANES = (1, 50)
JOBS, MACHINES, ATTEMPTS, REPEAT = 10_000, 1_000, 300, 3
ORDERINGS: dict[str, Callable[[], Ordering]] = {"precedence": PrecedenceFifo, "weighted-fair": FairUsers}


def measure_attempts(lanes: Sequence[int] = LANES) -> list[dict[str, Any]]:
    """Return a row per ordering policy and number of lanes: milliseconds of processor time of an attempt of 8 jobs."""
    return [
        {
            "ordering": name,
            "lanes": count,
            "jobs": JOBS,
            "milliseconds": round(min(_attempt(ordering(), count) for _ in range(REPEAT)), 3),
        }
        for name, ordering in ORDERINGS.items()
        for count in lanes
    ]


def _attempt(ordering: Ordering, lanes: int) -> float:
    """Return the median time of attempts in a cell with room, where each lane is a user or a precedence."""
    copy = snapshot(*[(1_000_000, 1_000_000)] * MACHINES)
    scheduler = Scheduler("batch", ordering=ordering)
    for user in range(lanes):
        copy.usage.change(("", f"u{user}"), (user + 1, user + 1), (0, 0))
    scheduler.take(
        [work(((1, 1), 10), name=f"j{i}", order=i, user=f"u{i % lanes}", precedence=i % lanes) for i in range(JOBS)]
    )
    spent = []
    for i in range(ATTEMPTS):
        began = process_time_ns()
        scheduler.requeue(copy, float(i))
        works = scheduler.choose(float(i))
        scheduler.decide(works, copy, float(i))
        spent.append((process_time_ns() - began) / 1e6)
        copy.usage.forget()
        for each in works:
            scheduler.working.pop(each.id, None)
    return median(spent)

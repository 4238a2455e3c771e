"""Use of a cell by user, pool or kind over hours: what tasks held, how many began and ended, how long jobs waited."""

from typing import TYPE_CHECKING, Any

from omega.cellstate.digest.hours import COUNTS, HOUR_MS, KEPT_HOURS, Hour, Owner, Position, readable
from omega.cellstate.errors import BadInput

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

DAY_MS = 24 * HOUR_MS
BY = ("user", "pool", "kind")


def use(cell: "Cell", by: str, from_ms: int | None, to_ms: int | None, now_ms: int) -> dict[str, Any]:
    """Return the use of each user, pool or kind in the hours from `from_ms` to `to_ms`, as plain values.

    Without them: the day before `now_ms`, up to `now_ms`. Hours count as a whole. ``gaps`` are spans (ms) in which it
    is unknown what tasks held; ``counted_to_ms`` is the time up to which the log was read, None before the first step
    of housekeeping. Raises BadInput.
    """
    from_ms = now_ms - DAY_MS if from_ms is None else from_ms
    to_ms = now_ms if to_ms is None else to_ms
    if to_ms < from_ms:
        raise BadInput("the end is before the begin; give an earlier begin")
    position = readable(Position.unpack, cell.digest.position(), Position())
    last = max(from_ms, min(to_ms - 1, position.at_ms or to_ms)) // HOUR_MS
    first = max(from_ms // HOUR_MS, last - KEPT_HOURS)
    size = len(COUNTS) + len(cell.dimensions)
    sums: dict[str, list[int]] = {}
    gaps: list[list[int]] = []
    for _, record in sorted(cell.digest.usage_hours(range(first, last + 1)).items()):
        hour = readable(Hour.unpack, record, Hour())
        for owner, numbers in hour.uses.items():
            known = sums.setdefault(_name(owner, by), [0] * size)
            for at, number in enumerate(numbers[:size]):
                known[at] += number
        for begin, end in hour.gaps:
            if gaps and gaps[-1][1] >= begin:
                gaps[-1][1] = end
            else:
                gaps.append([begin, end])
    return {
        "cell": cell.name,
        "by": by,
        "from_ms": first * HOUR_MS,
        "to_ms": (last + 1) * HOUR_MS,
        "counted_to_ms": position.at_ms or None,
        "gaps": [{"from_ms": begin, "to_ms": end} for begin, end in gaps],
        "use": [_row(cell, by, name, numbers) for name, numbers in sorted(sums.items())],
    }


def _name(owner: Owner, by: str) -> str:
    return str(getattr(owner, by))


def _row(cell: "Cell", by: str, name: str, numbers: list[int]) -> dict[str, Any]:
    counts = dict(zip(COUNTS, numbers, strict=False))
    waits, wait_ms = counts.pop("waits"), counts.pop("wait_ms")
    held = {
        f"{resource}_hours": amount / (1_000 if resource == "cpu" else 1) / HOUR_MS
        for resource, amount in zip(cell.dimensions.names, numbers[len(COUNTS) :], strict=True)
    }
    mean = wait_ms / waits / 1_000 if waits else None
    return {by: name or None, **held, **counts, "jobs_placed": waits, "mean_wait_seconds": mean}

"""A picture of a cell: its state at one version, as frames of a recording."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from omega.cellstate.errors import Refused
from omega.cellstate.events import Place
from omega.cellstate.logged_settings import plain_pools
from omega.recording.file import Sink
from omega.recording.job_rows import row_of

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.primary import Primary

CHUNK = 1_000
"""Machines, jobs or runs in a frame."""
ATTEMPTS = 5
Row = TypeVar("Row")


def take(cell: "Cell", sink: Sink) -> int:
    """Write a picture of the cell; returns its version. Raises Refused when the cell changes too fast to be read."""
    for _ in range(ATTEMPTS):
        reading, pools = cell.log.read_records(), cell.pools.get()
        if reading is not None and pools.version <= reading.primary.version:
            break
    else:
        raise Refused(f"cell {cell.name}: changes faster than it can be read; record again when it is quieter")
    state, now_ms = reading.primary, cell.store_ms()
    schedulers = {
        name: {"lives": lives, "settings": figures.get("settings", {})}
        for name, (_, lives, figures) in cell.schedulers.members().items()
    }
    limits = {
        kind: [limits.jobs, list(limits.precedence), list(limits.resources)] for kind, limits in state.limits.items()
    }
    sink.write(
        "picture", version=state.version, at_ms=now_ms, placements=state.placements, limits=limits,
        schedulers=schedulers, **plain_pools(pools),
    )  # fmt: skip
    _write_machines(state, sink)
    _write_jobs(state, sink)
    times = sorted(cell.log.placed_by(), key=lambda each: each[1])
    newest = {
        fact.event.placement: fact.at_ms + (fact.basis.ahead_ms if fact.basis else 0)
        for fact in cell.log.newest_facts(0, "place").facts
        if isinstance(fact.event, Place)
    }
    for part in _chunks(_runs(state, times, newest)):
        sink.write("runs", rows=part)
    return state.version


def _write_machines(state: "Primary", sink: Sink) -> None:
    """Write index, name, number, state, executor, capacity, allocated amounts and attributes of each machine."""
    for part in _chunks(sorted(state.rows)):
        rows = []
        for index in part:
            name, attributes = state.described.get(index, ("", ()))
            _, number, status, executor, *_ = row = state.rows[index]
            capacity, allocated = state.amounts(row)
            rows.append([index, name, number, status, executor, capacity, allocated, dict(attributes)])
        sink.write("machines", rows=rows)


def _write_jobs(state: "Primary", sink: Sink) -> None:
    for part in _chunks(state.jobs.values()):
        sink.write("jobs", rows=[row_of(job, job.spec) for job in part])


def _runs(state: "Primary", times: Sequence[tuple[int, int]], newest: Mapping[int, int]) -> Iterator[list[Any]]:
    """Yield machine, placement, job, group, tasks, leaving and start (ms, server's clock; -1: unknown) of the runs."""
    last = [placement for _, placement in times]
    for run in sorted(state.runs, key=lambda run: (run.machine, run.placement, run.leaving)):
        place = bisect_left(last, run.placement)
        began = newest.get(run.placement, times[place][0] if place < len(times) else -1)
        yield [run.machine, run.placement, run.job, run.group, run.tasks, int(run.leaving), began]


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    source = iter(rows)
    while part := list(islice(source, CHUNK)):
        yield part

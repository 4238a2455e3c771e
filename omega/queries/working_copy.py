"""A working copy of the cell, as schedulers have, for commands that predict a scheduler's decision."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

Members = Mapping[str, tuple[int, bool, Mapping[str, Any]]]
"""Schedulers by name: incarnation, whether the lease holds, figures of the last heartbeat."""

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import JobSpec
    from omega.cellstate.snapshot import Snapshot
    from omega.schedulers.work import Work


def working_copy(cell: "Cell", *, empty: bool = False) -> "Snapshot":
    """Return the machines as they are now; `empty`: as if nothing were placed on them."""
    from omega.cellstate.array_snapshot import ArraySnapshot
    from omega.cellstate.transaction import Position

    snapshot, reply = ArraySnapshot(len(cell.dimensions)), cell.schedulers.sync(Position())
    if empty:
        reply.rows = reply.rows.copy()  # the rows read must not be changed
        reply.rows[:, 4 + len(cell.dimensions) :] = 0
    snapshot.apply(reply)
    snapshot.pools, snapshot.resources = cell.pools.get(), cell.dimensions.names
    return snapshot


_LATEST: "WeakKeyDictionary[Cell, Snapshot]" = WeakKeyDictionary()
"""The working copies of `latest`: 70 bytes per machine, and residents of 4,096 machines, for each connection."""
MOST_COPIES = 2
"""Working copies that are kept: a process with many connections explains jobs by a few of them at a time."""


def latest(cell: "Cell") -> "Snapshot":
    """Return the working copy of this cell object, brought up to date: callers leave it as they found it.

    The first call reads all machines (60 ms for 100,000), later ones those that changed since.
    """
    from omega.cellstate.replies import StaleSnapshot

    kept = _LATEST.get(cell)
    if kept is not None:
        try:
            kept.apply(cell.schedulers.sync(kept.position))
            kept.forget_freed()
            kept.pools = cell.pools.get()
        except StaleSnapshot:
            _LATEST.pop(cell, None)
        else:
            return kept
    made = _LATEST[cell] = working_copy(cell)
    for other in list(_LATEST.keys())[:-MOST_COPIES]:
        _LATEST.pop(other, None)
    return made


def look_up(cell: "Cell", snapshot: "Snapshot", works: "Sequence[Work]") -> None:
    """Fetch what these jobs ask for beside room."""
    from omega.schedulers.constraints.fetching import fetch, wanted

    asked = wanted(works, snapshot)
    if asked is not None:
        fetch(asked, cell, snapshot)


def kinds_of(members: "Members") -> frozenset[str]:
    """Return the kinds of the live schedulers among these members of a cell."""
    return frozenset(name.partition("/")[0] for name, (_, alive, _) in members.items() if alive)


def delayed_by(members: "Members") -> dict[str, tuple[int, str]]:
    """The jobs that live schedulers delay because a policy names a later time (`Work.until`), as of their heartbeats.

    Each has the time of its next attempt (ms since 1970) and the level of its locality, ``""`` if its policy named
    none. A scheduler lists the 256 that are due first; one of an earlier version lists the times alone.
    """
    listed = (figures.get("delayed", {}) for _, alive, figures in members.values() if alive)
    found = ((job, entry if isinstance(entry, list) else [entry, ""]) for each in listed for job, entry in each.items())
    return {job: (int(until_ms), str(level)) for job, (until_ms, level) in found}


def as_work(spec: "JobSpec", order: int = 0) -> "Work":
    """Return an unsubmitted job as a scheduler would hold it, with `order` as its submission number."""
    from omega.cellstate.model import GroupStatus, Job, runs_commands
    from omega.cellstate.redis.job_records import opaque
    from omega.schedulers.work import Work

    groups = [
        GroupStatus(need=group.need, duration_ms=group.duration_ms, total=n, unplaced=n, waiting=f"0-{n - 1}")
        for group in spec.groups
        for n in (group.count,)
    ]
    whole = opaque(spec.spec, spec.groups)
    job = Job(
        id=spec.id, name=spec.name, kind=spec.kind, precedence=spec.precedence, order=order, gang=spec.gang,
        gang_min=spec.gang_min,
        groups=groups, spec=whole, commands=runs_commands(whole),
    )  # fmt: skip
    return Work.of(job)

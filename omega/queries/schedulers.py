"""Schedulers of a cell and their figures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import NotFound, Refused
from omega.queries.wording import listing

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

FIGURES = ("jobs", "tasks", "transactions", "accepted", "conflicts", "queued", "blocked", "abandoned")


OVER_AND_OVER = 10
"""Consecutive rejections by one machine that indicate a fault rather than contention."""


def describe(cell: "Cell", everybody: bool = False) -> list[dict[str, Any]]:
    """Return every live scheduler as plain values, with `everybody` also past ones. Times in seconds.

    The figures are those of its last heartbeat, at `heartbeat_at_ms` by its clock; null before the first.
    """
    members, figures = cell.schedulers.members(), cell.schedulers.figures() if everybody else {}
    return [
        description(member, *members.get(member, (None, False, figures.get(member, {}))))
        for member in sorted({*members, *figures})
    ]


def names_and_states(cell: "Cell") -> Iterator[tuple[str, str]]:
    """Yield the schedulers that did not leave, live or lapsed, for completion."""
    return ((name, "live" if alive else "lapsed") for name, (_, alive, _) in cell.schedulers.members().items())


def description(member: str, incarnation: int | None, alive: bool, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheduler as plain values; `own` are the figures it left, `incarnation` is None when it left itself."""
    state = "live" if alive else "lapsed" if incarnation is not None else "left"
    return {
        "member": member,
        "state": state,
        "alive": alive,
        "incarnation": incarnation,
        **{name: own.get(name) for name in FIGURES},
        "conflict_fraction": own.get("conflict_fraction"),
        "wait_seconds": {"mean": own.get("wait_mean"), "p90": own.get("wait_p90")},
        "busyness": own.get("busyness"),
        "seconds": own.get("seconds"),
        "failing": {text: len(jobs) for text, jobs in own.get("failing", {}).items()},
        "failed": own.get("failed"),
        "metrics": own.get("metrics"),
        "heartbeat_at_ms": own.get("at_ms"),
        "pid": own.get("pid"),
        "host": own.get("host"),
        "job_fields": own.get("job_fields"),
    }


def status(cell: "Cell", name: str | None) -> list[dict[str, Any]]:
    """Every scheduler that is meant, as plain values; times in seconds. Refused when there is none of that name."""
    members, pending, rows = cell.schedulers.members(), cell.schedulers.queue_depths(), describe(cell)
    asked = meant(cell, [row["member"] for row in rows], name)
    rows = [row for row in rows if row["member"] in asked]
    for row in rows:
        kind = row["member"].partition("/")[0]
        figures: Mapping[str, Any] = members.get(row["member"], (0, False, {}))[2]
        rejecting = figures.get("rejecting_machines", [])
        machines = cell.machines.described([index for index, *_ in rejecting])
        row.update(
            kind=kind,
            pending_of_kind=pending.get(kind, 0),
            evicts=figures.get("evicts"),
            evicts_by=figures.get("evicts_by"),
            last_cycle={"seconds": figures.get("last_cycle"), "ago": figures.get("last_cycle_ago")},
            rejecting_machines=[
                {"machine": machine or str(index), "rejections": count, "in_a_row": in_a_row}
                for (index, count, in_a_row), (machine, _) in zip(rejecting, machines, strict=True)
            ],
        )
    return rows


def meant(cell: "Cell", members: Sequence[str], asked: str | None) -> Sequence[str]:
    """Return the schedulers of the given words: by name, by kind, by what only one name, or only one kind, begins with.

    Raises NotFound when there is none, Refused when several begin so.
    """
    kinds = {member: member.partition("/")[0] for member in members}
    named = [member for member, kind in kinds.items() if asked in (None, member, kind)]
    if named or asked is None:
        return named
    near = [member for member in members if asked and member.startswith(asked)]
    if len(near) == 1 or ("/" not in asked and len({kinds[member] for member in near}) == 1):
        return near
    if near:
        raise Refused(f"scheduler {asked!r}: is ambiguous: {listing(near)}; give more of the name")
    raise NotFound(f"scheduler {asked!r}: not in cell {cell.name}; its schedulers: {listing(members) or 'none'}")

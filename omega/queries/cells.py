"""Figures of a whole cell."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import OmegaError
from omega.cellstate.replies import KindUse, figure_totals
from omega.cellstate.resources import Dimensions
from omega.queries.fleet import Fleet
from omega.queries.job_state import STATES, counts

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.queries.recent import Recently


def writes_json(cell: "Cell") -> dict[str, Any]:
    """Return why the store refuses writes (``refuses_writes``), None where it takes them."""
    return {"refuses_writes": cell.refuses_writes() or None}


def durability_json(cell: "Cell") -> dict[str, Any]:
    """Return what a change needs before it is acknowledged (``durability``), as plain values.

    ``checked``: whether this user may read the settings of the server that it needs.
    """
    wanted = cell.durability
    values = {"mode": wanted.mode, "replicas": wanted.replicas, "timeout_ms": wanted.timeout_ms}
    return {"durability": values | {"checked": not cell.unchecked}}


def durability_text(cell: "Cell") -> str:
    """Return the same for people."""
    return cell.durability.text + (" (not checked: this user may not read CONFIG)" if cell.unchecked else "")


def cuts_json(cell: "Cell") -> dict[str, Any]:
    """Return how often the store lost versions, how many surely, and the last report (None: of none)."""
    cuts = cell.cuts()
    return {"number": cuts.number, "lost": cuts.lost, "last": cuts.last and cuts.last.as_json()}


def describe(cell: "Cell", kinds: "Mapping[str, KindUse]", past: "Recently") -> dict[str, Any]:
    """Return the figures of a cell. Amounts are in the smallest units: millicores, MiB.

    Machines, jobs and tasks are sums that the store keeps, all of ``version``; no record of them is read. Jobs and
    tasks that ended count from the creation of the cell; ``stored`` jobs are those that are kept. ``exact``: whether
    the other figures are of that version too; a cell that changes while it is read gives an approximate summary.
    Transactions are those of all processes of the schedulers that are on record (``of_schedulers``), also of processes
    that ended, each up to its last heartbeat.
    """
    sums, members, names = cell.sums(), cell.schedulers.members(), cell.dimensions.names
    fleet, figures = Fleet(sums), cell.schedulers.figures().values()
    counted = (figure_totals(each).values() for each in figures)
    total, accepted, conflicts = map(sum, zip((0, 0, 0), *counted, strict=True))
    tasks = counts([sums.tasks])
    return {
        "version": sums.version,
        "exact": cell.counters()["version"] == sums.version,
        "resources": list(names),
        "machines": fleet.states(),
        "utilisation": fleet.utilisation(names),
        "jobs": {"total": sum(sums.jobs.values()), "stored": sums.stored} | {word: sums.jobs[word] for word in STATES},
        "tasks": tasks,
        "demand": {"tasks": tasks["pending"] - sums.delayed, "delayed": sums.delayed}
        | dict(zip(names, sums.wanted, strict=True)),
        "pending": dict(sums.pending),
        "schedulers": {
            "live": sorted(member for member, (_, alive, _) in members.items() if alive),
            "lapsed": sorted(member for member, (_, alive, _) in members.items() if not alive),
        },
        "transactions": {
            "of_schedulers": len(figures),
            "total": total,
            "accepted": accepted,
            "conflicts": conflicts,
            "conflict_fraction": conflicts / max(1, accepted),
        },
        **durability_json(cell),
        "cuts": cuts_json(cell),
        "recent": {"seconds": past.seconds, **past.as_json()},
        "limits": {kind: limits_json(cell.dimensions, use) for kind, use in kinds.items()},
    }


def kinds_of(cell: "Cell", kind: str | None) -> dict[str, "KindUse"]:
    """Return limits and use of a kind, or of all kinds that have limits or placed tasks."""
    kinds = dict(cell.pools.kinds())
    return kinds if kind is None else {kind: kinds.get(kind) or KindUse.none(len(cell.dimensions))}


def limits_json(dimensions: Dimensions, use: "KindUse") -> dict[str, Any]:
    """Return limits and use of a kind as plain values; null means no limit."""
    rows = zip(dimensions.names, use.used, use.limits.resources, strict=True)
    return {
        "jobs": _use(use.jobs, use.limits.jobs),
        "resources": {name: _use(used, limit) for name, used, limit in rows},
        "precedence": list(use.limits.precedence),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Numbers of machines, live jobs, stored jobs and versions in the log, and the names of live schedulers."""

    machines: int
    live_jobs: int
    jobs: int
    versions: int
    schedulers: list[str]


def contents(cell: "Cell") -> Contents:
    """Count the contents of a cell, for commands that delete, back up or restore it."""
    live = [member for member, (_, alive, _) in cell.schedulers.members().items() if alive]
    return Contents(
        machines=cell.machines.count(),
        live_jobs=cell.jobs.live_count(),
        jobs=cell.jobs.count(),
        versions=cell.log.length(),
        schedulers=live,
    )


def _use(used: int, limit: int | None) -> dict[str, int | None]:
    """Return use and limit of a resource; `over` when the limit was lowered below the use."""
    return {"used": used, "limit": limit, "over": 0 if limit is None else max(0, used - limit)}


def list_cells(names: Iterable[str], connect: "Callable[[str], Cell]") -> list[dict[str, Any]]:
    """Return the cells of a store as plain values; one that this version cannot read has its error as ``note``."""
    cells = []
    for name in names:
        row: dict[str, Any] = {"name": name, "resources": [], "machines": 0, "jobs": 0, "schedulers": 0, "note": None}
        try:
            cell = connect(name)
        except OmegaError as error:
            row["note"] = str(error)
        else:
            row["resources"], row["machines"] = list(cell.dimensions.names), Fleet(cell.sums()).total
            row["jobs"] = cell.jobs.live_count()
            row["schedulers"] = sum(alive for _, alive, _ in cell.schedulers.members().values())
        cells.append(row)
    return cells

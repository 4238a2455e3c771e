"""The tables of ``omega top``: their rows, columns and default order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from omega.cellstate.model import Machine, MachineState
from omega.cli.top.bars import bar, curve
from omega.queries import units
from omega.queries.event_text import clock
from omega.queries.job_state import job_counts, restarts, state, waiting
from omega.queries.overview import (
    ListedJob,
    Overview,
    PoolLine,
    SchedulerRates,
    VersionEvents,
    condition,
    fullness,
    trouble,
)
from omega.queries.pool_shares import NORMAL

BAR, SHORT_BAR = 8, 4
CURVE = 12


@dataclass(frozen=True, slots=True)
class TopColumn:
    """One column. `show` and `order` take a thing that the pane lists; without `order` one cannot sort by it."""

    title: str
    show: Callable[[Any], str]
    order: Callable[[Any], Any] | None = None
    right: bool = False
    weight: int = 9
    """When there is no room, the column of the least weight goes first."""
    least: int = 0
    """Minimum width of a column that may be cut; 0 is never cut."""


@dataclass(frozen=True, slots=True)
class Pane:
    """One table: its rows, its columns, and the key that identifies a row."""

    name: str
    columns: Sequence[TopColumn]
    things: Sequence[Any]
    """In the order of choice."""
    identity: Callable[[Any], str]
    note: str = ""
    """A count next to its name."""


def panes(overview: Overview) -> list[Pane]:
    """Return all of them, in order."""
    return [_jobs(overview), _schedulers(overview), _machines(overview), _events(overview), _pools(overview)]


NAMES = ("jobs", "schedulers", "machines", "events", "pools")
EMPTY = {
    "jobs": "no job is pending or running",
    "schedulers": "no schedulers; start one with omega scheduler run batch",
    "machines": "no machines; add some with omega machine add",
    "events": "no events in the log",
    "pools": "no pools; create one with omega pool set",
}


def _jobs(overview: Overview) -> Pane:
    def age(each: ListedJob) -> str:
        return units.age((overview.at_ms - each.job.submitted_ms) / 1000)

    def placed(each: ListedJob) -> str:
        numbers = job_counts(each.job)
        return f"{numbers['placed']:,}/{numbers['total']:,}"

    def again(each: ListedJob) -> str:
        return f"{number:,}" if (number := restarts(each.job)) else ""

    def started(each: ListedJob) -> str:
        at_ms = each.times.started_ms
        return "" if at_ms is None else clock(at_ms, overview.at_ms)[:-4]

    def took(each: ListedJob) -> int | None:
        return each.times.as_json(each.job, overview.at_ms)["elapsed_ms"]

    def elapsed(each: ListedJob) -> str:
        return "" if (ms := took(each)) is None else units.age(ms / 1000)

    def wants(each: ListedJob) -> str:
        needs = [units.amounts(overview.dimensions, group.need) for group in each.job.groups]
        return units.listing(list(dict.fromkeys(needs)), 1)

    columns = (
        TopColumn("id", lambda each: each.job.id[:8], lambda each: each.job.id, weight=3),
        TopColumn("name", lambda each: each.job.name, lambda each: each.job.name, least=12),
        TopColumn("kind", lambda each: each.job.kind, lambda each: each.job.kind, weight=5),
        TopColumn("prec", lambda each: f"{each.job.precedence:,}", lambda each: -each.job.precedence, True, 4),
        TopColumn("state", lambda each: state(each.job), lambda each: state(each.job), weight=7),
        TopColumn("reason", lambda each: each.reason, lambda each: each.reason),
        TopColumn("placed", placed, lambda each: -waiting(each.job), right=True),
        TopColumn("restarts", again, lambda each: -restarts(each.job), right=True, weight=6),
        TopColumn("started", started, lambda each: each.times.started_ms or overview.at_ms, right=True, weight=1),
        TopColumn("elapsed", elapsed, lambda each: -(took(each) or 0), right=True, weight=5),
        TopColumn("each task", wants, weight=2, least=16),
        TopColumn("age", age, lambda each: each.job.submitted_ms, right=True, weight=8),
    )
    return Pane("jobs", columns, overview.shown_jobs, lambda each: f"job {each.job.id}", _jobs_note([overview]))


def _jobs_note(overviews: Sequence[Overview]) -> str:
    waiting, running = (sum(each.jobs.get(word, 0) for each in overviews) for word in ("pending", "running"))
    shown = sum(len(each.shown_jobs) for each in overviews)
    note = f"{waiting:,} pending, {running:,} running"
    return note + (f" ({shown:,} shown)" if shown < waiting + running else "")


def _schedulers(overview: Overview) -> Pane:
    def number(title: str, weight: int = 9) -> TopColumn:
        def value(each: SchedulerRates) -> int:
            return int(each.figures[title] or 0)

        def show(each: SchedulerRates) -> str:
            return "" if each.figures[title] is None else f"{value(each):,}"

        return TopColumn(title, show, lambda each: -value(each), True, weight)

    def wait(each: SchedulerRates) -> str:
        waits = each.figures["wait_seconds"]
        return "" if waits["mean"] is None else f"{units.seconds(waits['mean'])}/{units.seconds(waits['p90'])}"

    columns = (
        TopColumn("scheduler", lambda each: each.name, lambda each: each.name),
        TopColumn("state", lambda each: each.figures["state"], lambda each: each.figures["alive"]),
        TopColumn("busy", lambda each: _share(each.busyness), lambda each: -(each.busyness or 0)),
        TopColumn("history", lambda each: curve(each.past, CURVE, 1.0), weight=1),
        TopColumn("wait/p90", wait, lambda each: -(each.figures["wait_seconds"]["p90"] or 0), right=True, weight=7),
        TopColumn("conflicts", _conflicts, lambda each: -(each.conflict_fraction or 0), right=True),
        number("queued"),
        number("blocked"),
        number("jobs", 2),
        number("tasks", 3),
        number("abandoned", 1),
    )
    note = _schedulers_note([overview])
    return Pane("schedulers", columns, overview.members, lambda each: f"scheduler {each.name}", note)


def _schedulers_note(overviews: Sequence[Overview]) -> str:
    alive = [each.figures["alive"] for overview in overviews for each in overview.members]
    return f"{len(alive)}" if all(alive) else f"{sum(alive)} of {len(alive)} live"


def _conflicts(each: SchedulerRates) -> str:
    return "" if each.conflict_fraction is None else units.fraction(each.conflict_fraction)


def _share(value: float | None) -> str:
    return "" if value is None else f"{bar(value, SHORT_BAR)} {100 * value:3.0f} %"


def _machines(overview: Overview) -> Pane:
    def use(place: int, name: str) -> TopColumn:
        def show(each: Machine) -> str:
            return f"{bar(_part(each, place), BAR)} {units.in_use(name, each.allocated[place], each.capacity[place])}"

        return TopColumn(name, show, lambda each: -_part(each, place), weight=8 - place)

    columns = (
        TopColumn("machine", lambda each: each.name, lambda each: each.index),
        TopColumn("state", lambda each: stands(each, overview), trouble),
        *(use(place, name) for place, name in enumerate(overview.dimensions.names)),
        TopColumn("use", lambda each: f"{100 * fullness(each):.0f} %", lambda each: -fullness(each), right=True),
        TopColumn("changes", lambda each: f"{each.number:,}", lambda each: -each.number, right=True, weight=1),
        TopColumn("attributes", attributes, weight=1, least=10),
    )
    note = _machines_note([overview])
    return Pane("machines", columns, overview.machines, lambda each: f"machine {each.index}", note)


def _machines_note(overviews: Sequence[Overview]) -> str:
    bad = sum(each.ranked.states[word] for each in overviews for word in ("full", "down", "offline", "unfit", "over"))
    count, shown = sum(each.ranked.count for each in overviews), sum(len(each.machines) for each in overviews)
    note = f"{count:,}" + (f", {bad:,} full or worse" if bad else "")
    return note + (f" ({shown:,} shown)" if shown < count else "")


def stands(machine: Machine, overview: Overview) -> str:
    """``unfit: No space left on device``."""
    why = overview.ranked.unfit.get(machine.name)
    return condition(machine) + (f": {why}" if why else "")


def attributes(machine: Machine) -> str:
    """``rack=r1 zone=a``."""
    return " ".join(f"{key}={value}" for key, value in machine.attributes.items())


def _part(machine: Machine, place: int) -> float:
    if machine.state in (MachineState.DOWN, MachineState.OFFLINE) or not machine.capacity[place]:
        return 0.0
    return machine.allocated[place] / machine.capacity[place]


def _events(overview: Overview) -> Pane:
    columns = (
        TopColumn("time", lambda each: clock(each.first.at_ms, overview.at_ms)[:-4], lambda each: -each.first.version),
        TopColumn("by", lambda each: each.first.by, lambda each: each.first.by),
        TopColumn("what", lambda each: each.text, lambda each: each.text, least=30),
    )
    return Pane("events", columns, overview.changes, _opens)


def _pools(overview: Overview) -> Pane:
    names = overview.dimensions.names

    def dominant(each: PoolLine) -> int:
        fair = each.share.fair_share
        return max(range(len(fair)), key=fair.__getitem__)

    def name(each: PoolLine) -> str:
        return names[dominant(each)] if any(each.share.fair_share) else "–"

    def part(field: str) -> Callable[[PoolLine], str]:
        return lambda each: f"{100 * getattr(each.share, field)[dominant(each)]:.1f} %"

    def use(each: PoolLine) -> str:
        return f"{bar(each.share.usage[dominant(each)], BAR)} {part('usage')(each)}"

    def satisfaction(each: PoolLine) -> str:
        return f"{each.share.satisfaction:.2f}" if isfinite(each.share.satisfaction) else "infinite"

    columns = (
        TopColumn("pool", lambda each: "  " * each.depth + each.share.name, lambda each: each.position),
        TopColumn("status", lambda each: each.status, lambda each: each.status),
        TopColumn("usage", use, lambda each: -max(each.share.usage)),
        TopColumn("fair share", part("fair_share"), lambda each: -max(each.share.fair_share), right=True),
        TopColumn("demand", part("demand"), lambda each: -max(each.share.demand), right=True, weight=5),
        TopColumn("satisfaction", satisfaction, lambda each: each.share.satisfaction, right=True, weight=6),
        TopColumn("guarantee", part("guarantee"), lambda each: -max(each.share.guarantee), right=True, weight=3),
        TopColumn("dominant", name, weight=2),
        TopColumn(
            "weight", lambda each: f"{each.share.weight:g}", lambda each: -each.share.weight, right=True, weight=1
        ),
    )
    return Pane("pools", columns, overview.pools, lambda each: f"pool {each.share.name}", _pools_note([overview]))


def _pools_note(overviews: Sequence[Overview]) -> str:
    pools = [each for overview in overviews for each in overview.pools]
    below = sum(each.status != NORMAL for each in pools)
    note = f"{len(pools):,}" + (f", {below:,} below fair share" if below else "")
    return note if pools else ""


NOTES: Mapping[str, Callable[[Sequence[Overview]], str]] = {
    "jobs": _jobs_note, "schedulers": _schedulers_note, "machines": _machines_note, "events": lambda _: "",
    "pools": _pools_note,
}  # fmt: skip
"""The count next to the name of a pane, of one cell or of several."""


def _opens(each: VersionEvents) -> str:
    """Return the identity of an event's line: the object that Enter opens, and its version."""
    job = next((event.job for event in each.events if event.job), None)
    machine = next((event.machine for event in each.events if event.machine is not None), None)
    about = f"job {job}" if job else f"machine {machine}" if machine is not None else "event"
    return f"{about} {each.first.version}"


def chosen(pane: Pane, column: int | None, *, reverse: bool, wanted: str, most: int) -> list[Any]:
    """Return the rows of a pane with the text `wanted` in any column, sorted by a column, at most `most`."""
    things = list(pane.things)
    if wanted:
        things = [each for each in things if wanted in " ".join(one.show(each) for one in pane.columns).lower()]
    order = pane.columns[column].order if column is not None else None
    if order is not None:
        things.sort(key=order)
    return (things[::-1] if reverse else things)[:most]


def fit(pane: Pane, things: Sequence[Any], width: int) -> list[tuple[TopColumn, int]]:
    """Return the columns that have room, and how wide each may be; two characters stand between them, and a
    heading has room for the mark of the order.
    """
    shown = [
        (column, max(map(len, (column.title + (column.order is not None) * "▼", *map(column.show, things)))))
        for column in _said(pane, things)
    ]
    while len(shown) > 1 and sum(min(wide, column.least or wide) + 2 for column, wide in shown) > width:
        least = min(column.weight for column, _ in shown)
        last = max(place for place, (column, _) in enumerate(shown) if column.weight == least)
        del shown[last]
    rest = width - sum(wide + 2 for _, wide in shown)
    for place in range(len(shown) - 1, -1, -1):
        column, wide = shown[place]
        if rest < 0 and column.least:
            shown[place] = column, max(column.least, wide + rest)
            rest += wide - shown[place][1]
    return shown


def _said(pane: Pane, things: Sequence[Any]) -> list[TopColumn]:
    """Return the columns that are not empty for these rows; always the first one."""
    return [
        column for place, column in enumerate(pane.columns) if not place or not things or any(map(column.show, things))
    ]

"""Events as text: one line per version, related events in one sentence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from omega.cellstate.resources import format_amount
from omega.cli import units
from omega.queries.events import ENDINGS, Event
from omega.queries.names import Names

MOST_JOBS = 3
"""Maximum number of jobs listed by name; of more only the count is printed."""
_VERBS = {kind: kind for kind in (*ENDINGS, "left")}
_VERBS |= {"submit": "submitted", "stop": "stopped", "abandon": "abandoned", "hold": "held", "release": "released"}
_UPDATES = {
    "update": "began to update",
    "updated": "updated",
    "stalled": "stopped the update of",
    "attempt": "placed nothing of",
}
_OF_LOST = {"fail": "failed, not placed again", "requeue": "pending again", "late": "reported late"}
_CHANGES = frozenset({"hold", "release", "awaited", "met", "resize", "drop", *_UPDATES})
_STATES = {None: "ended", "stopped": "ended as stopped", "abandoned": "ended as abandoned"}


def lines(events: Iterable[Event], names: Names, now_ms: int | None = None) -> Iterator[str]:
    """Yield one line per version that has events; `now_ms` decides whether times are printed with their date."""
    for same, said in sentences(events, names):
        yield f"{clock(same[0].at_ms, now_ms)}  {f'v{same[0].version}':<6}  {same[0].by:<9}  {said}"


def sentences(events: Iterable[Event], names: Names) -> Iterator[tuple[list[Event], str]]:
    """Yield the events of every version, and their common text."""
    for _, together in groupby(events, lambda event: event.version):
        same = list(together)
        for event in same:
            names.add_event(event)
        yield same, " · ".join(_sentences(same, names))


def clock(at_ms: int, now_ms: int | None = None) -> str:
    """Return local time as ``12:03:04.123``, with the date when it is not the date of `now_ms`."""
    at = datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone()
    now = at if now_ms is None else datetime.fromtimestamp(now_ms / 1000, tz=UTC).astimezone()
    date = "" if at.date() == now.date() else at.strftime("%Y-%m-%d ")
    return f"{date}{at:%H:%M:%S}.{at_ms % 1000:03d}"


def _sentences(events: Sequence[Event], names: Names) -> Iterator[str]:
    """Yield a sentence for each job and sort of event, or one sentence for more than `MOST_JOBS` jobs."""
    sorts: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        own = [event.more.get(word) for word in ("verdict", "member", "state", "job_kind")]
        sorts.setdefault((event.kind, *own, _sort_of_reason(event)), []).append(event)
    for together in sorts.values():
        by_job: dict[str | None, list[Event]] = {}
        for event in together:
            by_job.setdefault(event.job, []).append(event)
        if len(by_job) > MOST_JOBS:
            yield _of_many(together, len(by_job), names)
        else:
            for same in by_job.values():
                yield _sentence(same, names)


def _sort_of_reason(event: Event) -> str:
    """Return the part of a reason before the colon: ``precedence`` of ``precedence:4f1c09ab``."""
    return str(event.more.get("reason", "")).partition(":")[0]


def _of_many(same: Sequence[Event], jobs: int, names: Names) -> str:
    kind, count = same[0].kind, sum(event.count or 0 for event in same)
    machines = [names.machine(event.machine) for event in same if event.machine is not None]
    tasks = f"{units.count(count, 'task')} of {units.count(jobs, 'job')}"
    if kind == "ended":
        return f"{units.count(jobs, 'job')} {_STATES[same[0].more.get('state')]}"
    if kind in ("hold", "release"):
        return f"{_VERBS[kind]} {units.count(jobs, 'job')}"
    if kind in _UPDATES:
        return f"{_UPDATES[kind]} {units.count(jobs, 'job')}"
    if kind in ("awaited", "met"):
        return f"{units.count(jobs, 'job')} {'awaited' if kind == 'awaited' else 'no longer waiting'}"
    if kind == "drop":
        return f"{tasks} not placed again (optional)"
    if kind == "assert":
        return f"compared shares of pools for {units.count(jobs, 'job')}"
    if kind in _OF_LOST:
        return f"{tasks} {_OF_LOST[kind]}"
    if kind in ("submit", "stop", "abandon"):
        return f"{_VERBS[kind]} {units.count(jobs, 'job')}, {units.count(count, 'task')}"
    if kind == "place":
        return f"placed {tasks} on {_where(machines)}"
    if kind == "conflict":
        return f"conflicts of {units.count(jobs, 'job')} on {_where(machines)}: {same[0].more['verdict']}"
    reason = _sort_of_reason(same[0])
    return f"{tasks} {_VERBS[kind]} on {_where(machines)}{f': {reason}' if reason else ''}"


def _sentence(same: Sequence[Event], names: Names) -> str:
    first = same[0]
    kind, job, count = first.kind, first.job, sum(event.count or 0 for event in same)
    where = _where([names.machine(event.machine) for event in same if event.machine is not None])
    tasks = units.count(count, "task")
    if kind == "place":
        return f"placed {tasks} of {names.job(job)} on {where}"
    if kind in ENDINGS or kind == "left":
        return f"{tasks} of {names.job(job)} {_VERBS[kind]} on {where}{_why(first, names)}"
    if kind == "conflict":
        return f"conflict of {names.job(job)} on {where}: {first.more['verdict']}"
    if kind == "submit":
        more = f", precedence {first.more['precedence']}" if first.more["precedence"] else ""
        return f"submitted {names.job(job)}, {tasks} of kind {first.more['job_kind']}{more}"
    if kind in ("stop", "abandon"):
        _, _, awaited = str(first.more.get("reason", "")).partition("after:")
        why = f": {names.job(awaited)} did not finish" if awaited else ""
        return f"{_VERBS[kind]} {names.job(job)}" + (f", {tasks} unplaced" if count else "") + why
    if kind in _OF_LOST:
        how = first.more.get("reason") or first.more.get("how")
        return f"{tasks} of {names.job(job)} {_OF_LOST[kind]}{f': {how}' if how else ''}"
    if kind in _CHANGES:
        return _changed(same, tasks, names)
    if kind == "assert":
        return f"compared shares of pools for {names.job(job)}"
    if kind == "ended":
        return f"{names.job(job)} {_STATES[first.more.get('state')]}"
    return _about_cell(same, where)


def _changed(same: Sequence[Event], tasks: str, names: Names) -> str:
    """Return the text of a job's change by a user or by another job's end, or of its optional tasks."""
    first = same[0]
    kind, job, other = first.kind, first.job, first.more.get("other")
    if kind in ("hold", "release"):
        after = f", now that {names.job(other)} has ended" if other else ""
        return f"{_VERBS[kind]} {names.job(job)}{after}"
    if kind in _UPDATES:
        return f"{_UPDATES[kind]} {names.job(job)}{_why(first, names)}"
    if kind == "awaited":
        return f"{names.job(other)} waits for {names.job(job)}"
    if kind == "met":
        return f"{names.job(job)} no longer waits for {names.job(other)}"
    if kind == "resize":
        totals = ", ".join(
            f"group {event.more['group']} to {units.count(event.more['total'], 'task')}" for event in same
        )
        return f"resized {names.job(job)}: {totals}"
    return f"{tasks} of {names.job(job)} not placed again (optional)"


def _why(event: Event, names: Names) -> str:
    reason = str(event.more.get("reason", ""))
    kind, _, job = reason.partition(":")
    if kind in ("precedence", "fair-share") and job:
        return f" for {names.job(job)}"
    return f": {reason}" if reason else ""


def _about_cell(same: Sequence[Event], where: str) -> str:
    first, more = same[0], same[0].more
    is_, has = ("is", "has") if len({event.machine for event in same}) <= 1 else ("are", "have")
    if first.kind == "join":
        return f"{where} joined"
    if first.kind == "machine":
        if "state" in more:
            return f"{where} {is_} {more['state']}"
        if "attributes" in more:
            return f"{where} {has} new attributes"
        amounts = [f"{name} {format_amount(name, amount)}" for name, amount in more["capacity"].items()]
        return f"{where} {has} a new capacity: {', '.join(amounts)}"
    if first.kind == "register":
        return f"{more['member']} joined (incarnation {more['incarnation']})"
    if first.kind == "deregister":
        return f"{more['member']} left"
    if first.kind == "expire":
        return f"lease of {more['member']} expired"
    if first.kind == "restore":
        return f"the cell was restored from a backup of version {more['of_version']:,}"
    if first.kind == "limit":
        return f"limits of kind {more['job_kind']} changed"
    if first.kind in ("pool", "trees", "epoch"):
        return _about_pools(first.kind, more)
    return " ".join((first.kind, *more.get("words", ())))


def _about_pools(kind: str, more: Mapping[str, Any]) -> str:
    if kind == "pool":
        return f"pool {more['pool']} was {'removed' if more['removed'] else 'set'}"
    if kind == "epoch":
        return f"epoch {more['number']}: fair shares of version {more['of_version']:,}"
    return "pool trees changed"


def _where(machines: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(machines))
    return ", ".join(distinct) if len(distinct) <= 3 else units.count(len(distinct), "machine")

"""Events as text: one line per version, related events in one sentence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.cuts import Cut
from omega.cellstate.events import ENDS
from omega.cellstate.resources import format_amount
from omega.queries import units
from omega.queries.events import Event
from omega.queries.names import Names

LONGEST_NAMES = 60
"""Letters of the names of tasks in a sentence; longer ones are left out."""
MOST_JOBS = 3
"""Maximum number of jobs listed by name; of more only the count is printed."""
MOST_NAMED = 100
"""Events of a version whose machines and jobs are read together."""
_VERBS = {kind: kind for kind in (*ENDS, "left")}
_VERBS["retried"] = "used up its restarts"
_VERBS |= {"submit": "submitted", "stop": "stopped", "abandon": "abandoned", "hold": "held", "release": "released"}
_VERBS |= {"gate": "gate held", "pass": "gate released"}
_UPDATES = {
    "update": "began to update",
    "updated": "updated",
    "stalled": "stopped the update of",
    "attempt": "placed nothing of",
}
_OF_LOST = {"fail": "failed, not placed again", "requeue": "pending again", "late": "reported late"}
_OF_LOST |= {
    "speculate": "to be copied",
    "unneeded": "no longer to be copied",
    "promote": "goes on as its copy; first run",
}
_CHANGES = frozenset({"hold", "gate", "pass", "release", "awaited", "met", "resize", *_UPDATES})
_STATES = {None: "ended", "stopped": "ended as stopped", "abandoned": "ended as abandoned"}


def lines(events: Iterable[Event], names: Names, now_ms: int | None = None) -> Iterator[str]:
    """Yield one line per version that has events; `now_ms` decides whether times are printed with their date."""
    for same, said in sentences(events, names):
        yield f"{clock(same[0].at_ms, now_ms)}  {f'v{same[0].version}':<6}  {same[0].by:<9}  {said}"


def sentences(events: Iterable[Event], names: Names) -> Iterator[tuple[list[Event], str]]:
    """Yield the events of every version, and their common text."""
    for _, of_version in groupby(events, lambda event: event.version):
        same = list(of_version)
        for event in same:
            names.add_event(event)
        names.read_machines(event.machine for event in same[:MOST_NAMED])
        names.read_jobs(event.job for event in same[:MOST_NAMED])
        names.read_copies(same)
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
    last: dict[str, list[Event]] = {}
    for event in events:
        if "events" in event.more and event.kind in last:  # the number of further ones like the last
            last[event.kind].append(event)
            continue
        if event.kind == "drop" and names.are_copies(event):
            continue  # the end of a copy says it
        own = [event.more.get(word) for word in ("verdict", "member", "state", "tree", "job_kind")]
        sort = (event.kind, *own, _sort_of_reason(event), names.are_copies(event))
        alike = last[event.kind] = sorts.setdefault(sort, [])
        alike.append(event)
    for alike in sorts.values():
        by_job: dict[str | None, list[Event]] = {}
        for event in alike:
            by_job.setdefault(event.job, []).append(event)
        if len(by_job) > MOST_JOBS:
            yield _sentence(alike, len(by_job), names)
        else:
            for same in by_job.values():
                yield _sentence(same, 1, names)


def _sort_of_reason(event: Event) -> str:
    """Return the part of a reason before the colon: ``precedence`` of ``precedence:4f1c09ab``."""
    return str(event.more.get("reason", "")).partition(":")[0]


def _sentence(same: Sequence[Event], jobs: int, names: Names) -> str:
    """Return the text of events of one sort: of one job, with its name and reason, or of several jobs."""
    told = [event for event in same if "events" not in event.more]  # the others are numbers of further ones
    one, count = jobs == 1, sum(event.count or 0 for event in same)
    others = sum(event.more.get("events", 0) for event in same)
    if not told:
        return _numbers(same[0].kind, others, count, names.job(same[0].job) if one and same[0].job else "")
    first, kind = told[0], told[0].kind
    where = _where([names.machine(event.machine) for event in same if event.machine is not None], others)
    who = names.job(first.job) if one else units.count(jobs, "job")
    tasks = units.count(count, "task") + (_indices(same, names) if one else "")
    if names.are_copies(first):
        tasks = f"{'the copy' if count == 1 else 'the copies'} of {tasks}"
    if kind == "place":
        return f"placed {tasks} of {who} on {where}"
    if kind in ENDS or kind == "left":
        reason = _sort_of_reason(first)
        why = _why(first, names) if one else f": {reason}" if reason else ""
        verb = "ended" if kind == "lost" and reason.endswith(" left") else _VERBS[kind]
        return f"{tasks} of {who} {verb} on {where}{why}"
    if kind == "conflict":
        return f"{'conflict' if one else 'conflicts'} of {who} on {where}: {first.more['verdict']}"
    if kind == "submit" and one:
        more = f", precedence {first.more['precedence']}" if first.more["precedence"] else ""
        return f"submitted {who}, {tasks} of kind {first.more['job_kind']}{more}"
    if kind in ("stop", "abandon") and one:
        _, _, awaited = str(first.more.get("reason", "")).partition("after:")
        why = f": {names.job(awaited)} did not finish" if awaited else ""
        return f"{_VERBS[kind]} {who}" + (f", {tasks} unplaced" if count else "") + why
    if kind in ("submit", "stop", "abandon"):
        return f"{_VERBS[kind]} {who}, {tasks}"
    if kind in _OF_LOST:
        how = (first.more.get("reason") or first.more.get("how")) if one else None
        return f"{tasks} of {who} {_OF_LOST[kind]}{f': {how}' if how else ''}"
    if kind == "drop":
        return f"{tasks} of {who} not placed again (optional)"
    if kind == "assert":
        return f"compared shares of pools for {who}"
    if kind == "ended":
        how = first.more.get("state")
        return f"{who} {_STATES.get(how, f'ended as {how}')}"
    return _changed(told, who, names, others, one=one) if kind in _CHANGES else _about_cell(told, where)


def _numbers(kind: str, events: int, tasks: int, who: str) -> str:
    """Return the text of events of which a record has only the number: ``3 events of kind conflict of crawl``."""
    of_tasks = f", {units.count(tasks, 'task')}" if tasks else ""
    return f"{units.count(events, 'event')} of kind {kind}{f' of {who}' if who else ''}{of_tasks}"


def _indices(same: Sequence[Event], names: Names) -> str:
    """Return the names of the tasks of an array, which have other indices than numbers; of many none."""
    groups: dict[int, str] = {}
    for event in same:
        if not names.tasks(event):  # not an array, or only the number of further events
            return ""
        group = event.more["group"]
        groups[group] = ranges.add(groups.get(group, ranges.EMPTY), event.more["tasks"])
    called = [names.tasks(replace(same[0], more={"group": each, "tasks": groups[each]})) for each in sorted(groups)]
    text = ", ".join(each["task_name"] for each in called)
    return f" ({text})" if text and len(text) <= LONGEST_NAMES else ""


def _changed(same: Sequence[Event], who: str, names: Names, others: int, *, one: bool) -> str:
    """Return the text of a job's change by a user or by another job's end; `others` are further ones in number."""
    first = same[0]
    kind, other = first.kind, first.more.get("other")
    if kind in ("gate", "pass"):
        return f"{_VERBS[kind]} {who}" + (_why(first, names) if one else "")
    if kind in ("hold", "release"):
        return f"{_VERBS[kind]} {who}" + (f", now that {names.job(other)} has ended" if one and other else "")
    if kind in _UPDATES:
        return f"{_UPDATES[kind]} {who}" + (_why(first, names) if one else "")
    if kind == "awaited":
        return f"{names.job(other)} waits for {who}" if one else f"{who} awaited"
    if kind == "met":
        return f"{who} no longer waits for {names.job(other)}" if one else f"{who} no longer waiting"
    totals = [f"group {event.more['group']} to {units.count(event.more['total'], 'task')}" for event in same]
    further = [units.count(others, "further group")] if others else []
    return f"resized {who}: {', '.join(totals + further)}"


def _why(event: Event, names: Names) -> str:
    reason = str(event.more.get("reason", ""))
    kind, _, job = reason.partition(":")
    if kind in ("precedence", "fair-share") and job:
        return f" for {names.job(job)}"
    return f": {reason}" if reason else ""


_OF_MEMBERS = {
    "register": "{member} joined (incarnation {incarnation})",
    "deregister": "{member} left",
    "expire": "lease of {member} expired",
    "fit": "{member} can start tasks again",
    "unfit": "{member} cannot start tasks: {reason}",
}


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
        if "tree" in more:
            place = "no pool tree" if more["tree"] is None else f"pool tree {more['tree'] + 1} of the list"
            return f"{where} {is_} in {place}"
        amounts = [f"{name} {format_amount(name, amount)}" for name, amount in more["capacity"].items()]
        return f"{where} {has} a new capacity: {', '.join(amounts)}"
    if first.kind in _OF_MEMBERS:
        return _OF_MEMBERS[first.kind].format(**more)
    if first.kind == "restore":
        return f"the cell was restored from a backup of version {more['of_version']:,}"
    if first.kind == "limit":
        return f"limits of kind {more['job_kind']} changed"
    if first.kind in ("pool", "trees", "epoch", "cut"):
        return _about_pools(first.kind, more) if first.kind != "cut" else _cut(first)
    known = {"job": first.job, "machine": where or None, "tasks": first.count, **more}
    said = [f"{name} {value}" for name, value in known.items() if name != "words" and value is not None]
    return " ".join((first.kind, *more.get("words", ()), *said))


def _cut(event: Event) -> str:
    names = ("number", "agreed", "first_lost", "seen")
    cut = Cut(**{name: event.more[name] for name in names}, at_ms=0, version=0, by=())
    return f"{cut.text}; reported by {', '.join(event.more.get('reporters', [event.by]))}"


def _about_pools(kind: str, more: Mapping[str, Any]) -> str:
    if kind == "pool":
        return f"pool {more['pool']} was {'removed' if more['removed'] else 'set'}"
    if kind == "epoch":
        return f"epoch {more['number']}: fair shares of version {more['of_version']:,}"
    return "pool trees changed"


def _where(machines: Sequence[str], others: int = 0) -> str:
    """Return the names of machines, of many their number; `others`: further machines without a name."""
    distinct = list(dict.fromkeys(machines))
    return ", ".join(distinct) if len(distinct) + others <= 3 else units.count(len(distinct) + others, "machine")

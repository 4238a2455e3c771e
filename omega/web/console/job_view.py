"""What the page of a job shows: tasks on a timeline, its history, its facts. Pure functions of its documents."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from markupsafe import Markup

from omega.cellstate import ranges
from omega.cellstate.events import winner_of
from omega.queries import units
from omega.web.console.timelines import Mark, Scale, Span, timeline

Document = Mapping[str, Any]
ENDED = frozenset({"finished", "failed", "stopped", "abandoned"})
QUIET = frozenset({"finished", "left", "ended", "awaited", "met"})
"""Kinds of events that the history counts only."""
MOST_EARLIER = 200
"""Earlier attempts that are drawn."""
_ENDS = frozenset({"evicted", "lost", "failed", "retried", "stopped"})


class Attempt(NamedTuple):
    """A placement of tasks that ended, as the history of the job has it."""

    group: int
    tasks: str
    span: Span


def attempts(events: Sequence[Document], machines: Mapping[int, str]) -> list[Attempt]:
    """Return the placements of a history that ended other than by finishing, the newest `MOST_EARLIER`."""
    begun: dict[int, Document] = {}
    found = []
    for event in events:
        placement = event.get("placement")
        if placement is None:
            continue
        if event["kind"] == "place":
            begun[placement] = event
        elif event["kind"] in _ENDS and event.get("tasks"):
            start = begun.get(placement, event)["at_ms"]
            where = machines.get(event.get("machine", -1), "?")
            reason = f": {event['reason']}" if event.get("reason") else ""
            span = Span(event["kind"], start, event["at_ms"], f"{event['kind']} on {where}{reason}")
            found.append(Attempt(event.get("group", 0), event["tasks"], span))
    return found[-MOST_EARLIER:]


def task_rows(
    tasks: Sequence[Document], groups: Sequence[str], earlier: Sequence[Attempt], scale: Scale, submitted_ms: int
) -> list[dict[str, Any]]:
    """Return the rows of ``omega job tasks`` with a timeline each: waiting, earlier attempts, the present one."""
    numbers = {name: number for number, name in enumerate(groups)}
    return [_task_row(row, numbers.get(row["group"], 0), earlier, scale, submitted_ms) for row in tasks]


def _task_row(row: Document, group: int, earlier: Sequence[Attempt], scale: Scale, submitted_ms: int) -> dict[str, Any]:
    start, end = row["started_ms"], row["ended_ms"]
    of_group = [attempt for attempt in earlier if attempt.group == group and attempt.span.start_ms != start]
    spans = [attempt.span for attempt in of_group if _overlap(attempt.tasks, row["tasks"])]
    first = min([each.start_ms for each in spans] + ([start] if start else []), default=scale.end_ms)
    waited = Span("waiting", submitted_ms, first, f"waited {units.age((first - submitted_ms) / 1000)}")
    took = None
    if start is not None:
        took = ((end if end is not None else scale.end_ms) - start) / 1000
        where = f" on {row['machine']}" if row["machine"] else ""
        kind = row["reason"] if row["state"] == "pending" and row["reason"] in _ENDS else row["state"]
        spans.append(Span(kind, start, end, f"{kind}{where}, {units.seconds(took)}"))
        if row["state"] == "pending" and end is not None:
            spans.append(Span("waiting", end, None, "waits again"))
    label = "; ".join(span.text for span in (waited, *spans))
    return {
        **row,
        "name": row.get("task_name") or row["tasks"],
        "first": ranges.spans(row["tasks"])[0][0],
        "took": took,
        "drawing": timeline([waited, *spans], [], scale, label),
    }


def _overlap(one: str, other: str) -> bool:
    return any(
        first <= last_b and first_b <= last
        for first, last in ranges.spans(one)
        for first_b, last_b in ranges.spans(other)
    )


def scale_of(status: Document, tasks: Sequence[Document], now_ms: int) -> Scale:
    """Return the scale of a job: from its submission to now, or to its last end."""
    ends = [row["ended_ms"] for row in tasks if row["ended_ms"] is not None]
    last = max([*ends, *(event["at_ms"] for event in status["history"]["events"])], default=now_ms)
    begin = status["submitted_ms"]
    end = last if status["state"] in ENDED else max(now_ms, last)
    return Scale(begin, max(end, begin + 1))


def lane(events: Iterable[Document], scale: Scale) -> Markup:
    """Return the events of a job as marks on its scale."""
    shown = [event for event in events if event["kind"] not in QUIET and scale.begin_ms <= event["at_ms"]]
    marks = [Mark(each["kind"], each["at_ms"], f"{each['kind']}, version {each['version']}") for each in shown]
    kinds = Counter(mark.kind for mark in marks)
    label = ", ".join(units.count(number, f"{kind} event") for kind, number in kinds.items())
    return timeline([], marks, scale, label or "no events")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """The events of one version and kind of a job's history, and the earlier changes that its conflicts lost to."""

    version: int
    at_ms: int
    by: str
    kind: str
    tasks: int
    machines: Sequence[str]
    others: int
    detail: str
    rival: str = ""
    """The id of the job that evicted the tasks."""
    winners: Sequence[Document] = ()


def history_lines(events: Sequence[Document], machines: Mapping[int, str], most: int) -> list[HistoryLine]:
    """Return the last `most` lines of a history, the newest first."""
    shown = [event for event in events if event["kind"] not in QUIET]
    lines = [_line(list(same), machines) for _, same in groupby(shown, lambda event: (event["version"], event["kind"]))]
    return lines[-most:][::-1]


MOST_NAMED = 3


def _line(same: Sequence[Document], machines: Mapping[int, str]) -> HistoryLine:
    first = same[0]
    named = list(dict.fromkeys(machines.get(e["machine"], str(e["machine"])) for e in same if "machine" in e))
    more = sum(event.get("events", 0) for event in same)
    rival = winner_of(str(first.get("reason", "")))
    details = [str(first[name]) for name in ("verdict", "reason", "state", "how") if first.get(name)]
    details = [each.partition(":")[0] for each in details] if rival else details
    if "total" in first:
        details.append(f"to {units.count(first['total'], 'task')}")
    winners = {(won["by"], won["version"]): won for event in same if (won := event.get("winner"))}
    return HistoryLine(
        version=first["version"],
        at_ms=first["at_ms"],
        by=first["by"],
        kind=first["kind"],
        tasks=sum(event.get("count") or 0 for event in same),
        machines=named[:MOST_NAMED],
        others=more + max(0, len(named) - MOST_NAMED),
        detail=", ".join(details),
        rival=rival,
        winners=list(winners.values()),
    )

"""Documents of events as rows of a table: those of one version, kind and job together, with names to link to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.resources import format_amount

MOST_NAMED = 3
"""Machines of a row that are named."""
_SHOWN = frozenset({"version", "at_ms", "by", "kind", "job", "machine", "count", "since", "began_ms"})
_INTERNAL = frozenset({"placement", "tasks", "seen", "incarnation", "number", "copies", "asserted", "words", "events"})

_AMOUNTS = frozenset({"capacity", "resources"})
"""Fields with amounts of resources, in the units of the store."""


@dataclass(slots=True, kw_only=True)
class EventRow:
    """Events of one version and kind; `job` and `job_name` are empty and `machines` is where there is none."""

    version: int
    kind: str
    at_ms: int = 0
    by: str = ""
    job: str = ""
    job_name: str = ""
    tasks: int = 0
    machines: dict[int, str] = field(default_factory=dict)
    others: int = 0
    """Further machines, which are not named."""
    detail: str = ""
    missing: str = ""
    """``gap`` or ``lost`` for a row of versions without events, from `version` to `last`."""
    last: int = 0
    alike: int = 0
    """The number of rows before it of the same version, kind and job."""

    @property
    def key(self) -> str:
        """The key of the row within its table."""
        return f"{self.version}-{self.kind}-{self.job}{f'-{self.alike}' if self.alike else ''}"


def event_rows(mirror: Any, documents: Iterable[Mapping[str, Any]]) -> list[EventRow]:
    """Return the rows of events in their order; names come from the mirror, whose lock is held."""
    rows: list[EventRow] = []
    for event in documents:
        for why in ("gap", "lost"):
            if isinstance(span := event.get(why), Mapping):
                rows.append(EventRow(version=span["from"], kind=why, missing=why, last=span["to"]))
                break
        else:
            _add(mirror, rows, event)
    return rows


def _add(mirror: Any, rows: list[EventRow], event: Mapping[str, Any]) -> None:
    job, machine, detail = event.get("job") or "", event.get("machine"), _detail(event)
    last = rows[-1] if rows else None
    same = last is not None and (last.version, last.kind, last.job) == (event["version"], event["kind"], job)
    if last is None or not same or (job == "" and machine is None):
        name = event["name"] if job and event["kind"] == "submit" else _job_name(mirror, job)
        alike = last.alike + 1 if last is not None and same else 0
        own = {field: event[field] for field in ("version", "kind", "at_ms", "by")}
        last = EventRow(**own, job=job, job_name=name, detail=detail, alike=alike)
        rows.append(last)
    last.tasks += event.get("count") or 0
    if machine is not None and machine not in last.machines:
        if len(last.machines) < MOST_NAMED:
            last.machines[machine] = _machine_name(mirror, machine)
        else:
            last.others += 1


def _detail(event: Mapping[str, Any]) -> str:
    """Return the facts of an event that have no column: ``verdict moved``."""
    pairs = ((name, value) for name, value in event.items() if name not in _SHOWN and name not in _INTERNAL)
    texts = (_fact(name, value) for name, value in pairs)
    return ", ".join(filter(None, texts))


def _fact(name: str, value: object) -> str:
    if value is None or value is False or value == "" or name == "name":
        return ""
    if isinstance(value, Mapping):
        as_text = format_amount if name in _AMOUNTS else lambda _, number: number
        return " ".join(f"{key} {as_text(key, amount)}" for key, amount in value.items() if amount is not None)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{name} {' '.join(map(str, value))}"
    return str(value) if name in ("reason", "verdict", "state", "member") else f"{name.replace('_', ' ')} {value}"


def _job_name(mirror: Any, job: str) -> str:
    row = mirror.job_row(job) if job else None
    return str(row["name"]) if row else job


def _machine_name(mirror: Any, index: int) -> str:
    return str(mirror.held.machines.described([index])[0][0]) or f"machine {index}"

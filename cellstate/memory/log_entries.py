"""Facts and messages of the twin as text, and the records that a fact names."""

from collections.abc import Iterable, Sequence
from typing import Any

from omega.cellstate.events import LogEntry
from omega.cellstate.memory.ledger import LogLine
from omega.cellstate.memory.ranges import spell
from omega.cellstate.memory.records import allocated
from omega.cellstate.transaction import Basis

OF_TASKS = frozenset({"place", "finished", "failed", "retried", "lost", "evicted", "stopped", "left", "promote"})
OF_SPANS = frozenset({"fail", "late", "requeue", "speculate", "unneeded"})
OF_JOBS = frozenset(
    {"submit", "stop", "abandon", "done", "hold", "gate", "pass", "release", "resize", "drop", "awaited", "met",
     "update", "updated", "stalled", "fail", "requeue", "attempt", "again", "speculate", "unneeded"}
)  # fmt: skip


def write(lines: Iterable[LogLine]) -> str:
    """Convert facts or messages to text as the scripts write it."""
    return "\n".join(map(_write, lines))


def stored(entry: tuple[int, int, str, Sequence[LogLine], Basis | None, str]) -> LogEntry:
    """Return an entry as a store has it."""
    version, at_ms, by, lines, basis, settings = entry
    return LogEntry(
        version=version, at_ms=at_ms, by=by, facts=write(lines), basis=basis.text if basis else "", settings=settings
    )


def _write(line: LogLine) -> str:
    word = line[0]
    if word in OF_TASKS or word == "+":
        _, placement, index, g, tasks, *rest = line
        words = (",".join(map(str, g.amounts)),) if word == "place" else _values(rest)
        line = word, placement, index, g.job.id, g.number, spell(tasks), *words
    elif word == "-":
        line = (*line[:-1], spell(line[-1]))
    elif word == "machine":
        line = (*line[:4], *_values(line[4:]))
    elif word in OF_SPANS:
        line = tuple(spell(part) if isinstance(part, tuple) else part for part in line)
    return " ".join(map(str, line))


def _values(words: Sequence[Any]) -> Iterable[Any]:
    """Return number and "amount,…" of a machine after a change, kept as (number, capacity, free), as words."""
    if len(words) < 3:
        return words
    number, capacity, free, *rest = words
    return number, ",".join(map(str, allocated(capacity, free))), *rest


def note(line: LogLine, indices: dict[int, None], ids: dict[str, None]) -> None:
    """Add the machines and jobs that a fact names."""
    if line[0] in OF_TASKS:
        indices[line[2]] = None
        ids[line[3].job.id] = None
    elif line[0] in ("join", "machine"):
        indices[line[1]] = None
    elif line[0] == "late":
        ids[line[3]] = None
    elif line[0] in OF_JOBS:
        ids[line[1]] = None

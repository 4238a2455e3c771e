"""The history of a job as lines of text."""

from collections.abc import Iterable
from itertools import groupby

from omega.cli import units
from omega.cli.event_text import sentences
from omega.queries.events import Event
from omega.queries.job_history import Past
from omega.queries.names import Names

QUIET = frozenset({"finished", "left", "ended", "awaited", "met"})
"""Kinds of event that are printed as a number only."""


def lines(past: Past, names: Names, most: int) -> list[tuple[str, str, str, str]]:
    """Return (time since submission, version, author, text) of the last `most` versions that are worth a line."""
    told = [event for event in past.events if event.kind not in QUIET]
    found = []
    for version, together in groupby(told, lambda event: event.version):
        same = list(together)
        conflicts = [event for event in same if event.kind == "conflict"]
        others = [event for event in same if event.kind != "conflict"]
        said = [text + _won(past, conflicts, names) for _, text in sentences(conflicts, names)]
        said += [text for _, text in sentences(others, names)]
        after = units.seconds(max(0, same[0].at_ms - past.job.submitted_ms) / 1000)
        found.append((after, str(version), same[0].by, " · ".join(said)))
    return found[-most:]


def _won(past: Past, conflicts: Iterable[Event], names: Names) -> str:
    """Return which transactions won the conflicts."""
    said: dict[str, None] = {}
    for event in conflicts:
        won = past.winners.get((event.version, event.machine))
        if won is not None:
            what = f"placed {names.job(won.job)}" if won.kind == "place" else "changed the machine"
            said[f"{won.by} {what} there before, version {won.version}"] = None
    return f" ({', '.join(said)})" if said else ""

"""The facts in the lines of an entry of the log."""

from omega.cellstate.replies import Fact, LogEntry
from omega.cellstate.transaction import Basis


def facts_in(entry: LogEntry) -> list[Fact]:
    """Return the facts of an entry. Raises ValueError or IndexError for an entry that cannot be read."""
    basis = Basis.read(entry.basis) if entry.basis else None
    lines = entry.facts.split("\n") if entry.facts else []
    return [
        Fact(entry.version, entry.at_ms, entry.by, words, basis, entry.settings)
        for line in lines
        for words in fact_words(line)
    ]


def fact_words(line: str) -> list[tuple[str, ...]]:
    """Return the facts in a line of the log: one, or one for each placement of a line ``places``.

    The placements of a line have the ids after that of the first, and the same need of a task, in the end of each fact;
    one without tasks has the task after the last one. ``submits`` is of a job whose name is its id.
    """
    word, *words = line.split(" ")
    if word == "submits":
        return [("submit", words[0], *words)]
    if word != "places":
        return [(word, *words)]
    job, group, amounts, first, index, tasks, *others = words
    need, placement = amounts.split(","), int(first)
    facts = [("place", first, index, job, group, tasks, *need)]
    for other in others:
        index, _, listed = other.partition(":")
        tasks = listed or str(int(tasks.replace(",", "-").rpartition("-")[2]) + 1)
        placement += 1
        facts.append(("place", str(placement), index, job, group, tasks, *need))
    return facts

"""The log read by task: how often each one was placed, ended and put back."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.events import Fact

Task = tuple[str, str, int]


@dataclass(slots=True)
class Ledger:
    """Every task as the log tells it: how often it was placed, ended and put back."""

    placed: "Counter[Task]" = field(default_factory=Counter)
    finished: "Counter[Task]" = field(default_factory=Counter)
    returned: "Counter[Task]" = field(default_factory=Counter)
    by: "Counter[str]" = field(default_factory=Counter)
    """Tasks placed by each scheduler."""

    @classmethod
    def of(cls, facts: Sequence[Fact]) -> "Ledger":
        """Read it from the log alone. An end that is reported late takes back the loss of its task (semantics 27)."""
        ledger = cls()
        books = {"place": ledger.placed, "finished": ledger.finished}
        books |= {"evicted": ledger.returned, "lost": ledger.returned}
        for fact in facts:
            word, tasks = fact.event[0], tasks_of(fact)
            if word in books:
                books[word].update(tasks)
            if word == "late":
                ledger.returned.subtract(tasks)
                ledger.finished.update(tasks if fact.event[6] == "finished" else ())
            if word == "place":
                ledger.by[fact.by] += len(tasks)
        return ledger


OF_TASKS = dict.fromkeys(("place", "finished", "failed", "lost", "evicted", "stopped", "late"), 3) | {
    "requeue": 1,
    "fail": 1,
}
"""Facts about tasks: where the words job, group and tasks begin."""


def tasks_of(fact: Fact) -> list[Task]:
    """The tasks that a fact is about; none for facts of other things."""
    if fact.event[0] not in OF_TASKS:
        return []
    at = OF_TASKS[fact.event[0]]
    job, group, tasks = fact.event[at : at + 3]
    return [(job, group, task) for task in ranges.indices(tasks)]


def lives_of(facts: Sequence[Fact], tasks: Collection[Task], most: int = 5) -> str:
    """What the log has of some tasks, for the message of a failed test."""
    lines = []
    for task in sorted(tasks)[:most]:
        lines.append(f"{task}:")
        lines += [
            f"  {each.version} {each.at_ms} {each.by}: {' '.join(each.event)}"
            for each in facts
            if task in tasks_of(each)
        ]
    return "\n".join([f"{len(tasks)} tasks", *lines])

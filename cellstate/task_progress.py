"""How far running tasks have come, as they report it: a record of a job and a machine (docs/speculation.md)."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_FORM = re.compile(r"(\d+:\d+:(\d|[1-9]\d|100)( |$))+(?<! )", re.ASCII)


class TaskProgress(NamedTuple):
    """The part of a task that is done, in percent."""

    group: int
    task: int
    percent: int


def pack_progress(tasks: Iterable[TaskProgress]) -> str:
    """Return the record of some tasks; empty for none."""
    return " ".join(f"{group}:{task}:{percent}" for group, task, percent in sorted(tasks))


def unpack_progress(record: bytes) -> list[TaskProgress]:
    """Read a record. Raises ValueError."""
    text = record.decode()
    if not _FORM.fullmatch(text):
        raise ValueError(f"{text!r} is no record of the progress of tasks")
    return [TaskProgress(*map(int, each.split(":"))) for each in text.split(" ")]

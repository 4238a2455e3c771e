"""Arrays: groups of tasks with an index per task.

A group is an array if its spec has ``array``: ``{first, step}``, or ``{spans}`` with a list of first, last and step; an
executor calls `array_index` and gives the task its index as OMEGA_ARRAY_INDEX. Tasks that are added later go on
counting.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput

MOST_INDEX = 10**9
MOST_SPANS = 5_000
"""Pieces of an array: their list is part of the job's specification."""
_PIECE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?(?::(\d{1,10}))?", re.ASCII)
_WANTED = "write 0-99, 1-9:2 or 3,20,37, ascending"


class Span(NamedTuple):
    """The indices first, first + step, … up to `last`."""

    first: int
    last: int
    step: int = 1

    @property
    def size(self) -> int:
        """How many there are."""
        return (self.last - self.first) // self.step + 1

    def __str__(self) -> str:
        """Return the span as people write it."""
        if self.size == 1:
            return str(self.first)
        return f"{self.first}-{self.last}{f':{self.step}' if self.step != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Array:
    """The indices of the spans, in order of the tasks."""

    spans: tuple[Span, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(span.size for span in self.spans)

    def spec(self) -> dict[str, Any]:
        """Return the array fields of a group's spec."""
        if len(self.spans) > 1:
            return {"spans": [list(span) for span in self.spans]}
        return {"first": self.spans[0].first, "step": self.spans[0].step}


def parse_array(text: str, step: int | None = None) -> Array:
    """Read ``0-99``, ``1-9:2``, ``3,20,37`` or ``1-10:2,15``; `step` is that of a single range. Raises BadInput."""
    pieces = text.strip().split(",")
    if len(pieces) > MOST_SPANS:
        raise BadInput(f"an array of {len(pieces):,} pieces; the most is {MOST_SPANS:,}, write ranges with a step")
    if step is not None and (len(pieces) > 1 or ":" in text):
        raise BadInput(f"{text!r} with step {step} is not an array; write a step with each range: 1-10:2,15")
    spans = tuple(_span(text, piece.strip(), step) for piece in pieces)
    for before, span in pairwise(spans):
        if span.first <= before.last:
            raise BadInput(f"{text!r} is not an array; {_WANTED}, not {before} before {span}")
    return Array(spans)


def _span(text: str, piece: str, step: int | None) -> Span:
    found = _PIECE.fullmatch(piece)
    if not found or (step is not None and not found[2]):
        raise BadInput(f"{text!r} is not an array; {_WANTED}")
    first, last = int(found[1]), int(found[2] or found[1])
    every = step if step is not None else int(found[3] or 1)
    if last < first or every < 1 or last > MOST_INDEX:
        raise BadInput(
            f"{text!r} with step {every} is not an array; want first to last up to {MOST_INDEX}, a step from 1"
        )
    return Span(first, first + (last - first) // every * every, every)


def _spans(array: Mapping[str, Any]) -> list[Span]:
    """Return the spans of a spec's array; the last one goes on."""
    spans = [Span(*map(int, each)) for each in array.get("spans", ())]
    return spans or [Span(int(array["first"]), int(array["first"]), int(array["step"]))]


def array_index(spec: Mapping[str, Any], task: int) -> int | None:
    """Return the array index of a group's task, by the group's spec and the task's number; None when it is no array."""
    array = spec.get("array")
    if array is None:
        return None
    *before, last = _spans(array)
    for span in before:
        if task < span.size:
            return span.first + span.step * task
        task -= span.size
    return last.first + last.step * task


def task_of(spec: Mapping[str, Any], index: int) -> int | None:
    """Return the number of the task with an array index, of a group without array the index itself; None for none."""
    array = spec.get("array")
    if array is None:
        return index
    before, spans = 0, _spans(array)
    for i, span in enumerate(spans):
        at, rest = divmod(index - span.first, span.step)
        if at >= 0 and not rest and (at < span.size or i == len(spans) - 1):
            return before + at
        before += span.size
    return None


def shown(spec: Mapping[str, Any], indices: int) -> str:
    """``[0-99]``, ``[1-9:2]``, ``[3,20,37]``: the array of a group that has given out so many indices; else empty."""
    return "" if spec.get("array") is None else f"[{index_text(spec, f'0-{max(0, indices - 1)}')}]"


def index_text(spec: Mapping[str, Any], tasks: str) -> str:
    """Return the array indices of tasks, given as ranges, as text; of a group without array the tasks themselves."""
    array = spec.get("array")
    if array is None:
        return tasks
    said = [piece for first, last in ranges.spans(tasks) for piece in _pieces(_spans(array), first, last)]
    return ",".join(map(str, said))


def _pieces(spans: list[Span], first: int, last: int) -> list[Span]:
    """Return the indices of the tasks from `first` to `last`."""
    pieces, before = [], 0
    for i, span in enumerate(spans):
        end = last if i == len(spans) - 1 else min(last, before + span.size - 1)
        start = max(first, before)
        if start <= end:
            at = span.first + span.step * (start - before)
            pieces.append(Span(at, at + span.step * (end - start), span.step))
        before += span.size
    return pieces

"""Arrays: groups of tasks with an index per task.

A group is an array if its spec has ``array: {first, step}``; an executor calls `array_index` and
gives the task its index as OMEGA_ARRAY_INDEX. Tasks that are added later go on counting.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omega.cellstate.errors import BadInput

MOST_INDEX = 10**9
_RANGE = re.compile(r"(\d{1,10})-(\d{1,10})", re.ASCII)
_WANTED = "write 0-99, or range: 1-10 with step: 2"


@dataclass(frozen=True, slots=True)
class Array:
    """The indices first, first + step, … up to `last`, in order of the tasks."""

    first: int
    last: int
    step: int = 1

    @property
    def count(self) -> int:
        """How many there are."""
        return (self.last - self.first) // self.step + 1

    def spec(self) -> dict[str, int]:
        """Return the array fields of a group's spec."""
        return {"first": self.first, "step": self.step}


def parse_array(text: str, step: int = 1) -> Array:
    """Read ``0-99`` with a step. Raises BadInput."""
    found = _RANGE.fullmatch(text.strip())
    if not found:
        raise BadInput(f"{text!r} is not an array; {_WANTED}")
    array = Array(int(found[1]), int(found[2]), step)
    if array.last < array.first or step < 1 or array.last > MOST_INDEX:
        raise BadInput(
            f"{text!r} with step {step} is not an array; want first to last up to {MOST_INDEX}, a step from 1"
        )
    return array


def array_index(spec: Mapping[str, Any], task: int) -> int | None:
    """Return the array index of a group's task, by the group's spec and the task's index; None when it is no array."""
    array = spec.get("array")
    return None if array is None else int(array["first"]) + int(array["step"]) * task


def shown(spec: Mapping[str, Any], indices: int) -> str:
    """``[0-99]`` or ``[1-9:2]``: the array of a group that has given out so many indices; empty for others."""
    last = array_index(spec, max(0, indices - 1))
    if last is None:
        return ""
    step = spec["array"]["step"]
    return f"[{spec['array']['first']}-{last}{f':{step}' if step != 1 else ''}]"

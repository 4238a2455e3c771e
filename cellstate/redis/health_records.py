"""Records of the health of tasks: what `lua/health.lua` writes."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omega.cellstate.inspection import Inspection

_FORM = re.compile(rb"( \d+:\d+:\d+:\d+)+")


def read_health(text: bytes) -> tuple[tuple[int, ...], ...]:
    """Read the record of a job: machine, placement, task, expiry of a grant (0: ready, 1: down) of each task."""
    return tuple(tuple(map(int, each.split(b":"))) for each in text.split())


def read_health_field(inspection: "Inspection", field: str, value: bytes) -> None:
    """Note the record of a job for the audit. Raises ValueError."""
    if not _FORM.fullmatch(value):
        raise ValueError(f"{value!r} is no record of the health of tasks")
    inspection.health[field] = read_health(value)

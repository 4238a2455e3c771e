"""What agents report of the health of tasks, and the grants for the end of unhealthy ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class HealthState(StrEnum):
    """State of a task that an agent reports; tasks that are neither are not reported."""

    READY = "ready"
    """Its readiness command passed."""
    ENDING = "ending"
    """Its end was granted, and it has not been healthy since."""
    ASKS = "asks"
    """Its liveness command failed; the agent asks for a grant of its end."""
    DOWN = "down"
    """Its attempt failed, and the next one has not started: it does not count in an update."""


DOWN_DUE = 1
"""What stands for the expiry of a grant in the record of a task that is down; 0 of one that is ready."""


class HealthOf(NamedTuple):
    """The state of a task by the id of its placement and its index."""

    placement: int
    task: int
    state: HealthState


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The states of all tasks of a job on a machine; it replaces the report before.

    At most `max_down` tasks of the job are ending, or delayed after their end, at once. A grant expires after
    `span_ms`.
    """

    job: str
    machine: int
    tasks: Sequence[HealthOf]
    max_down: int = 1
    span_ms: int = 0


class HealthAnswer(NamedTuple):
    """The tasks, (placement, index), whose end is granted, and where the next call's search for old records begins."""

    granted: frozenset[tuple[int, int]]
    cursor: int = 0

"""Small cells and jobs for tests of policies."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, settings

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import Gang, GroupStatus, Job, MachineState
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Position
from omega.schedulers.work import Work

Need = tuple[int, ...]
Copy = TypeVar("Copy", bound=Snapshot)
for_all = settings(deadline=None, suppress_health_check=[HealthCheck.differing_executors])
"""No deadlines: nothing here reads the clock. Many classes inherit one test, as intended for a contract."""
FIRST_NUMBER = 10
"""The sequence number of the first machine; each further one has the next."""


def work(  # noqa: PLR0913 - one per property of a job
    *groups: tuple[Need, int],
    gang: bool = False,
    name: str = "a",
    kind: str = "batch",
    order: int = 0,
    precedence: int = 0,
    submitted: float = 0.0,
    not_before: float = 0.0,
    user: str = "",
    pool: str = "",
    expected: float | None = None,
    duration: float = 0.0,
    spec: Mapping[str, Any] | None = None,
) -> Work:
    """Return a job as its scheduler holds it: for each group the resources of a task and the number of tasks.

    `order` counts submissions; `submitted`, `not_before` when it backs off, `expected` (the field
    ``expected_duration``) and the `duration` of a task are seconds. `spec` has further fields of the job file.
    """
    statuses = [
        GroupStatus(
            need=need, duration_ms=round(duration * 1000), total=n, unplaced=n, waiting=f"0-{n - 1}" if n else "-"
        )
        for need, n in groups
    ]
    fields = {"user": user, "pool": pool, "expected_duration": expected}
    whole = {**{name: value for name, value in fields.items() if value not in ("", None)}, **(spec or {})}
    job = Job(
        id=name, name=name, kind=kind, precedence=precedence, order=order, gang=Gang(gang),
        submitted_ms=round(submitted * 1000), groups=statuses, spec=whole,
    )  # fmt: skip
    made = Work.of(job)
    made.not_before = not_before
    return made


def snapshot(first: Need, *others: Need, used: int = 0, state: int = MachineState.UP) -> ArraySnapshot:
    """Return a working copy of one or more machines with these free and used resources; a free -1 takes no tasks.

    The machines tell the number of resources; for a cell that may have none, `filled` takes a copy that knows it.
    """
    return filled(ArraySnapshot(len(first)), (first, *others), used, state)


def filled(copy: Copy, free: Sequence[Need], used: int = 0, state: int = MachineState.UP) -> Copy:
    """Fill an empty copy of any class with such machines."""
    size = copy.dimensions
    records = [
        (i, FIRST_NUMBER + i, state, 0, *(amount + used for amount in amounts), *[used] * size)
        for i, amounts in enumerate(free)
    ]
    rows = np.array(records, dtype=np.int64).reshape(-1, 4 + 2 * size)
    copy.apply(Reply(Position(1, "t"), full=True, rows=rows))
    return copy


def room(copy: Snapshot) -> list[list[int]]:
    """Return free resources by dimension; -1 for machines that take no tasks."""
    return [[int(amount) for amount in amounts] for amounts in copy.room] or [[] for _ in range(copy.dimensions)]


def uses(claims: Sequence[Claim], asked: Work, copy: Snapshot) -> list[list[int]]:
    """Return the resources that claims take of each machine, by dimension."""
    taken = [[0] * copy.size for _ in range(copy.dimensions)]
    for claim in claims:
        for amounts, amount in zip(taken, asked.need(claim.group), strict=True):
            amounts[claim.machine] += amount * claim.count
    return taken


def less(before: Sequence[Sequence[int]], taken: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the remaining resources."""
    return [[has - takes for has, takes in zip(*each, strict=True)] for each in zip(before, taken, strict=True)]

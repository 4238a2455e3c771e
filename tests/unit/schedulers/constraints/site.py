"""Machines with attributes, and jobs that demand things of them, in a line each."""

from collections.abc import Mapping
from typing import Any

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import Gang, GroupStatus, Job, JobState, MachineState
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Position
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import group, rows

Attributes = Mapping[str, str]
ROOM = (100, 100)


def site(*machines: Attributes, free: tuple[int, ...] = ROOM, state: int = MachineState.UP) -> ArraySnapshot:
    """A working copy of machines m0, m1, … with these attributes, all with so much free."""
    snapshot = ArraySnapshot(len(free))
    snapshot.apply(Reply(Position(1, "t"), full=True, rows=rows([free] * len(machines), state=state)))
    describe(snapshot, *machines)
    snapshot.freed()
    return snapshot


def describe(snapshot: Snapshot, *machines: Attributes, start: int = 0) -> None:
    """Set the attributes of machines, as a fetch does."""
    described = [(f"m{start + i}", tuple(sorted(has.items()))) for i, has in enumerate(machines)]
    snapshot.describe(range(start, start + len(machines)), described)


def racks(number: int, machines: int, **more: str) -> list[dict[str, str]]:
    """Racks r0, r1, … with so many machines each."""
    return [{"rack": f"r{rack}", **more} for rack in range(number) for _ in range(machines)]


def asking(
    extra: Mapping[str, Any], tasks: int = 1, *, need: tuple[int, ...] = (1, 1), gang: Gang = Gang.NO, name: str = "j",
    state: JobState = JobState.ACTIVE, precedence: int = 0,
) -> Work:  # fmt: skip
    """A job of one group with the demands in `extra`."""
    return demanding((group(need, tasks), extra), gang=gang, name=name, state=state, precedence=precedence)


def demanding(
    *groups: tuple[GroupStatus, Mapping[str, Any]], gang: Gang = Gang.NO, name: str = "j",
    state: JobState = JobState.ACTIVE, precedence: int = 0,
) -> Work:  # fmt: skip
    """A job with the given demands for each group."""
    spec = {"groups": [dict(extra) for _, extra in groups]}
    statuses = [status for status, _ in groups]
    return Work.of(
        Job(
            id=name,
            name=name,
            kind="service",
            precedence=precedence,
            order=1,
            state=state,
            gang=gang,
            groups=statuses,
            spec=spec,
        )
    )


def tasks_by(snapshot: Snapshot, claims: list[Claim], attribute: str) -> dict[str | None, int]:
    """How many tasks each value of an attribute gets."""
    found: dict[str | None, int] = {}
    for claim in claims:
        value = snapshot.attributes.get(claim.machine, attribute)
        found[value] = found.get(value, 0) + claim.count
    return found

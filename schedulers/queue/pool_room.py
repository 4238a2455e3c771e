"""What the limits of pools still admit, by what their jobs hold and what was requeued (docs/pools.md, Limits)."""

from collections.abc import Mapping, Sequence

from omega.cellstate.pools import Pools
from omega.cellstate.pools.records import PoolUse
from omega.schedulers.work import Work

Room = list[int | None]
"""What limits leave: jobs with running tasks, running tasks, amounts by resource; None without a limit."""


class PoolRoom:
    """The room below the limits of pools."""

    def __init__(self, pools: Pools, use: Mapping[str, PoolUse]) -> None:
        """Begin with the stored use of the pools that carry limits."""
        self._pools = pools
        self._left = {
            name: room_below(each.limits, (each.jobs, each.tasks, *each.amounts)) for name, each in use.items()
        }
        self.state = pools.version, tuple(sorted((name, tuple(left)) for name, left in self._left.items()))
        """Equal when nothing changed."""

    def of(self, work: Work) -> list[Room]:
        """Return the room of a job's pool and of each pool above it that carries limits."""
        leaf = self._pools.pool_of(work.pool, work.user)
        return [self._left[pool.name] for pool in self._pools.chain(leaf) if pool.name in self._left]


def room_below(limits: Sequence[int | None], use: Sequence[int]) -> Room:
    """Return what limits leave of some use."""
    return [None if limit is None else limit - held for limit, held in zip(limits, use, strict=True)]


def admitted(rooms: Sequence[Room], work: Work, tasks: Sequence[int], *, fresh: bool) -> list[int]:
    """Return how many of the tasks of each group all of the rooms admit; `fresh`: the job has no running task."""
    rooms, admits = [list(room) for room in rooms], list(tasks)
    if fresh and any(room[0] is not None and room[0] <= 0 for room in rooms):
        return [0] * len(tasks)
    for group in range(len(tasks)):
        unit = (1, *work.need(group))
        for room in rooms:
            fits = [left // amount for left, amount in zip(room[1:], unit, strict=True) if left is not None and amount]
            admits[group] = max(0, min([admits[group], *fits]))
        for room in rooms:
            _deduct(room, unit, admits[group])
    return admits


def occupy(rooms: Sequence[Room], work: Work, tasks: Sequence[int], *, fresh: bool) -> None:
    """Deduct tasks that are requeued."""
    for room in rooms:
        if fresh and room[0] is not None:
            room[0] -= 1
        for group, count in enumerate(tasks):
            _deduct(room, (1, *work.need(group)), count)


def _deduct(room: Room, unit: tuple[int, ...], count: int) -> None:
    room[1:] = [left if left is None else left - amount * count for left, amount in zip(room[1:], unit, strict=True)]

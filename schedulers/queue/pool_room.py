"""What the limits of pools still admit, by what their jobs hold and what was requeued (docs/pools.md, Limits)."""

from collections.abc import Mapping

from omega.cellstate.pools import Pools
from omega.cellstate.pools.records import PoolUse
from omega.schedulers.work import Work


class PoolRoom:
    """The room below the limits of pools: jobs with running tasks, running tasks, amounts; None without a limit."""

    def __init__(self, pools: Pools, use: Mapping[str, PoolUse]) -> None:
        """Begin with the stored use of the pools that carry limits."""
        self._pools = pools
        self._left = {
            name: [
                None if limit is None else limit - held
                for limit, held in zip(each.limits, (each.jobs, each.tasks, *each.amounts), strict=True)
            ]
            for name, each in use.items()
        }
        self.state = pools.version, tuple(sorted((name, tuple(left)) for name, left in self._left.items()))
        """Equal when nothing changed."""

    def _chain(self, work: Work) -> list[list[int | None]]:
        leaf = self._pools.pool_of(work.pool, work.user)
        return [self._left[pool.name] for pool in self._pools.chain(leaf) if pool.name in self._left]

    def admits(self, work: Work, tasks: list[int], *, fresh: bool) -> list[int]:
        """Return how many of the tasks of each group the limits admit; deducts nothing."""
        chain = [list(left) for left in self._chain(work)]
        if fresh and any(left[0] is not None and left[0] <= 0 for left in chain):
            return [0] * len(tasks)
        admitted = list(tasks)
        for group, wanted in enumerate(tasks):
            count = wanted
            for left in chain:
                count = max(0, min([count, *_fits(left, work.need(group))]))
            admitted[group] = count
            for left in chain:
                _deduct(left, work.need(group), count)
        return admitted

    def take(self, work: Work, tasks: list[int], *, fresh: bool) -> None:
        """Deduct tasks that are requeued."""
        for left in self._chain(work):
            if fresh and left[0] is not None:
                left[0] -= 1
            for group, count in enumerate(tasks):
                _deduct(left, work.need(group), count)


def _fits(left: list[int | None], need: tuple[int, ...]) -> list[int]:
    """How many tasks fit by each limit."""
    amounts = zip(left[2:], need, strict=True)
    fits = [most // amount for most, amount in amounts if most is not None and amount]
    return fits if left[1] is None else [*fits, left[1]]


def _deduct(left: list[int | None], need: tuple[int, ...], count: int) -> None:
    for at, amount in enumerate((1, *need), 1):
        most = left[at]
        if most is not None:
            left[at] = most - amount * count

"""Jobs that fit nowhere sleep, grouped by what they wait for; freed room wakes as many as may fit.

Each group is tested once against the changed machines, however many jobs are in it (semantics 19), and all groups
share the room of these machines in order of submission: what one job may take wakes no other. Once all that were
woken for some machines have been tried, the room that is left there is offered to those who were not.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from cellstate.resources import Resources
from cellstate.view import View
from schedulers.constraints.demands import demands
from schedulers.constraints.evaluation import permitted
from schedulers.fitting import Amounts, fitting
from schedulers.groups import Groups
from schedulers.limited import Limited
from schedulers.work import Shape, Work

Machines = NDArray[np.int64]
Mask = NDArray[np.bool_]
NOBODY = np.iinfo(np.int64).max


class Round:
    """Machines, and how many of the jobs that were woken for them have not been tried yet."""

    def __init__(self, machines: Machines) -> None:
        """Nobody was woken for them yet."""
        self.machines, self.untried = machines, 0


class Lines:
    """A line for each group: the least that its tasks need, who is first. So all groups are sifted at once.

    A group is `vain` when a job of it was woken and found the room of no use to it; it waits for other machines.
    """

    def __init__(self) -> None:
        """No line is in use."""
        self.of: dict[Shape, int] = {}
        self.shapes: list[Shape] = []
        self.least: NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)
        self.order: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.vain: Mask = np.empty(0, dtype=np.bool_)
        self._free: list[int] = []

    def put(self, shape: Shape, work: Work) -> int:
        """The line of a group whose first job this is."""
        line = self.of.get(shape)
        if line is None:
            needs = [work.need(group) for group, left in enumerate(work.left) if left]
            if not self._free:
                self._grow(len(needs[0]))
            line = self.of[shape] = self._free.pop()
            self.shapes[line], self.vain[line] = shape, False
            self.least[line] = np.min(needs, axis=0)
        self.order[line] = work.job.order
        return line

    def drop(self, shape: Shape) -> None:
        """A group is empty."""
        line = self.of.pop(shape)
        self.shapes[line], self.order[line], self.least[line] = (), NOBODY, NOBODY
        self._free.append(line)

    def _grow(self, dimensions: int) -> None:
        known = len(self.shapes)
        more = max(8, known)
        self.least = np.concatenate(
            [self.least.reshape(known, dimensions), np.full((more, dimensions), NOBODY, dtype=np.int64)]
        )
        self.order = np.concatenate([self.order, np.full(more, NOBODY, dtype=np.int64)])
        self.vain = np.concatenate([self.vain, np.zeros(more, dtype=np.bool_)])
        self.shapes += [()] * more
        self._free += range(known + more - 1, known - 1, -1)


class Sleepers(Groups):
    """Sleeping jobs by shape, each shape in order of submission."""

    def __init__(self) -> None:
        """Nobody sleeps."""
        super().__init__()
        self._lines = Lines()
        self._again: list[Machines] = []
        self._others: dict[Shape, frozenset[str]] = {}

    def add(self, work: Work) -> Shape:
        """Put a job to sleep."""
        shape = super().add(work)
        line = self._lines.put(shape, self.first(shape))
        if work.woken is not None:
            self._lines.vain[line] = True
            self.tried(work)
        wants = [demands(work.job, group) for group, left in enumerate(work.left) if left]
        others = frozenset(relation.job for each in wants for relation in (*each.near, *each.apart))
        if others:
            self._others[shape] = others
        return shape

    def tried(self, work: Work) -> None:
        """A job that was woken has been tried: it is placed, or sleeps again, or is somebody else's."""
        woken, work.woken = work.woken, None
        if isinstance(woken, Round):
            woken.untried -= 1
            if not woken.untried:
                self._again.append(woken.machines)
        elif isinstance(woken, Limited):
            woken.look_again()

    def discard(self, job_id: str) -> Work | None:
        """Take a job out; None when it does not sleep here."""
        shape = self._shapes.get(job_id)
        work = super().discard(job_id)
        if shape is not None:
            if shape in self.by_shape:
                self._lines.put(shape, self.first(shape))
            else:
                self._lines.drop(shape)
                self._others.pop(shape, None)
        return work

    def clear(self) -> list[Work]:
        """Take out every job."""
        self._lines, self._again, self._others = Lines(), [], {}
        return super().clear()

    def others(self) -> set[str]:
        """The names of the jobs that it matters to somebody here where they run."""
        return set().union(*self._others.values())

    @property
    def left_over(self) -> bool:
        """Whether all that were woken for some machines have been tried, and what is left there was not offered yet."""
        return bool(self._again)

    # Waking

    def wake(self, view: View) -> list[Work]:
        """Take out the jobs that room freed since the last call may hold; no herd behind the first ones."""
        fresh, again = view.freed(), self._again
        self._again = []
        if not self.by_shape or not (len(fresh) or again):
            return []
        lines = self._lines
        if len(fresh) and lines.vain.any():
            lines.vain &= ~(lines.least <= view.amounts(fresh).max(axis=1)).all(axis=1)
        return self._share_out(view, np.unique(np.concatenate([fresh, *again])), ~lines.vain)

    def wake_near(self, view: View, names: Collection[str]) -> list[Work]:
        """Take out the jobs that may fit now that other jobs, which it matters to them where they run, have moved."""
        concerned = np.zeros(len(self._lines.order), dtype=np.bool_)
        for shape, others in self._others.items():
            concerned[self._lines.of[shape]] = not others.isdisjoint(names)
        machines = np.flatnonzero(view.up)
        if not (concerned.any() and len(machines)):
            return []
        self._lines.vain[concerned] = False
        return self._share_out(view, machines, concerned)

    def _share_out(self, view: View, machines: Machines, waiting: Mask) -> list[Work]:
        """Wake, in order of submission, those of the groups `waiting` whom the room of some machines may hold."""
        lines, room, round_ = self._lines, view.amounts(machines), Round(machines)
        woken: list[Work] = []
        while True:
            waiting = waiting & (lines.least <= room.max(axis=1)).all(axis=1)
            candidates = np.flatnonzero(waiting)
            if not len(candidates):
                return woken
            line = int(candidates[lines.order[candidates].argmin()])
            # Other groups come in when it is their turn; of this one as many as are before them.
            rival = int(lines.order[candidates[candidates != line]].min(initial=NOBODY))
            shape = lines.shapes[line]
            found = self._of_group(shape, view, machines, room, rival)
            for work in found:
                work.woken = round_
            round_.untried += len(found)
            woken += found
            waiting[line] = bool(found) and shape in self.by_shape

    def _of_group(self, shape: Shape, view: View, machines: Machines, room: Machines, rival: int) -> list[Work]:
        """Take out the jobs of a group that were submitted before `rival` and may fit; `room` is less by what they may
        take.
        """
        first = self.first(shape)
        groups = [group for group, left in enumerate(first.left) if left]
        needs = [first.need(group) for group in groups]
        masks = [_of_use(first, group, view, machines) for group in groups]
        fits = [_units(room, need, mask) for need, mask in zip(needs, masks, strict=True)]
        budget = [int(each.sum()) for each in fits]
        takes, woken = [0] * len(groups), list[Work]()
        # Group by group: what the first jobs cannot use must reach those behind them.
        while shape in self.by_shape and max(budget) > 0:
            work = self.first(shape)
            if woken and work.job.order > rival:
                break
            for i, left in enumerate(filter(None, work.left)):
                takes[i] += min(left, max(0, budget[i]))
                budget[i] -= left
            woken.append(work)
            self.discard(work.id)
        for need, mask, count in zip(needs, masks, takes, strict=True):
            _take(room, need, mask, count)
        return woken


def _of_use(work: Work, group: int, view: View, machines: Machines) -> Mask | None:
    """Which of the machines a group may run on, as far as that is known; None for all of them."""
    may = permitted(work, group, view) if work.job.spec and view.attributes.used else None
    return None if may is None else may[machines] | view.attributes.stale[machines]


def _units(room: Amounts, need: Resources, mask: Mask | None) -> Amounts:
    """How many tasks each machine holds; none where the mask says that they may not run there."""
    fits = fitting(room, need)
    if mask is not None:
        fits[~mask] = 0
    return fits


def _take(room: Amounts, need: Resources, mask: Mask | None, count: int) -> None:
    """Take the room of so many tasks, from the first machines that hold some."""
    if count:
        fits = _units(room, need, mask)
        taken = np.clip(count - (np.cumsum(fits) - fits), 0, fits)
        room -= np.array(need, dtype=np.int64)[:, None] * taken

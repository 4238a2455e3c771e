"""Jobs that fit nowhere sleep, grouped by what they wait for; freed room wakes as many as may fit.

Each group is tested once against the changed machines, however many jobs are in it (semantics 19).
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cellstate.view import View
from schedulers.constraints.evaluation import permitted
from schedulers.work import Shape, Work


def _units(work: Work, view: View, machines: NDArray[np.int64]) -> list[int]:
    """How many tasks of each group with tasks left the machines' room holds, as if it were alone."""
    groups = [group for group, left in enumerate(work.left) if left]
    return [view.units(work.need(group), _of_use(work, group, view, machines)) for group in groups]


def _of_use(work: Work, group: int, view: View, machines: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the machines on which the group may run, as far as that is known."""
    may = permitted(work, group, view) if work.job.spec and view.attributes.used else None
    return machines if may is None else machines[may[machines] | view.attributes.stale[machines]]


@dataclass(slots=True)
class Sleepers:
    """Sleeping jobs by shape, each shape first in, first out."""

    _groups: dict[Shape, "OrderedDict[str, Work]"] = field(default_factory=dict)
    _shapes: dict[str, Shape] = field(default_factory=dict)

    def add(self, work: Work) -> None:
        """Put a job to sleep."""
        shape = work.shape()
        self._shapes[work.id] = shape
        self._groups.setdefault(shape, OrderedDict())[work.id] = work

    def discard(self, job_id: str) -> Work | None:
        """Take a job out; None when it does not sleep here."""
        shape = self._shapes.pop(job_id, None)
        if shape is None:
            return None
        group = self._groups[shape]
        work = group.pop(job_id)
        if not group:
            del self._groups[shape]
        return work

    def clear(self) -> list[Work]:
        """Take out every job."""
        works = [work for group in self._groups.values() for work in group.values()]
        self._groups, self._shapes = {}, {}
        return works

    def ids(self) -> list[str]:
        """Ids of all sleeping jobs."""
        return list(self._shapes)

    def wake(self, view: View) -> list[Work]:
        """Take out the jobs that room freed since the last call may hold; no herd behind the first ones."""
        machines = view.freed()
        if not len(machines) or not self._groups:
            return []
        woken: list[Work] = []
        for shape in list(self._groups):
            group = self._groups[shape]
            units = _units(next(iter(group.values())), view, machines)
            # Group by group: what the first jobs cannot use must reach those behind them.
            while group and max(units) > 0:
                work = next(iter(group.values()))
                units = [unit - left for unit, left in zip(units, filter(None, work.left), strict=True)]
                woken.append(work)
                self.discard(work.id)
        return woken

    def __len__(self) -> int:
        """How many jobs sleep."""
        return len(self._shapes)

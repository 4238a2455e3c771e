"""Jobs that fit nowhere sleep, grouped by what they wait for; freed room wakes as many as may fit.

Each group is tested once against the changed machines, however many jobs are in it (semantics 19).
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from cellstate.view import View
from schedulers.work import Shape, Work


def _units(work: Work, view: View, machines: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int:
    """How many of the job's smallest-fitting tasks the machines' room holds, summed over groups."""
    total = 0
    for group, left in enumerate(work.left):
        if not left:
            continue
        fits = np.full(len(machines), left, dtype=np.int64)
        for room, amount in zip(view.room, work.need(group), strict=True):
            here = room[machines]
            if amount:
                np.minimum(fits, here // amount, out=fits)
            fits[here < 0] = 0
        total += int(np.maximum(fits, 0).sum())
    return total


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
            while units > 0 and group:
                work = next(iter(group.values()))
                units -= work.remaining
                woken.append(work)
                self.discard(work.id)
        return woken

    def __len__(self) -> int:
        """How many jobs sleep."""
        return len(self._shapes)

"""The map shards near the machine of a worker, and how long it leaves the others to workers of their machines.

A worker takes shards of its own machine first, then shards without a location, then those of the domains around its
machine, at last all others. The waits are those of the input's locality. They run on the worker's clock, from the first
time that it leaves shards to others, and are never begun again (`DelayReset.TASK`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from omega.cellstate import ranges
from omega.cellstate.attributes import Attributes
from omega.cellstate.cell import Cell, Machines
from omega.cellstate.constraints.evaluation import Mask
from omega.cellstate.model import MachineState
from omega.mapreduce.plan import MapReducePlan
from omega.schedulers.constraints.locality import Locality, locality_of, spans
from omega.schedulers.constraints.locality_levels import levels_of
from omega.schedulers.placement.delay import DelayRule, Waiting

RULE = DelayRule()
CHUNK = 1_000
"""Number of machines that are read at once."""


@dataclass(slots=True)
class NearShards:
    """The maps of a job by their level for one machine: `levels` of its places, which begin with the maps `firsts`.

    `sets` has the maps of each level as ranges, `others` those without a location.
    """

    wants: Locality
    firsts: Sequence[int]
    levels: Sequence[int]
    sets: Sequence[str]
    others: str
    waiting: Waiting = field(default_factory=Waiting)

    def level(self, shard: int) -> int | None:
        """Return the level of a map; None for one without a location."""
        if any(first <= shard <= last for first, last in ranges.spans(self.others)):
            return None
        return self.levels[bisect_right(self.firsts, shard) - 1]

    def taken(self, now: float) -> list[str]:
        """Return the sets of maps that the worker takes now (seconds), best first."""
        reached, _ = RULE.reached(self.waiting, self.wants.waits, now)
        return [self.sets[0], self.others, *self.sets[1 : reached + 1]]

    def refuse(self, now: float) -> float:
        """Leave unclaimed shards to other machines; return the time until the worker takes farther ones (seconds)."""
        RULE.refused(self.waiting, now)
        return max(0.0, RULE.reached(self.waiting, self.wants.waits, now)[1] - now)

    def describe(self) -> str:
        """Return how long the worker waits at each level, as text."""
        parts = []
        for level, after in enumerate(accumulate(self.wants.waits), 1):
            last = level == len(self.wants.waits)
            parts.append(f"{'any' if last else f'those of its {self.wants.name(level)}'} after {after:g} s")
        return ", ".join(parts)


def near_shards(cell: Cell, plan: MapReducePlan, machine: int) -> NearShards | None:
    """Return the maps near a machine as it is now, by its index; None for a job without locality."""
    if not plan.places:
        return None
    wants = [locality_of(place, plan.near) for place in plan.places]
    indices = _machines(cell.machines, wants, machine)
    attributes, up = _described(cell, indices)
    own = bisect_left(indices, machine)
    up[own] = True  # it runs this worker
    levels = [_level(each, attributes, up, own) for each in wants]
    pairs, last = spans(plan.places), len(wants[0].waits)
    located = pairs[-1][1]
    return NearShards(
        wants[0],
        [first for first, _ in pairs],
        levels,
        [
            _text([pair for pair, level in zip(pairs, levels, strict=True) if level == which])
            for which in range(last + 1)
        ],
        _text([(located, plan.maps)]),
    )


def _machines(machines: Machines, wants: Sequence[Locality], machine: int) -> Sequence[int]:
    """Return the worker's machine and those that may have data: those named, or all if a constraint tells."""
    if any(each.where for each in wants):
        return range(machines.count())
    names = sorted({name for each in wants for name in each.machines})
    return sorted({machine, *machines.indices(names).values()})


def _described(cell: Cell, indices: Sequence[int]) -> tuple[Attributes, Mask]:
    """Return the attributes of some machines, and whether each is up. Reads a part at a time."""
    attributes, up = Attributes(), np.zeros(len(indices), dtype=np.bool_)
    attributes.resize(len(indices))
    for at in range(0, len(indices), CHUNK):
        machines = cell.machines.at(indices[at : at + CHUNK])
        places = [bisect_left(indices, each.index) for each in machines]
        attributes.learn(places, [(each.name, tuple(each.attributes.items())) for each in machines])
        up[places] = [each.state is MachineState.UP for each in machines]
    return attributes, up


def _level(wants: Locality, attributes: Attributes, up: Mask, own: int) -> int:
    masks = levels_of(wants, attributes, up)
    return next((level for level, mask in enumerate(masks) if mask[own]), len(masks))


def _text(pairs: Sequence[tuple[int, int]]) -> str:
    """Return (first, end) pairs in ascending order as ranges; those that touch become one."""
    joined: ranges.Spans = []
    for first, end in pairs:
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], end - 1)
        elif first < end:
            joined.append((first, end - 1))
    return ranges.spell(joined)

"""First fit within a scheduler's own part of the machines: schedulers that share a cell rarely choose the same machine.

The part is a preference. A scheduler whose part has no room goes on behind it, so it places whatever fits in the cell.
"""

from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from omega.cellstate.override import override
from omega.schedulers.draws import sampler_of
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Peers


@dataclass(frozen=True, slots=True)
class OwnPart(FirstFit):
    """Begin each search at a random machine of the scheduler's part; otherwise as `FirstFit`.

    The machines are divided by index among the live schedulers of a kind: the n-th of m begins within the n-th m-th
    of them. A scheduler alone chooses exactly as `FirstFit`.
    """

    _part: list[int] = field(default_factory=lambda: [0, 1], init=False, repr=False, compare=False)
    """Number of the scheduler among its kind, and how many they are."""

    keeps_apart: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    def join(self, peers: Peers) -> None:
        """Record the number of the scheduler and of its peers."""
        self._part[:] = peers.number, peers.members

    @override
    def _starts(self, size: int, count: int, rng: Random) -> list[int]:
        number, members = self._part
        first, end = size * number // members, size * (number + 1) // members
        if end == first:  # fewer machines than schedulers
            first, end = 0, size
        return [first + start for start in sampler_of(rng)(end - first, count)]

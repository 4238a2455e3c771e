"""No preemption: a job that fits nowhere is blocked."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.policies import Placement, Preemption
from omega.schedulers.work import Work


@dataclass(frozen=True, slots=True)
class NoPreemption(Preemption):
    """The policy of a scheduler that never evicts."""

    evicts: ClassVar[bool] = False
    follows_use: ClassVar[bool] = False

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> None:
        """Return no machine."""

    @override
    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        return ()

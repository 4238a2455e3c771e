"""Nobody is evicted: a job that fits nowhere sleeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from cellstate.transaction import Claim
from cellstate.view import View
from schedulers.policies import Placement, Preemption
from schedulers.work import Work


@dataclass(frozen=True, slots=True)
class NoPreemption(Preemption):
    """The policy of a scheduler that never evicts."""

    evicts: ClassVar[bool] = False
    by: ClassVar[str] = ""

    def suspects(self, work: Work, view: View, rng: Random) -> None:
        """See Preemption.suspects."""

    def place(self, work: Work, view: View, placement: Placement, rng: Random) -> Sequence[Claim]:
        """See Preemption.place."""
        return ()

"""Nobody is evicted: a job that fits nowhere sleeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from cellstate.transaction import Claim
from cellstate.view import View
from schedulers.policies import Placement
from schedulers.work import Work


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """The policy of a scheduler that never evicts."""

    def suspects(self, work: Work, view: View, rng: Random) -> None:
        """See Preemption.suspects."""

    def place(self, work: Work, view: View, placement: Placement, rng: Random) -> Sequence[Claim]:
        """See Preemption.place."""
        return ()

"""First in, first out by when a job joined the queue: one that is tried again joins at the back."""

from dataclasses import dataclass
from typing import ClassVar

from schedulers.policies import Ordering
from schedulers.work import Work


@dataclass(frozen=True, slots=True)
class Rejoin(Ordering):
    """Jobs in the order in which they joined: when they were submitted, or when they are due again."""

    rejoins: ClassVar[bool] = True

    def key(self, work: Work) -> float:
        """See Ordering.key."""
        return work.not_before or work.submitted

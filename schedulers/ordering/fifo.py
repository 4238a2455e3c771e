"""First in, first out: by submission, or by the time of joining the queue, where a retried job joins at the end."""

from dataclasses import dataclass
from typing import ClassVar

from omega.cellstate.override import override
from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work


@dataclass(frozen=True, slots=True)
class Fifo(Ordering):
    """Jobs in order of submission; a job that backs off comes back to its place when it is due."""


@dataclass(frozen=True, slots=True)
class Rejoin(Ordering):
    """Jobs in the order in which they joined: on submission, or when they are due for a retry."""

    rejoins: ClassVar[bool] = True

    @override
    def key(self, work: Work) -> float:
        return work.not_before or work.submitted

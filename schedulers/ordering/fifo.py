"""First in, first out: by submission."""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from schedulers.work import Work


@dataclass(slots=True)
class Fifo:
    """Jobs in order of submission; a job that backs off comes back when it is due."""

    _ready: list[tuple[int, str]] = field(default_factory=list)
    _later: list[tuple[float, int, str]] = field(default_factory=list)
    _works: dict[str, Work] = field(default_factory=dict)

    def add(self, work: Work) -> None:
        """See Ordering.add."""
        self._works[work.id] = work
        if work.not_before > 0:
            heappush(self._later, (work.not_before, work.job.order, work.id))
        else:
            heappush(self._ready, (work.job.order, work.id))

    def pop(self, now: float) -> Work | None:
        """See Ordering.pop."""
        while self._later and self._later[0][0] <= now:
            _, order, job_id = heappop(self._later)
            heappush(self._ready, (order, job_id))
        while self._ready:
            order, job_id = heappop(self._ready)
            work = self._works.get(job_id)
            if work is not None and work.not_before <= now:
                del self._works[job_id]
                return work
            if work is not None:  # it left and came back, or the clock stepped back
                heappush(self._later, (work.not_before, order, job_id))
        return None

    def discard(self, job_id: str) -> Work | None:
        """See Ordering.discard."""
        return self._works.pop(job_id, None)

    def get(self, job_id: str) -> Work | None:
        """See Ordering.get."""
        return self._works.get(job_id)

    def next_due(self) -> float | None:
        """See Ordering.next_due."""
        if not self._works:
            return None
        return 0.0 if self._ready else self._later[0][0]

    def __len__(self) -> int:
        """See Ordering.__len__."""
        return len(self._works)

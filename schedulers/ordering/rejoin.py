"""First in, first out by when a job joined the queue: one that is tried again joins at the back."""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from schedulers.work import Work


@dataclass(slots=True)
class Rejoin:
    """Jobs in the order in which they joined: when they were submitted, or when they are due again."""

    _queue: list[tuple[float, int, str]] = field(default_factory=list)
    _works: dict[str, tuple[int, Work]] = field(default_factory=dict)
    _joined: int = 0

    def add(self, work: Work) -> None:
        """See Ordering.add."""
        self._joined += 1
        self._works[work.id] = self._joined, work
        heappush(self._queue, (work.not_before or work.submitted, self._joined, work.id))

    def pop(self, now: float) -> Work | None:
        """See Ordering.pop."""
        queue = self._queue
        while queue and queue[0][0] <= now:
            _, joined, job_id = heappop(queue)
            found = self._works.get(job_id)
            if found is not None and found[0] == joined:  # otherwise it left, and perhaps came back since
                del self._works[job_id]
                return found[1]
        return None

    def discard(self, job_id: str) -> Work | None:
        """See Ordering.discard."""
        found = self._works.pop(job_id, None)
        return None if found is None else found[1]

    def get(self, job_id: str) -> Work | None:
        """See Ordering.get."""
        found = self._works.get(job_id)
        return None if found is None else found[1]

    def next_due(self) -> float | None:
        """See Ordering.next_due."""
        return self._queue[0][0] if self._works else None

    def __len__(self) -> int:
        """See Ordering.__len__."""
        return len(self._works)

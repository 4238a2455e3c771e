"""The tasks of jobs by machine, kept for jobs that place their tasks on different machines in many attempts."""

from collections.abc import Sequence
from itertools import repeat

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.port_values import tasks_by_machine


class JobMachines:
    """Tasks by machine of jobs that were asked for, as long as all that change them report it here."""

    def __init__(self) -> None:
        """Know no job."""
        self._known: dict[str, dict[int, int]] = {}

    def __bool__(self) -> bool:
        """Whether any job is known."""
        return bool(self._known)

    def of(self, ledger: Ledger, job_id: str) -> dict[int, int]:
        """Return how many tasks of a job run on each machine, empty for a job that is not stored; the job is known."""
        known = self._known.get(job_id)
        if known is None:
            j = ledger.J.get(job_id)
            if j is None:
                return {}
            known = self._known[job_id] = tasks_by_machine(ledger, j)
        return dict(known)

    def add(self, job_id: str, machines: Sequence[int], counts: Sequence[int] | None, sign: int) -> None:
        """Add tasks of a job, one on each of these machines without `counts`; with a `sign` of -1 subtract them."""
        known = self._known.get(job_id)
        if known is None:
            return
        for machine, count in zip(machines, counts or repeat(1), strict=False):
            left = known.get(machine, 0) + sign * count
            if left:
                known[machine] = left
            else:
                del known[machine]

    def drop(self, job_id: str) -> None:
        """Forget a job that ended."""
        self._known.pop(job_id, None)

    def forget(self) -> None:
        """Forget all jobs: tasks may have moved unreported."""
        self._known.clear()

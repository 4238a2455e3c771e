"""Changes of jobs by users."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from omega.cellstate.model import Job, JobSpec, TaskGroup
from omega.cellstate.ports.parts import ChangeTotals, EndTasks, SetLimits, SetPools, StopJobs
from omega.cellstate.ports.queries import Queries
from omega.cellstate.replies import Submitted


class JobStore(Queries, EndTasks, StopJobs, ChangeTotals, SetLimits, SetPools, Protocol):
    """The port of clients and commands that change jobs, their limits and pools."""

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        """Submit jobs; a job already stored under its id changes nothing.

        The store holds a job that waits for others (`JobSpec.after`). The call that ends the last of them releases it,
        or stops it when one did not end as required, and so on along the chain.
        """

    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Stop new placements of a job; running tasks continue. Refused when it has ended."""

    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Undo `hold`; a job that waits for others keeps waiting. Refused when it has ended."""

    def update(
        self, job_id: str, groups: Sequence[TaskGroup], extra: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        """Begin an update: add `groups`, empty, whatever their count; `extra` replaces the job's.

        ``groups`` in `extra` lists the extras of all groups, including old ones. The update is ``rolling`` until
        `settle`: meanwhile `resize` moves tasks from old groups to new ones (schedulers/rolling.py). Refused when the
        job does not exist, has ended, or has too many groups.
        """

"""Tasks by index, jobs that are submitted again, and use, for `omega.Client`."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omega import changes, submission
from omega.client.arguments import known, positive
from omega.queries.job_warnings import unserved, warnings
from omega.queries.jobs import find_job

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.ports import JobStore
    from omega.client.connections import Connections
    from omega.client.lost_jobs import Submissions

Document = dict[str, Any]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TaskRecords:
    """The methods of a client over records that outlive the log."""

    _connections: "Connections"
    _by: str
    _submissions: "Submissions"
    user: str

    def tasks(self, job: str, *, state: str | None = None, limit: int | None = None) -> Document:
        """Return the tasks of a job by index, equal neighbours in one row; the first `limit` rows (None: all).

        With `state` only tasks in that state. See ``omega job tasks``.
        """
        from omega.queries.task_results import STATES, job_tasks

        known("state", state, STATES)
        positive(limit=limit)
        with self._connections.cell() as cell:
            return job_tasks(cell, find_job(cell, job)).of(state).document(cell, limit)

    def rerun(
        self,
        job: str,
        *,
        failed: bool = False,
        tasks: str | None = None,
        group: str | None = None,
        name: str | None = None,
        hold: bool = False,
        force: bool = False,
    ) -> Document:
        """Submit a job again, its `failed` tasks, or the `tasks` with these indices of a `group`, as a new job.

        Its annotation ``rerun_of`` names the origin. See ``omega job rerun``.
        """
        from omega.rerunning import rerun

        with self._connections.cell() as cell:
            cell.members()
            origin = find_job(cell, job)
            changes.check_owner(self.user, cell, [origin], force=force)
            spec = rerun(cell, origin, name, failed=failed, tasks=tasks, group=group)
            return self._submitted(cell, submission.prepared(cell, [spec], self.user), hold=hold)

    def usage(self, by: str = "user", *, from_ms: int | None = None, to_ms: int | None = None) -> Document:
        """Return what users, pools or kinds used in whole hours, by default of the last day. See ``omega usage``."""
        from omega.queries.use import BY, use

        known("by", by, BY)
        with self._connections.cell() as cell:
            return use(cell, by, from_ms, to_ms, _now_ms())

    def _submitted(
        self, cell: "JobStore", specs: "Sequence[JobSpec]", known: "Sequence[str]" = (), *, hold: bool
    ) -> Document:
        """Submit prepared jobs and return the answers, with warnings that are `known`."""
        partings = cell.sightings.partings
        answers = list(self._submissions.submit(cell, specs, _now_ms, self._by, hold=hold))
        rows = submission.submitted_json(specs, answers)
        fresh = [spec for spec, answer in zip(specs, answers, strict=True) if answer.status == "new"]
        found = [*known, *warnings(cell, fresh), *unserved(cell, fresh)]
        if cell.sightings.partings != partings:  # the store lost versions meanwhile, maybe those of these jobs
            self._submissions.again(cell, _now_ms, self._by, {spec.id for spec in specs})
        return {"cell": cell.name, "jobs": rows, "warnings": found}

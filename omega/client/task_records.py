"""Tasks by index, jobs that are submitted again, and use, for `omega.Client`."""

from typing import TYPE_CHECKING, Any

from omega import changes
from omega.cellstate.clock import now_ms
from omega.client.arguments import known, positive
from omega.client.together import Submission, submit_together
from omega.queries.jobs import find_job, job_to_change

if TYPE_CHECKING:
    from omega.client.connections import Connections
    from omega.client.lost_jobs import Submissions

Document = dict[str, Any]


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
            return job_tasks(cell, find_job(cell, job)).of(state).document(cell, limit, now_ms())

    def status_and_tasks(
        self, job: str, *, state: str | None = None, limit: int | None = None
    ) -> tuple[Document, Document]:
        """Return the brief status of a job and its tasks, as `status` and `tasks` do, by one reading of its past."""
        from omega.queries.job_status import JobStatus
        from omega.queries.task_results import job_tasks

        with self._connections.cell() as cell:
            status = JobStatus(cell, find_job(cell, job), brief=True)
            tasks = job_tasks(cell, status.job, status.log).of(state).document(cell, limit, now_ms())
            return status.as_json(now_ms()), tasks

    def rerun(
        self,
        job: str,
        *,
        failed: bool = False,
        tasks: str | None = None,
        group: str | None = None,
        name: str | None = None,
        hold: bool = False,
        check: int | None = None,
        force: bool = False,
    ) -> Document:
        """Submit a job again, its `failed` tasks, or the `tasks` with these indices of a `group`, as a new job.

        `check` is the modify index of the job; Overtaken when it is another.

        Its annotation ``rerun_of`` names the origin. See ``omega job rerun``.
        """
        from omega.rerunning import rerun

        with self._connections.cell() as cell:
            cell.schedulers.members()
            origin = job_to_change(cell, job)
            changes.check_owner(self.user, cell, [origin], force=force)
            changes.check_index(cell, origin, check)
            spec = rerun(cell, origin, name, failed=failed, tasks=tasks, group=group)
            one = Submission([spec], hold, drawn={spec.id})
            submit_together(cell, [one], self._submissions, user=self.user, by=self._by)
            return one.result()

    def usage(self, by: str = "user", *, from_ms: int | None = None, to_ms: int | None = None) -> Document:
        """Return what users, pools or kinds used in whole hours, by default of the last day. See ``omega usage``."""
        from omega.queries.use import BY, use

        known("by", by, BY)
        with self._connections.cell() as cell:
            return use(cell, by, from_ms, to_ms, now_ms())

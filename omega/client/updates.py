"""Updates of jobs and their versions, for `omega.Client`."""

from typing import TYPE_CHECKING, Any

from omega import changes, submission
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import BadInput
from omega.client.given_jobs import JobLike, given_jobs
from omega.queries.job_fields import KindFields
from omega.queries.job_status import progress, update_progress
from omega.queries.jobs import find_job, job_to_change

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell
    from omega.client.connections import Connections

Document = dict[str, Any]


class Updates:
    """The methods of a client that replace the tasks of jobs."""

    _connections: "Connections"
    _by: str
    user: str

    def update(self, job: JobLike, *, check: int | None = None, force: bool = False) -> Document:
        """Replace the tasks of a running job step by step by those of `job`. See ``omega job update``."""
        with self._connections.cell() as cell:
            cell.schedulers.members()
            specs = given_jobs(cell, [job], fields := KindFields(cell)).specs
            if len(specs) != 1:
                raise BadInput(f"{len(specs)} jobs; update one at a time")
            spec = submission.prepared(cell, specs, None, fields)[0]
            return self._updated(cell, spec, check, force=force)

    def history(self, job: str) -> Document:
        """Return the versions of a job, newest first, with their differences. See ``omega job history``."""
        from omega.queries.versions import history

        with self._connections.cell() as cell:
            record = find_job(cell, job)
            versions = history(cell, record)
            return {"cell": cell.name, "job": record.id, "name": record.name, "versions": versions}

    def revert(self, job: str, to: int | None = None, *, check: int | None = None, force: bool = False) -> Document:
        """Update a job to an earlier version (None: the one before). See ``omega job revert``."""
        from omega.versions import find

        with self._connections.cell() as cell:
            cell.schedulers.members()
            record = job_to_change(cell, job)
            return self._updated(cell, find(record, to).spec(record), check, force=force)

    def _updated(self, cell: "RedisCell", spec: "JobSpec", check: int | None, *, force: bool) -> Document:
        record, change = changes.update(cell, spec, check, self.user, now_ms, self._by, force=force)
        about = {"id": record.id, "name": record.name, "replaces": change.replaced, "modify_index": record.modified}
        about |= {"restarts": change.restarts, "group_changes": [each.as_json() for each in change.changes]}
        return {"cell": cell.name, "jobs": [about | (update_progress(cell, record.id) or progress(record, ""))]}

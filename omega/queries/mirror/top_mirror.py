"""The mirror of ``omega top``: machines, figures and the end of the log, but no jobs beyond those that it shows."""

from typing import TYPE_CHECKING

from omega.cellstate.errors import Refused
from omega.queries.mirror.cell_mirror import CellMirror
from omega.queries.mirror.overviews import Overviews

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job, Run
    from omega.queries.names import Names
    from omega.queries.overview import Overview


class TopMirror(CellMirror):
    """One cell for one terminal: a reading costs the same whatever the number of jobs. One object serves one thread."""

    def __init__(self, cell: "Cell", store: str) -> None:
        """Mirror `cell`; `store` is the printed name of its store."""
        super().__init__(cell, store, whole=False)
        self._overviews = Overviews(cell, self.held, store)

    @property
    def names(self) -> "Names":
        """Names of jobs and machines that were read."""
        return self._overviews.names

    def look(self, now_ms: int) -> "Overview":
        """Return the cell as it is at `now_ms`. Raises StoreError, and Refused when the cell does not exist."""
        self.read(now_ms)
        return self._overviews.make(now_ms)

    def job(self, job_id: str) -> "tuple[Job, list[Run]]":
        """Return a job and its runs. Raises Refused when it is no longer stored."""
        job = self.cell.jobs.get(job_id)
        if job is None:
            raise Refused(f"job {job_id}: is no longer stored")
        indices = sorted({machine for group in job.groups for _, machine, _ in group.runs})
        return job, [run for run in self.cell.machines.runs(indices) if run.job == job_id]

    def machine(self, index: int, most: int) -> "tuple[list[Run], dict[str, Job]]":
        """Return the runs of a machine, and the jobs of the first `most` of them by id."""
        runs = self.cell.machines.runs([index])
        return runs, self.cell.jobs.by_id(sorted({run.job for run in runs[:most]}))

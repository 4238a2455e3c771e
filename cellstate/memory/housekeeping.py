"""Housekeeping of the twin: ``lua/housekeep.lua``."""

from cellstate.cell import Housekept
from cellstate.memory.tasks import MemoryTasks
from cellstate.model import JobState
from cellstate.transaction import How

JOBS = 100


class MemoryHousekeeping(MemoryTasks):
    """End tasks of stopped and abandoned jobs."""

    def chores(self) -> dict[str, int]:
        """Jobs that housekeeping has to act on: from when (ms)."""
        return {job_id: when for when, job_id in sorted((when, job_id) for job_id, when in self.due.items())}

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """See Cell.housekeep; `at_ms` stands for the server's time."""
        self.unfold()
        self.open()
        due = sorted((when, job_id) for job_id, when in self.due.items() if when <= at_ms)[:JOBS]
        ids = [job_id for _, job_id in due]
        runs = [
            (index, placement)
            for j in map(self.J.get, ids) if j is not None and j.state > JobState.HELD
            for g in j.groups for placement, index in g.runs.items() if placement > 0
        ]  # fmt: skip
        ended = sum(
            self.end_tasks(self.M[index], placement, None, How.STOPPED, "-", self.stamp)
            for index, placement in runs[:most]
        )
        for job_id in ids:
            if job_id not in self.J or not self.J[job_id].placed:
                self.due.pop(job_id, None)
        if ended:
            self.transactions += 1
            self.publish(at_ms, by)
        return Housekept(ended, more=len(runs) > most or len(ids) == JOBS)

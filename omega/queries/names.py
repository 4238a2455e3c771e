"""Names of jobs and machines by id and index."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from omega.queries.events import Event

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries

SHORT = 4
"""Letters of a job's id in a sentence."""


class Names:
    """Names of jobs and machines, read once each. A job that is no longer kept has only its id."""

    def __init__(self, cell: "Queries") -> None:
        self._cell = cell
        self._jobs: dict[str, str] = {}
        self._machines: dict[int, str] = {}

    def know(self, machines: Mapping[int, str]) -> None:
        """Add names of machines, by index."""
        self._machines.update(machines)

    def read_jobs(self, ids: Iterable[str | None]) -> None:
        """Read the unknown names of jobs, 4,000 per call."""
        unknown = sorted({job_id for job_id in ids if job_id is not None and job_id not in self._jobs})
        jobs = self._cell.jobs_by_id(unknown)
        self._jobs |= {job_id: jobs[job_id].name if job_id in jobs else "" for job_id in unknown}

    def add_event(self, event: Event) -> None:
        """Add the names in an event."""
        if event.kind == "submit" and event.job:
            self._jobs[event.job] = event.more["name"]
        elif event.kind == "join" and event.machine is not None:
            self._machines[event.machine] = event.more["name"]

    def job(self, job_id: str | None) -> str:
        """Return the name of a job with the beginning of its id: ``crawl (4f1c)``."""
        if job_id is None:
            return "?"
        if job_id not in self._jobs:
            record = self._cell.job(job_id)
            self._jobs[job_id] = record.name if record else ""
        name = self._jobs[job_id]
        return f"{name} ({job_id[:SHORT]})" if name else job_id

    def machine(self, index: int | None) -> str:
        """``m17``; its index when it is gone."""
        if index is None:
            return "?"
        if index not in self._machines:
            self._machines |= {machine.index: machine.name for machine in self._cell.machines()}
            self._machines.setdefault(index, f"machine {index}")
        return self._machines[index]

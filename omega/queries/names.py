"""Names of jobs and machines by id and index."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from omega.queries.events import Event
from omega.queries.task_names import TaskNames

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

SHORT = 4
"""Letters of a job's id in a sentence."""


class Names:
    """Names of jobs and machines, read once each. A job that is no longer kept has only its id."""

    def __init__(self, cell: "Cell") -> None:
        self._cell = cell
        self._jobs: dict[str, str] = {}
        self._machines: dict[int, str] = {}
        self._tasks: dict[str, TaskNames] = {}
        self._copies: dict[str, frozenset[int]] = {}
        """The groups for copies of slow tasks of each job."""

    def know(self, machines: Mapping[int, str]) -> None:
        """Add names of machines, by index."""
        self._machines.update(machines)

    def read_jobs(self, ids: Iterable[str | None]) -> None:
        """Read the unknown names of jobs, 4,000 per call."""
        unknown = sorted({job_id for job_id in ids if job_id is not None and job_id not in self._jobs})
        jobs = self._cell.jobs.by_id(unknown)
        self._jobs |= {job_id: jobs[job_id].name if job_id in jobs else "" for job_id in unknown}

    def read_copies(self, events: Iterable[Event]) -> None:
        """Read which groups have copies of slow tasks, of the jobs of events of tasks of a group after the first."""
        ids = {event.job for event in events if event.job and event.more.get("group") and _may_be_copies(event)}
        if unknown := sorted(ids - self._copies.keys()):
            jobs = self._cell.jobs.by_id(unknown)
            groups = {job_id: jobs[job_id].groups if job_id in jobs else [] for job_id in unknown}
            self._copies |= {
                job_id: frozenset(number for number, group in enumerate(of_job) if group.copies)
                for job_id, of_job in groups.items()
            }

    def are_copies(self, event: Event) -> bool:
        """Return whether the tasks of an event are copies of slow tasks."""
        self.read_copies([event])
        return _may_be_copies(event) and event.more.get("group") in self._copies.get(event.job or "", ())

    def read_tasks(self, events: Iterable[Event]) -> None:
        """Read the specifications of the jobs of which events concern tasks, if they were not read yet."""
        ids = {event.job for event in events if event.job is not None and "tasks" in event.more}
        specs = self._cell.jobs.specs(sorted(ids - self._tasks.keys()))
        self._tasks |= {job_id: TaskNames(spec.get("groups", ())) for job_id, spec in specs.items()}

    def read_machines(self, indices: Iterable[int | None]) -> None:
        """Read the unknown names of machines, 4,000 per call; one that is gone has only its index."""
        unknown = sorted({index for index in indices if index is not None and index not in self._machines})
        known = {machine.index: machine.name for machine in self._cell.machines.at(unknown)}
        self._machines |= {index: known.get(index, f"machine {index}") for index in unknown}

    def add_event(self, event: Event) -> None:
        """Add the names in an event."""
        if "name" not in event.more:
            return  # unreadable, or the number of further events
        if event.kind == "submit" and event.job:
            self._jobs[event.job] = event.more["name"]
        elif event.kind == "join" and event.machine is not None:
            self._machines[event.machine] = event.more["name"]

    def job(self, job_id: str | None) -> str:
        """Return the name of a job with the beginning of its id: ``crawl (4f1c)``."""
        if job_id is None:
            return "?"
        if job_id not in self._jobs:
            record = self._cell.jobs.get(job_id)
            self._jobs[job_id] = record.name if record else ""
        name = self._jobs[job_id]
        return f"{name} ({job_id[:SHORT]})" if name else job_id

    def tasks(self, event: Event) -> dict[str, Any]:
        """Return name and indices of an event's tasks as plain values; empty unless their group is an array."""
        group, tasks = event.more.get("group"), event.more.get("tasks")
        if event.job is None or group is None or tasks is None:
            return {}
        self.read_tasks([event])
        names = self._tasks.get(event.job)
        return names.as_json(group, tasks) if names and names.is_array(group) else {}

    def machine(self, index: int | None) -> str:
        """``m17``; its index when it is gone."""
        if index is None:
            return "?"
        if index not in self._machines:
            self.read_machines([index])
        return self._machines[index]


def _may_be_copies(event: Event) -> bool:
    return "placement" in event.more or event.kind == "drop"

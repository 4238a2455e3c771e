"""One machine in full: its running tasks, its agent, its last events, the schedulers that it rejects."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omega.cellstate import ranges
from omega.cellstate.model import MachineState
from omega.queries.events import Event, events, extent
from omega.queries.machines import machine_json, tasks_on
from omega.queries.recent import states_since
from omega.queries.schedulers import OVER_AND_OVER

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job, Machine, Run

MOST_EVENTS, MOST_VERSIONS = 20, 2_000
"""Events of a machine, and versions at the end of the log that are searched for them."""


class MachineStatus:
    """A machine with all its stored data; each part is read once, on first use."""

    def __init__(self, cell: "Cell", machine: "Machine") -> None:
        self.cell, self.machine = cell, machine

    @cached_property
    def runs(self) -> "list[Run]":
        """The runs on it, those that are leaving too."""
        return self.cell.machines.runs([self.machine.index])

    @cached_property
    def jobs(self) -> "Mapping[str, Job]":
        """The jobs of its runs by id."""
        return self.cell.jobs.by_id(sorted({run.job for run in self.runs}))

    @cached_property
    def users(self) -> "Mapping[str, str]":
        """The users of the jobs of its runs by id; "" where a job has none."""
        return {job_id: str(spec.get("user") or "") for job_id, spec in self.cell.jobs.specs(sorted(self.jobs)).items()}

    @property
    def tasks(self) -> int:
        """Number of its running tasks."""
        return tasks_on(self.runs).get(self.machine.index, 0)

    @property
    def stopping(self) -> dict[str, int]:
        """Tasks that were stopped or moved off and whose processes still run, and what they hold, by resource."""
        sums = Counter[str]()
        for run in self.runs:
            job, count = self.jobs.get(run.job), ranges.count(run.tasks)
            if run.leaving:
                sums["tasks"] += count
                need = job.groups[run.group].need if job else ()
                for name, amount in zip(self.cell.dimensions.names, need, strict=False):
                    sums[name] += count * amount
        return dict(sums)

    @cached_property
    def deadline_ms(self) -> int | None:
        """Milliseconds until the tasks of a drained machine are moved off; None without a deadline."""
        drained = self.machine.state is MachineState.DRAINED
        return self.cell.machines.deadlines().get(self.machine.index) if drained else None

    @cached_property
    def since_ms(self) -> int | None:
        """Time (ms since 1970) since which it is not up; None when it is up or the log no longer has the change."""
        return states_since(self.cell, [self.machine]).get(self.machine.index)

    @cached_property
    def agent(self) -> Any:
        """The agent that offers it, None when it has none."""
        return self.cell.executors.agents().get(self.machine.name)

    @cached_property
    def events(self) -> list[Event]:
        """Its last events, oldest first, as far as the end of the log has them."""
        kept = extent(self.cell)
        last = events(self.cell, max(kept.first - 1, kept.newest - MOST_VERSIONS), kept.newest)
        return [each for each in last if each.machine == self.machine.index][-MOST_EVENTS:]

    @cached_property
    def _rejections(self) -> list[tuple[str, int, int]]:
        return [
            (member, int(count), int(in_a_row))
            for member, figures in self.cell.schedulers.figures().items()
            for index, count, in_a_row in figures.get("rejecting_machines", [])
            if index == self.machine.index
        ]

    @property
    def rejected(self) -> dict[str, int]:
        """Rejected claims on it by scheduler; each scheduler reports the machines that reject most."""
        return {member: count for member, count, _ in self._rejections}

    @property
    def rejected_in_a_row(self) -> dict[str, int]:
        """Consecutive rejected claims by scheduler, since the last accepted one, where there are many."""
        return {member: in_a_row for member, _, in_a_row in self._rejections if in_a_row >= OVER_AND_OVER}

    def as_json(self, *, verbose: bool) -> dict[str, Any]:
        """Return the machine as plain values; `verbose` adds needs of tasks, rejections and events."""
        agent = self.agent
        document = {
            "cell": self.cell.name,
            **machine_json(self.cell.dimensions, self.machine, self.tasks, agent.unfit if agent is not None else ""),
            "agent": None
            if agent is None
            else {"incarnation": agent.incarnation, "live": agent.lives, "unfit": agent.unfit},
            "state_since_ms": self.since_ms,
            "rejected_in_a_row": self.rejected_in_a_row,
            "deadline_ms": self.deadline_ms,
            "stopping": self.stopping,
            "runs": [self._run(run, verbose=verbose) for run in self.runs],
        }
        if verbose:
            document |= {"rejections": self.rejected, "events": [event.as_json() for event in self.events]}
        return document

    def _run(self, run: "Run", *, verbose: bool) -> dict[str, Any]:
        job = self.jobs.get(run.job)
        document = {
            "placement": run.placement,
            "job": run.job,
            "name": job.name if job else "",
            "user": self.users.get(run.job, ""),
            "group": run.group,
            "tasks": run.tasks,
            "leaving": run.leaving,
        }
        if not verbose or job is None:
            return document
        return document | {
            "precedence": job.precedence,
            "need": self.cell.dimensions.numbers(job.groups[run.group].need),
        }

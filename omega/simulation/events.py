"""Events of a simulated cell: machines come, change and go; people hold, release and stop jobs, and set limits."""

from typing import Any

from omega.cellstate.model import Job, JobState, MachineState
from omega.cellstate.tasks import EndKind
from omega.simulation.changing import ChangingWorld
from omega.simulation.engine import microseconds
from omega.simulation.simulated_store import EXECUTOR
from omega.workload.workload import JobEvent, LimitEvent, MachineEvent, WorkloadEvent


class Events:
    """Applies the events of a workload at their times. An event of a job that ended does nothing, and is counted."""

    def __init__(self, world: ChangingWorld) -> None:
        """Apply none yet."""
        self.world, self.late = world, 0

    def at(self, event: WorkloadEvent) -> None:
        """Schedule an event."""
        self.world.engine.at(microseconds(event.at_seconds), self._apply, event)

    def _apply(self, event: Any) -> None:
        if isinstance(event, MachineEvent):
            self._machine(event)
        elif isinstance(event, JobEvent):
            self._job(event)
        elif isinstance(event, LimitEvent):
            self.world.store.cell.pools.set_limits(event.kind, event.limits, self._ms, EXECUTOR)
            self.world.tell_freed(None)

    @property
    def _ms(self) -> int:
        return self.world.engine.now // 1000

    def _machine(self, event: MachineEvent) -> None:
        world, cell = self.world, self.world.store.cell
        if event.up:
            world.store.join([event.machine])
            world.tell_freed(None)
            return
        index = cell.machines.indices([event.machine.name]).get(event.machine.name)
        if index is None:
            self.late += 1
            return
        runs = [run for run in cell.machines.runs([index]) if not run.leaving]
        before = cell.jobs.running(sorted({run.job for run in runs}))
        cell.machines.set_state(index, MachineState.GONE, self._ms, EXECUTOR)
        for job in cell.jobs.by_id(sorted(before)).values():
            world.took(before[job.id], job, EndKind.LOST)
        world.tell_freed(None)

    def _job(self, event: JobEvent) -> None:
        world, cell = self.world, self.world.store.cell
        before = cell.jobs.get(event.job)
        if before is None or before.state > JobState.HELD:
            self.late += 1
        elif event.what == "hold":
            cell.jobs.hold(before.id, self._ms, EXECUTOR)
        elif event.what == "release":
            self._release(cell.jobs.release(before.id, self._ms, EXECUTOR))
        else:
            cell.jobs.stop(before.id, self._ms, EXECUTOR)
            world.stop_runs(before)
            after = cell.jobs.get(before.id)
            if after is not None:
                world.took([group.placed for group in before.groups], after, EndKind.STOPPED)

    def _release(self, job: Job) -> None:
        if job.pending:
            self.world.deliver(self.world.numbered_as_arrived(job))

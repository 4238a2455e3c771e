"""A small cell in memory with running tasks, and a job that wants room in it."""

from collections.abc import Sequence
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Gang, JobSpec, MachineSpec, Run, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions, Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Mode, Position, Transaction, Verdict
from omega.schedulers.constraints.fetching import Fetch, fetch, wanted
from omega.schedulers.work import Work

Resident = tuple[int, Resources, int, int, Gang]
"""(machine, amounts of a task, tasks, precedence, gang)"""
MIDDLE = 5
"""The precedence of the job that wants room."""
RESOURCES = ("cpu", "memory", "gpu", "disk")
JOB = "j"
"""The id of the job that wants room."""


class CellWithResidents:
    """A cell with residents, and a job that fits nowhere in it."""

    def __init__(self, machines: Sequence[Resources], residents: Sequence[Resident] = (), **attributes: str) -> None:
        """Create machines of these capacities, of up to four resources; they have `attributes` in common."""
        names = RESOURCES[: len(machines[0])] if machines else RESOURCES[:2]
        self.cell, self.number, self.settled = MemoryCell(dimensions=Dimensions(names)), 0, 0
        self.cell.executors.register("e", "n", 600_000, 0)
        self.cell.machines.join("e", [MachineSpec(f"m{i}", has, attributes) for i, has in enumerate(machines)], 0)
        self.member = self.cell.schedulers.register("batch/0", "n", 60_000, 0)
        for machine, need, count, precedence, gang in residents:
            self.settle([(machine, count)], need, precedence, gang)

    def settle(
        self,
        where: Sequence[tuple[int, int]],
        need: Resources,
        precedence: int,
        gang: Gang = Gang.NO,
        *,
        optional: bool = False,
        **fields: Any,
    ) -> str:
        """Let a job run, so many of its tasks on each machine, as far as there is room; returns its id.

        `optional`: its tasks are surplus; `fields` are of its job file, for example user and pool.
        """
        self.settled += 1
        groups = [TaskGroup(need, sum(count for _, count in where), optional=optional)]
        groups += [TaskGroup((0,) * len(need), 1)] if optional else []
        return self._running(f"r{self.settled}", groups, where, precedence, gang, **fields)

    def _running(
        self,
        name: str,
        groups: Sequence[TaskGroup],
        where: Sequence[tuple[int, int]],
        precedence: int,
        gang: Gang,
        least: int = 0,
        **fields: Any,
    ) -> str:
        spec = JobSpec(name, name, "batch", tuple(groups), precedence, gang, fields, gang_min=least)
        self.cell.jobs.submit([spec], 0, "ada")
        claims = tuple(Claim(machine, 0, count) for machine, count in where)
        if claims:
            self.commit(Transaction(name, claims, Mode.GANG if gang else Mode.INCREMENTAL))
        return name

    def commit(self, transaction: Transaction) -> list[tuple[int, Verdict]]:
        """Results of each claim: placed tasks, and the verdict."""
        self.number += 1
        reply = self.cell.schedulers.commit(CommitRequest(self.member, self.number, [transaction], Position(), 0))
        return list(reply.outcomes[0].claims)

    def job(
        self, *groups: tuple[Resources, int], gang: Gang = Gang.NO, precedence: int = MIDDLE, **demands: Any
    ) -> Work:
        """Return the job that wants room; `demands` are those of its groups."""
        return self.wanting(groups, gang=gang, precedence=precedence, demands=demands)

    def wanting(
        self,
        groups: Sequence[tuple[Resources, int]],
        *,
        gang: Gang,
        precedence: int = MIDDLE,
        demands: dict[str, Any],
        running: Sequence[tuple[int, int]] = (),
        least: int = 0,
        **fields: Any,
    ) -> Work:
        """Return the job that wants room: `demands` of each group, `fields` of the job file.

        `least`: the minimum of a gang, 0 for all of its tasks. `running`: so many tasks of its first group run on a
        machine already, as far as there is room.
        """
        asked = [TaskGroup(need, count, 0, demands) for need, count in groups]
        self._running(JOB, asked, running, precedence, gang, least=least, **fields)
        record = self.cell.jobs.get(JOB)
        assert record is not None
        return Work.of(record)

    def snapshot(self, work: Work, *, looked: bool = True, attributes: bool = False) -> Snapshot:
        """Return a snapshot of the cell for a job; `looked`: with the running tasks, `attributes`: with these."""
        snapshot = ArraySnapshot(len(self.cell.dimensions))
        snapshot.apply(self.cell.schedulers.sync(Position()))
        snapshot.lanes.learn(self.cell.schedulers.lanes(snapshot.lanes.unknown()))
        snapshot.usage.capacity = snapshot.total()
        if (asked := wanted([work], snapshot, always=attributes)) is not None:
            fetch(asked, self.cell, snapshot)
        if looked:
            fetch(Fetch(residents=tuple(range(snapshot.size))), self.cell, snapshot)
        return snapshot

    def runs(self) -> dict[int, Run]:
        """Running tasks by placement."""
        return {run.placement: run for run in self.cell.machines.runs(range(len(self.cell.M))) if not run.leaving}

    def tasks(self) -> dict[int, int]:
        """Number of running tasks by placement."""
        return {placement: ranges.count(run.tasks) for placement, run in self.runs().items()}

    def precedence(self, run: Run) -> int:
        """How important a run is: the precedence of its job, 0 for optional tasks."""
        job = self.cell.jobs.get(run.job)
        assert job is not None
        return 0 if job.groups[run.group].optional else job.precedence

    def strict(self) -> set[str]:
        """The jobs that are strict gangs."""
        return {job.id for job in self.cell.jobs.all() if job.gang is Gang.STRICT}

    def leaving(self) -> dict[str, int]:
        """Tasks evicted, by job."""
        tasks: dict[str, int] = {}
        for run in self.cell.machines.runs(range(len(self.cell.M))):
            if run.leaving:
                tasks[run.job] = tasks.get(run.job, 0) + ranges.count(run.tasks)
        return tasks

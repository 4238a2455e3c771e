"""Calls of clients: changes of jobs by users, changes of machines by operators."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from omega.cellstate.durability import Durability
from omega.cellstate.model import Job, JobSpec, MachineState, TaskGroup
from omega.cellstate.ports.parts import (
    ChangeTotals,
    ClaimDirectories,
    ClaimJobs,
    DrainDeadlines,
    EndTasks,
    JoinMachines,
    SetLimits,
    SetPools,
    StopJobs,
)  # fmt: skip
from omega.cellstate.ports.queries import Queries
from omega.cellstate.replies import Submitted
from omega.cellstate.task_output import OutputPart, OutputRequest


class RequestOutput(Queries, Protocol):
    """The port of clients that read the output of tasks where agents keep it."""

    def request_output(self, executor: int, request: OutputRequest) -> bool:
        """Ask an agent, by the number of its mailbox, for output of a task; `output_part` returns the answer.

        Returns False when its mailbox has too many messages: the agent does not read it, or has enough to do.
        """

    def output_part(self, name: str) -> OutputPart | None:
        """Return the answer to the request of this name; None while there is none, or when it expired."""


class JobStore(
    RequestOutput, EndTasks, StopJobs, ChangeTotals, ClaimDirectories, ClaimJobs, SetLimits, SetPools, Protocol
):
    """The port of clients and commands that change jobs, their limits and pools."""

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        """Submit jobs; a job already stored under its id changes nothing.

        The store holds a job that waits for others (`JobSpec.after`). The call that ends the last of them releases it,
        or stops it when one did not end as required, and so on along the chain.
        """

    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Stop new placements of a job; running tasks continue. Refused when it has ended."""

    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Undo `hold`; a job that waits for others keeps waiting. Refused when it has ended."""

    def update(
        self, job_id: str, groups: Sequence[TaskGroup], spec: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        """Begin an update: add `groups`, empty, whatever their count; `spec` replaces the job's.

        ``groups`` in `spec` lists the specs of all groups, including old ones. The update is ``rolling`` until
        `settle`: meanwhile `resize` moves tasks from old groups to new ones (schedulers/rolling.py). Refused when the
        job does not exist, has ended, or has too many groups.
        """


class OperatorStore(Queries, EndTasks, DrainDeadlines, JoinMachines, SetLimits, SetPools, Protocol):
    """The port of commands that change machines, limits and pools."""

    def set_durability(self, durability: Durability) -> None:
        """Change what a change needs before it is acknowledged; processes that have the cell open keep the old one.

        Raises Refused when too few replicas are connected, Unsuitable when the server does not sync as required.
        """

    def await_replicas(self) -> None:
        """Wait until replicas have all changes so far, where the cell requires it, also those of other clients.

        For a command that finds its change made. Raises NotReplicated.
        """

    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        """Change a machine's state; returns the number of requeued tasks.

        When a machine is set down or removed, its tasks are pending again at once. While its executor lives they are
        also leaving, until it acknowledges their end or its lease expires (semantics 23). Setting a machine up makes it
        offline while its executor does not live. BadInput for `OFFLINE`.
        """

    def set_machine_capacity(
        self, index: int, capacity: Sequence[int | None], at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Change a machine's capacity, with the evictions it needs; Refused when it would be over.

        None leaves an amount unchanged. The amounts given outlive the machine's executor (semantics 36).
        """

    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        """Change attributes of a machine; None removes one. Refused when there is no such machine.

        The change outlives the machine's executor (semantics 36).

        Where this moves the machine to another pool tree, the tasks of other trees on it are evicted.
        """

"""Calls of executors and of MapReduce workers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from omega.cellstate.health import HealthAnswer, HealthReport
from omega.cellstate.ports.parts import ClaimDirectories, Housekeeping, JoinMachines
from omega.cellstate.ports.queries import Queries
from omega.cellstate.replies import Heartbeat, Membership
from omega.cellstate.shards import Errand, Worker
from omega.cellstate.task_output import OutputPart
from omega.cellstate.task_progress import TaskProgress


class ShardStore(Queries, ClaimDirectories, Protocol):
    """The port of MapReduce workers."""

    def claim_shard(
        self, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int, near: Sequence[str] = ()
    ) -> Errand:  # fmt: skip
        """Return the next errand of a MapReduce worker; the same one until `end_shard`.

        `maps` and `reduces` are the numbers of shards, from the job's first worker; `at_ms` is the time of the store's
        clock. Failed shards come last, after a delay (`RETRY_MS`), and on another machine if there is one. `near`:
        disjoint sets of maps (ranges) that the worker takes, best first; without any, it takes all.
        """

    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
        failed_ms: int | None = None, level: int | None = None,
    ) -> bool:  # fmt: skip
        """Record that a worker finished its shard, or failed on it; False when the shard is no longer its own.

        `failed_ms`: time of the failure, by the store's clock. `level`: the level of a map's locality for the worker's
        machine, None for a map without one. When all shards are done, their mean durations are
        stored under the job's `name`.
        """


class ExecutorStore(Housekeeping, JoinMachines, Protocol):
    """The port of agents and simulated executors: lease, messages, ends of tasks."""

    def register_executor(self, executor: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register a simulated executor, and bring its offline machines up; Duplicate while another lives.

        A successor takes over the runs on its machines. `renew_executor` renews the lease; `deregister_executor` gives
        up the name and the machines.
        """

    def register_agent(self, agent: str, nonce: str, lease_ms: int, at_ms: int) -> Membership:
        """Register an agent for its machine; Duplicate while another lives, Refused for a machine of another executor.

        An agent presenting the recorded nonce continues its incarnation and its tasks.
        """

    def renew_executor(self, membership: Membership, lease_ms: int, machine: int | None) -> Heartbeat:
        """Renew an executor's lease and return its machine's runs; Fenced when the lease expired.

        HistoryCut, here and from `end`, `may_start` and `receive`, once the store is found to have lost versions that
        this object saw: what the executor runs may be other tasks of the cell. Register again.
        """

    def report_fitness(self, membership: Membership, machines: Sequence[int], reason: str, at_ms: int) -> None:
        """Record why an executor cannot start tasks, or that it can again (""); Fenced when its lease expired.

        Those of its machines that are up are unfit meanwhile: they take no claims and keep their tasks.
        """

    def confirm_runs(self, executor: str) -> None:
        """Record that an executor runs only tasks that the cell lists; after a cut new tasks wait for that."""

    def deregister_executor(self, membership: Membership, at_ms: int, by: str, *, reaped: bool = True) -> bool:
        """Requeue the tasks of an executor with an expired lease, or, not `reaped`, of one that leaves; idempotent.

        The machines become offline unless they are drained or down; the machine of an agent that leaves becomes gone.
        """

    def receive(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Read messages for an executor, oldest first; waits up to `wait_seconds` for the first one.

        A message stays in the store until this object calls again, which acknowledges the previous result. So a lost
        reply, and a reader that ends, lose nothing (semantics 25); another object reads unacknowledged messages again.

        ``+ placement machine job group tasks duration_ms hold`` starts tasks, ``- placement machine tasks`` ends them,
        ``!`` marks dropped messages: read everything; ``? …`` asks for output (cellstate/task_output.py). `most` is the
        number of calls whose messages are read, which come together.
        """

    def receive_lines(self, executor: int, most: int = 10_000, wait_seconds: float = 0) -> list[str]:
        """Read messages as `receive` does; placements of a job that follow one another may share a line.

        ``+ job group duration_ms hold placement`` is followed by machine and tasks of each. The first has
        this placement id, each further one the next. The last message of all may have more words behind ``!``.
        """

    def report_health(self, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
        """Keep what the health checks of a job's tasks on a machine found; grant the end of unhealthy ones.

        `now_ms` is the time of the store's clock. `cursor` is that of the answer before: each call removes some records
        of jobs that are no longer kept.
        """

    def report_progress(self, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
        """Keep how far the tasks of a job on a machine have come, in place of its report before; it expires."""

    def answer_output(self, name: str, part: OutputPart) -> None:
        """Answer a request for output (``? …`` in the mailbox) for the client that waits for it; it expires."""

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        """Store the last output of tasks, by job, group, task and stream; its size is bounded, and it expires."""

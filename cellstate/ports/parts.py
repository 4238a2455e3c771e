"""Operations that several callers have."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from omega.cellstate.digest.hours import Owner
from omega.cellstate.digest.values import DigestStep, Undigested
from omega.cellstate.model import Job, JobState, Limits, MachineSpec, TakeOver
from omega.cellstate.pools import Pools
from omega.cellstate.ports.queries import Queries
from omega.cellstate.replies import Housekept
from omega.cellstate.task_ends import TaskEnd


class EndTasks(Protocol):
    """Ends of tasks, reported by executors, or caused by operators and housekeeping."""

    def end(self, endings: Sequence[TaskEnd], at_ms: int, by: str) -> list[int]:
        """End tasks; returns for each ending the number of tasks it ended."""


class ClaimDirectories(Protocol):
    """Output directories of MapReduce jobs, claimed at submission and by the first worker."""

    def claim_directory(self, path: str, job_id: str, *, expire_ms: int) -> str | None:
        """Claim a directory for a job for `expire_ms`, or give it up with 0; return the id of the live job that has it.

        A job has a directory with all that is in it. None: it is the job's now. A job that has ended has none. The
        claim of a job that is not stored holds for `UNSENT_MS`, the time that its submission may take.
        """

    def directories(self) -> dict[str, str]:
        """Return the claimed directories and the ids of their jobs, which may have ended."""


class ClaimJobs(Protocol):
    """Jobs that may go to one of several cells: one of these cells holds the decision about each."""

    def claim_jobs(self, ids: Sequence[str], name: str, *, expire_ms: int) -> list[str]:
        """Decide that jobs go to the cell `name`; return the cell of each, another one if that was decided before.

        A decision ends after `expire_ms` milliseconds by the server's clock.
        """


class JoinMachines(Protocol):
    """Machines enter a cell: with their executor, or added by an operator."""

    def join(self, executor: str, machines: Sequence[MachineSpec], at_ms: int) -> list[int]:
        """Add machines, or bring them back; returns their indices.

        They are up when their executor lives, else offline. Refused while one has tasks of another executor. A machine
        that came back with other attributes may be in another pool tree, as after `set_machine_attributes`.
        What operators set of a machine stays: its state, amounts and attributes (semantics 36).
        """


class StopJobs(Protocol):
    """Jobs are stopped by users, and abandoned by schedulers."""

    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        """Stop or abandon a job: unplaced tasks end now, running ones by `housekeep`; Refused for an unknown job.

        With `keep` the running tasks of an abandoned job continue until it is stopped.

        `check`, here and below, is the modify index the caller read: Overtaken when it changed since. A change that is
        already in effect changes nothing, whatever the index.
        """


class ChangeTotals(Protocol):
    """Totals of task groups change: by users, by steps of an update, by elastic jobs."""

    def resize(  # noqa: PLR0913, PLR0917 - what it was decided on, and what it changes
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
        seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
        spec: Mapping[str, Any] | None = None, takes: Mapping[int, TakeOver] | None = None,
    ) -> Job:  # fmt: skip
        """Set the totals of task groups by position, 0 or more (semantics 4); returns the job afterwards.

        Added tasks are pending, with the next indices, which no task of the group had before. Pending tasks are removed
        first, highest index first, then running ones, newest index first: they are stopped (their executor receives
        ``-``), stay as leaving until their end is acknowledged, and are no longer counted. Totals are absolute, so
        repeating the call changes nothing; several groups in one call move tasks between them atomically. The store
        drops tasks of an optional group (`TaskGroup.optional`) when they are evicted, lost or failed: its total falls
        and nothing becomes pending; call `resize` to add more. Only `total` and `unplaced` of the result, not `placed`,
        give the new size; a job with only empty groups is done. Refused when the job or a group does not exist, the job
        has ended, or more tasks have ended than `totals` allows.

        Programs pass `seen`, the totals by group that they decided on: Overtaken when one of them changed. The job's
        modify index, which marks changes by people, then stays. With `placed`, the placed tasks by group that they
        decided on, it is Overtaken when these changed as well, also those of groups that are not in `totals`. `spec`
        replaces the job's in the same call. `takes`: groups whose added tasks are not the next ones, see `TakeOver`.
        """


class NotifySchedulers(Protocol):
    """Notification of schedulers: of room that is freed and of work that is added."""

    def may_wake(self, members: Iterable[str]) -> None:
        """Set the live schedulers, which later calls notify."""

    def read_live_schedulers(self) -> None:
        """Read the live schedulers, which later calls notify."""

    def rouse(self, member: str) -> None:
        """Notify a waiting scheduler without new work."""


class SetLimits(Protocol):
    """Limits on jobs: set by operators, with commands or from Python."""

    def set_limits(self, kind: str, limits: Limits, at_ms: int, by: str) -> None:
        """Set the limits on all jobs of a kind together."""


class DrainDeadlines(Protocol):
    """Deadlines of drained machines: set by operators, forgotten by housekeeping."""

    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        """Set the time (ms from now) at which a drained machine's tasks are evicted; None removes it."""


class SetPools(Protocol):
    """Changing pools."""

    def set_pools(self, pools: Pools, check: int | None, at_ms: int, by: str) -> Pools:
        """Replace the pools of the cell; returns them with their numbers and their version.

        With `check` None whatever their version is, and also when the record cannot be read.

        `check` is the version of the pools that the caller read: Overtaken when they were modified since. Refused when
        a pool with live jobs would be removed or get pools below it; BadInput for pools that break a rule of
        pools/rules.py. A pool that moves takes its running tasks along: its use counts below its new ancestors at once,
        and an ancestor above its limit takes nothing until the limit is met again. Equal pools change nothing.

        Tasks on machines of another tree than that of their pool are evicted (`AssignTrees`).
        """


class AssignTrees(Protocol):
    """The pool trees of machines, where trees divide them."""

    def assign_trees(self, at_ms: int, by: str) -> int:
        """Assign the machines that are in no tree yet, and evict tasks of other trees; returns their number.

        A machine without an assigned tree takes no tasks. `join`, `set_machine_attributes` and `set_pools` leave
        machines so, then call this; a live process of the cell calls it for a caller that died in between.
        """


class Housekeeping(Queries, EndTasks, DrainDeadlines, AssignTrees, NotifySchedulers, Protocol):
    """What any live scheduler or agent does for the whole cell."""

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

        Any live scheduler calls it, repeatedly while more is due.
        """

    def undigested(self, most: int) -> Undigested:
        """Return the position of the digest and the next entries of the log, at most `most` (cellstate/digest)."""

    def digest(self, step: DigestStep) -> bool:
        """Write a step of the digest; returns False, with nothing changed, if it is not the next one any more."""

    def owners(self, ids: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """Return user and pool of those of some jobs that have a specification."""

    def held(self) -> tuple[int, Mapping[Owner, tuple[int, ...]]]:
        """Return the version of the cell, and what the placed tasks of each account hold at that version."""

    def retire(self, now_ms: int, most: int = 1_000) -> int:
        """Delete finished jobs older than the cell keeps them, at most `most`; returns their number.

        `now_ms` is the server's clock (`Session.store_ms`), never a client's (semantics 30).
        """

    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        """Requeue the tasks of executors with expired leases; return their names. Any process may call it.

        Not within one lease of a start of the store: after an outage every lease has expired (semantics 17).
        """

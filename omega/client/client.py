"""`omega.Client`: submit, list, explain, change and follow jobs of a cell from Python."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from omega import changes, submission
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import BadInput
from omega.client.arguments import known, place, positive
from omega.client.cell_calls import CellCalls
from omega.client.connections import Connections, DryConnections
from omega.client.defaults import account_name, author
from omega.client.dry_runs import DryRuns
from omega.client.given_jobs import GivenJobs, JobLike, given_jobs
from omega.client.lost_jobs import Submissions
from omega.client.machine_calls import MachineCalls
from omega.client.pool_calls import PoolCalls
from omega.client.settings import named_cell, named_store
from omega.client.task_records import TaskRecords
from omega.client.together import Submission, submit_together
from omega.client.updates import Updates
from omega.client.waits import Waits
from omega.live import waiting
from omega.queries import cells, event_list, events, explanations, jobs, plans
from omega.queries.job_fields import KindFields
from omega.queries.job_status import JobStatus

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.redis import RedisCell
    from omega.client.any_cell import ManyCells
    from omega.many_cells.policy import CellPolicy
    from omega.queries.pool_standing import PoolsRead

Document: TypeAlias = dict[str, Any]
"""The document that the command of the same name prints with ``--json``."""
POLL_SECONDS = 0.2


class Client(CellCalls, MachineCalls, PoolCalls, Updates, DryRuns, TaskRecords, Waits):
    """One cell of a store.

    Threads may share a client: each call has a connection for itself. Every call returns the JSON document of the
    command of the same name as plain values, and raises the errors of `omega.OmegaError` that the command prints.
    """

    def __init__(
        self,
        store: str | None = None,
        cell: str | None = None,
        *,
        store_file: str | os.PathLike[str] | None = None,
        user: str | None = None,
    ) -> None:
        """Name a store, by its URL or by a file that holds it, and a cell; nothing is opened before the first call.

        Without `store` and `store_file`: OMEGA_STORE, else the URL in the file OMEGA_STORE_FILE, else the embedded
        store, which is started when it does not run. Without `cell`: OMEGA_CELL, else ``default``, else the only cell.
        ``any`` or ``a,b``: several cells, for `submit`, `jobs` and `status`; others need the cell that they return.
        Without `user`: OMEGA_USER, else the account's name. Raises BadInput for a file that others can read or replace.
        """
        file = None if store_file is None else os.fspath(store_file)
        self._connections = Connections(named_store(store, file), named_cell(cell))
        self.user = user or account_name()
        self._by = author(self.user)
        self._submissions = Submissions()

    def as_user(self, user: str) -> "Client":
        """Return a client for another user that shares this one's connections; this one closes them."""
        other = copy(self)
        other.user, other._by, other._submissions = user, author(user), Submissions()  # noqa: SLF001 - its own class
        return other

    def dry_run(self) -> "Client":
        """Return a client whose changes are refused and answered as ever, and change nothing; this one closes it.

        A job or pool that would be changed keeps its modify index or version in the answer; a job that would be
        submitted has None as ``modify_index``, and as ``id`` unless its id is known before.
        """
        other = copy(self)
        other._connections, other._submissions = DryConnections(self._connections), Submissions()  # noqa: SLF001 - its own class
        return other

    @property
    def _many(self) -> "ManyCells":
        from omega.client.any_cell import ManyCells

        return ManyCells(self._connections, now_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; calls in progress end first."""
        self._connections.close()

    @property
    def unreadable(self) -> Mapping[tuple[str, str], str]:
        """Records that answers left out because they cannot be read: (key, field), and why."""
        return self._connections.unreadable

    # Jobs

    def submit(
        self, *jobs: JobLike, hold: bool = False, cells_policy: "str | CellPolicy | None" = None, new: bool = False,
        next_id: Callable[[], str] = submission.new_id,
    ) -> Document:  # fmt: skip
        """Submit jobs; those of a client of several cells to the best one each. See ``omega job submit``.

        All jobs are checked first: none is submitted when one is invalid or a live job has its name. They are then sent
        500 per call, each an atomic change. When a call fails, or refuses a job because another client took its name
        since the check, the jobs of earlier calls, and the others of this one, stay submitted. A job with an id that is
        submitted again unchanged has the status ``unchanged``, so that a submission may be repeated after an error.
        `cells_policy` chooses among several cells, by its name or as an object (docs/many-cells.md). With `new` none of
        the jobs may exist (Overtaken). `next_id` returns the id of each job that has none.

        Raises BadInput, Duplicate, Refused, StoreError.
        """
        if self._connections.several is not None:
            if self._connections.dry:
                raise BadInput("a dry run takes one cell; name it")
            return self._many.submit(jobs, self.user, self._by, cells_policy, hold=hold)
        one = Submission(jobs, hold, new, next_id)
        self.submit_together([one])
        return one.result()

    def submit_together(self, submissions: Sequence[Submission]) -> None:
        """Submit the jobs of several callers in as few calls as possible, and set the answer or error of each.

        Raises StoreError when the store fails; then some submissions may have taken effect.
        """
        with self._connections.cell() as cell:
            submit_together(cell, submissions, self._submissions, user=self.user, by=self._by)

    def plan(self, *jobs: JobLike, scored: bool = False) -> Document:
        """Return where the tasks of jobs would be placed if they were submitted now; nothing is submitted."""
        with self._connections.cell() as cell:
            given = self._prepared(cell, jobs)
            submission.check_pools(cell, given.specs)
            document = plans.plan_jobs(cell, given.specs, scored=scored)[1]
            return document | {"warnings": given.warnings + document["warnings"]}

    def jobs(
        self,
        *,
        kind: str | None = None,
        state: str | None = None,
        user: str | None = None,
        limit: int | None = None,
        before: int | str | None = None,
    ) -> Document:
        """Return a page of jobs: the `limit` newest (None: all) of a kind, in a state, of a user.

        ``next`` of the answer is the `before` of the next page, None on the last one. See ``omega job list``.
        """
        known("state", state, jobs.STATES)
        if self._connections.several is not None:
            return self._many.jobs(jobs.keep(kind, state), user, limit, before)
        positive(limit=limit)
        first = place(before)
        with self._connections.cell() as cell:
            page = cell.jobs.page(limit, first, jobs.keep(kind, state), user)
            return jobs.list_jobs(cell, page, now_ms())

    def status(self, job: str, *, brief: bool = False) -> Document:
        """Return a job with its groups, runs, history and update; `job` as commands take it: id, prefix or name.

        With `brief` the reason why it is pending and its fair share, which depend on the whole cell, are None.
        """
        if self._connections.several is not None:
            return self._many.status(job)
        with self._connections.cell() as cell:
            return JobStatus(cell, self._find(cell, job), brief=brief).as_json(now_ms())

    def why(self, job: str, *, machine: str | None = None, pools: "PoolsRead | None" = None) -> Document:
        """Return why a job is pending: what each of its demands excludes, and what would help. See ``omega job why``.

        With `machine`, each demand is checked on that machine instead. `pools`: what was read of the pools already.
        """
        with self._connections.cell() as cell:
            record = self._find(cell, job)
            if machine is not None:
                return explanations.explain_machine(cell, record, machine) | cells.writes_json(cell)
            return explanations.explain_job(cell, record, pools=pools) | cells.writes_json(cell)

    def logs(
        self, job: str, task: int = 0, *, index: int | None = None, group: str | None = None,
        generation: int | None = None, stream: str = "stdout", tail: int | None = None, placement: int = 0,
    ) -> Document:  # fmt: skip
        """Return the output of a task as ``text``: from its files on this computer, else from its agent, else the end
        of it in the store; ``missing`` says what is not there, and why.

        `group` is the name of a task group (None: the first), `generation` counts the updates that replaced its tasks
        (None: the newest), `stream` stdout or stderr, `tail` a number of lines. `index` is the index of
        the task in its array, instead of its number `task`. `placement` is an earlier placement (-1: the one before the
        newest).
        """
        from omega.live.task_log import TaskLog

        known("stream", stream, ("stdout", "stderr"))
        with self._connections.cell() as cell:
            return TaskLog.of(
                cell, self._find(cell, job), task, group, stream, generation, index, placement=placement
            ).as_json(tail)

    def stop(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """Stop jobs and end their tasks. `check` is the modify index of the only job; Overtaken when it is another."""
        with self._connections.cell() as cell:
            records = self._found(cell, jobs, check, force=force)
            stopped = {job.id: cell.jobs.stop(job.id, now_ms(), self._by, check=check) for job in records}
            answers = []
            for job in records:
                self._submissions.forget(job.id)
                count = sum(changes.end(cell, stopped[job.id], now_ms, self._by))
                after = stopped[job.id] if cell.dry else cell.jobs.get(job.id) or job
                answers.append(changes.stopped_json(job, changes.answered(cell, job, after), count))
            return {"cell": cell.name, "jobs": answers}

    def hold(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """Give jobs no new placements until they are released; running tasks continue."""
        return self._change(
            jobs, check, lambda cell, job: cell.jobs.hold(job.id, now_ms(), self._by, check), force=force
        )

    def release(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """Undo `hold`."""
        return self._change(
            jobs, check, lambda cell, job: cell.jobs.release(job.id, now_ms(), self._by, check), force=force
        )

    def resize(
        self, job: str, count: int, *, group: str | None = None, check: int | None = None, force: bool = False
    ) -> Document:
        """Give a task group (by name; None: the only one) another number of tasks."""

        def change(cell: "RedisCell", record: "Job") -> "Job":
            return changes.resize(cell, record, group, count, now_ms(), self._by, check)

        return self._change([job], check, change, force=force)

    def set_weight(self, job: str, weight: float, *, check: int | None = None, force: bool = False) -> Document:
        """Change the weight of a job among the jobs of its pool. See ``omega job weight``."""
        return self._change(
            [job],
            check,
            lambda cell, record: changes.set_weight(cell, record, weight, now_ms(), self._by, check),
            force=force,
        )

    def _prepared(self, cell: "RedisCell", jobs: Sequence[JobLike]) -> GivenJobs:
        """Return jobs as they are submitted, after a check that no live job has one of their names."""
        fields = KindFields(cell)
        given = given_jobs(cell, jobs, fields)
        specs = submission.prepared(cell, given.specs, self.user, fields)
        submission.check_names(cell, specs)
        return replace(given, specs=specs)

    def _found(self, cell: "RedisCell", asked: Sequence[str], check: int | None, *, force: bool) -> "list[Job]":
        if check is not None and len(asked) != 1:
            raise BadInput("check is the modify index of one job; name one")
        cell.schedulers.members()
        records = {job.id: job for job in (self._find(cell, name, jobs.job_to_change) for name in asked)}
        changes.check_owner(self.user, cell, records.values(), force=force)
        for record in records.values():
            changes.check_index(cell, record, check)
        return list(records.values())

    def _change(
        self, asked: Sequence[str], check: int | None, make: "Callable[[RedisCell, Job], Job]", *, force: bool
    ) -> Document:
        with self._connections.cell() as cell:
            answers = [(job, make(cell, job)) for job in self._found(cell, asked, check, force=force)]
            rows = [changes.change_json(job, changes.answered(cell, job, after)) for job, after in answers]
            return {"cell": cell.name, "jobs": rows}

    # Events

    def events(
        self,
        after: int | None = None,
        *,
        kinds: Sequence[str] = (),
        job: str | None = None,
        follow: bool = False,
        retry: float = waiting.RETRY_SECONDS,
    ) -> Iterator[Document]:
        """Return the events of the log, oldest first, of versions above `after` (None: all that the log has).

        To resume, pass the ``version`` of the last event that was handled, after all events of that version: several
        may have the same. Versions that the log no longer has are one ``{"gap": {"from", "to"}}``, versions that the
        store lost after they were read one ``{"lost": {"from", "to"}}``. With `follow` it continues with new events
        without end, and begins now unless `after` is given. While the store does not answer, for example because it is
        restarted, reads are repeated for at most `retry` seconds at a time; then they raise Unreachable.
        """
        outage = waiting.Outage(retry)
        step = outage.survive(lambda: self.begin_events(after, kinds=kinds, job=job, follow=follow))
        return _events(lambda: outage.survive(step), follow=follow)

    def begin_events(
        self, after: int | None, *, kinds: Sequence[str] = (), job: str | None = None, follow: bool = False
    ) -> Callable[[], tuple[list[Document], bool]]:
        """Return a function that returns the next events, and whether none are left."""
        for kind in kinds:
            known("kind", events.current_kind(kind), events.KINDS)
        with self._connections.cell() as cell:
            wanted = event_list.Filter(frozenset(map(events.current_kind, kinds)), job and event_list.job_id(cell, job))
            tail = event_list.Tail(cell, after, wanted, newest=follow)

        def step() -> tuple[list[Document], bool]:
            with self._connections.cell() as cell:
                entries, at_end = tail.read(cell)
                return event_list.listed_json(cell, entries), at_end

        return step


def _events(step: Callable[[], tuple[list[Document], bool]], *, follow: bool) -> Iterator[Document]:
    while True:
        entries, at_end = step()
        yield from entries
        if at_end and not follow:
            return
        if at_end:
            time.sleep(POLL_SECONDS)

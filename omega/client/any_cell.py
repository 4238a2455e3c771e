"""Calls of a client for several cells: ``omega.Client(cell="any")`` or ``omega.Client(cell="a,b")``."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from omega import submission
from omega.cellstate.errors import BadInput
from omega.client.given_jobs import JobLike, given_jobs
from omega.many_cells.lists import find_anywhere, job_pages, list_all, read_position
from omega.many_cells.opened import opened
from omega.many_cells.policy import CellPolicy, cell_policy
from omega.many_cells.submission import AnyCell
from omega.queries.job_fields import KindFields
from omega.queries.job_status import JobStatus

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.pages import Keep
    from omega.cellstate.redis import RedisCell
    from omega.client.connections import Connections


class ManyCells:
    """The cells that a client names."""

    def __init__(self, connections: "Connections", now_ms: Callable[[], int]) -> None:
        """Open them for one call each time."""
        self._connections, self.now_ms = connections, now_ms

    def submit(
        self, jobs: Sequence[JobLike], user: str, by: str, policy: str | CellPolicy | None, *, hold: bool
    ) -> dict[str, Any]:  # fmt: skip
        """Submit each job to the best cell. Raises BadInput, Duplicate, Refused, StoreError."""
        held, said = list[bool](), dict[str, None]()

        def read(cell: "RedisCell", next_id: Callable[[], str]) -> "list[JobSpec]":
            fields = KindFields(cell)
            given = given_jobs(cell, jobs, fields, next_id)
            held.append(given.hold)
            said.update(dict.fromkeys(given.warnings))
            return submission.prepared(cell, given.specs, user, fields)

        chosen = policy if policy is not None and not isinstance(policy, str) else cell_policy(policy)
        again = list["RedisCell"]()

        def reopen(name: str) -> "RedisCell":
            again.append(self._connections.open(name))
            again[-1].schedulers.members()
            return again[-1]

        with opened(self._connections.url, self._names) as found:
            found.check_some()
            any_cell = AnyCell(found, chosen, self.now_ms, by)
            sending = any_cell.prepare(read)
            try:
                for _ in any_cell.send(sending, reopen, hold=hold or any(held)):
                    pass
            finally:
                for each in again:
                    each.close()
            rows = [job.as_json() for job in sending]
            warnings = [*said, *any_cell.warnings]
            return {"cells": sorted(found.cells), "skipped": found.skipped, "jobs": rows, "warnings": warnings}

    def jobs(
        self, keep: "Keep | None", user: str | None, limit: int | None, before: int | str | None
    ) -> dict[str, Any]:
        """Return a page of the jobs of all cells; ``next`` of the answer is the `before` of the next page."""
        if isinstance(before, int):
            raise BadInput("before: of several cells it is the text next of the page before")
        with opened(self._connections.url, self._names) as found:
            found.check_some()
            return list_all(found, *job_pages(found, limit, read_position(before), keep, user), self.now_ms())

    def status(self, job: str) -> dict[str, Any]:
        """Return a job wherever it is. Raises Refused when no cell has it, or several have."""
        with opened(self._connections.url, self._names) as found:
            return JobStatus(*find_anywhere(found, job)).as_json(self.now_ms())

    @property
    def _names(self) -> Sequence[str]:
        return self._connections.several or ()

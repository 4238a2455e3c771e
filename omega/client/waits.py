"""Waiting for jobs, also for those that the store lost meanwhile, for `omega.Client`."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omega.cellstate.clock import now_ms
from omega.cellstate.errors import Refused
from omega.live import waiting
from omega.queries.job_state import gone
from omega.queries.jobs import find_job

if TYPE_CHECKING:
    from omega.cellstate.model import Job, JobSpec
    from omega.cellstate.redis import RedisCell
    from omega.client.connections import Connections
    from omega.client.lost_jobs import Submissions

Document = dict[str, Any]


REPORT_SECONDS = 10.0
"""Time that a client waits for the report of a loss: agents and schedulers make it when they connect again."""


def submitted_again(kept: "Submissions", cell: "RedisCell", now_ms: Callable[[], int], by: str) -> "list[JobSpec]":
    """Submit the kept jobs that the store lost, as `Submissions.again`; wait for the report of a loss if need be."""
    until = time.monotonic() + REPORT_SECONDS
    while True:
        lost = kept.again(cell, now_ms, by)
        if lost or time.monotonic() >= until or not kept.unreported(cell):
            return lost
        time.sleep(waiting.LONGEST_PAUSE)


class Waits:
    """The method of a client that waits."""

    _connections: "Connections"
    _by: str
    _submissions: "Submissions"

    def wait(self, job: str, timeout: float | None = None, *, retry: float = waiting.RETRY_SECONDS) -> Document:
        """Wait until a job has ended, at most `timeout` seconds, then with ``timed_out``. See ``omega job wait``.

        While the store does not answer, for example because it is restarted, the call is repeated for at most `retry`
        seconds at a time; then it raises Unreachable.

        If the store lost the job in a failover, and this client submitted it, the client submits it again by the same
        id, together with its other lost jobs; ``submitted_again`` of the answer is their number. Otherwise it raises
        JobLost (docs/failover.md).
        """
        began, asked, again = time.monotonic(), job, 0

        def once() -> Document:
            nonlocal asked, again
            while True:
                with self._connections.cell() as cell:
                    try:
                        record = self._find(cell, asked)
                        asked = record.id
                        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
                        last = waiting.watch(cell, [record.id], lambda _: None, left, outage)[0]
                    except Refused:
                        if not (jobs := submitted_again(self._submissions, cell, now_ms, self._by)):
                            raise
                        again += len(jobs)
                        continue
                    if gone(last):
                        self._submissions.forget(last.id)
                    return waiting.waited_json(cell, last, time.monotonic() - began, again)

        outage = waiting.Outage(retry, timeout)
        return outage.survive(once)

    def _find(self, cell: "RedisCell", asked: str, find: "Callable[[RedisCell, str], Job]" = find_job) -> "Job":
        """Return a job by id, name or prefix; JobLost when the store lost it and this client submitted it."""
        try:
            return find(cell, asked)
        except Refused:
            self._submissions.check(cell, asked)
            raise

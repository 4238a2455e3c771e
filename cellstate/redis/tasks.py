"""What agents report of tasks to a server: health, progress and output."""

from collections.abc import Mapping, Sequence

from omega.cellstate.redis.part import Part
from omega.cellstate.redis.records import read_health
from omega.cellstate.tasks import (
    ANSWER_MS,
    MOST_ASKED,
    STREAM,
    HealthAnswer,
    HealthReport,
    OutputPart,
    OutputRequest,
    TaskProgress,
    pack_progress,
    unpack_progress,
)

TAILS, TAIL_MS = 1_000, 24 * 3600 * 1000
"""Maximum number of outputs kept, and time after the newest at which they, and reports of progress, expire (ms)."""


class RedisTasks(Part):
    """Health, progress and output of tasks."""

    def report_health(self, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
        """Keep what the health checks of a job's tasks on a machine found; grant the end of unhealthy ones.

        `now_ms` is the time of the store's clock. `cursor` is that of the answer before: each call removes some records
        of jobs that are no longer kept.
        """
        values = {
            "dims": len(self._calls.dimensions), "job": report.job, "machine": report.machine,
            "max_down": report.max_down, "now": now_ms, "until_ms": now_ms + report.span_ms, "cursor": cursor,
        }  # fmt: skip
        tasks = [f"{placement} {task} {state}" for placement, task, state in report.tasks]
        _, after, *granted = self._calls.run("health", values, tasks)
        pairs = (each.decode().split(" ") for each in granted)
        return HealthAnswer(frozenset((int(placement), int(task)) for placement, task in pairs), int(after))

    def ready(self, job_id: str) -> frozenset[tuple[int, int]]:
        """Return the tasks of a job, (placement, index), whose readiness command passed (`report_health`)."""
        return frozenset((placement, task) for _, placement, task, due in self._health(job_id) if not due)

    def unsteady(self, job_id: str) -> frozenset[tuple[int, int]]:
        """Return the tasks of a job, (placement, index), that are down, or whose end was granted (`report_health`)."""
        return frozenset((placement, task) for _, placement, task, due in self._health(job_id) if due)

    def _health(self, job_id: str) -> tuple[tuple[int, ...], ...]:
        ((_, text),) = self._calls.fields("health", [job_id])
        return self._calls.record("health", job_id, read_health, text or b"") or ()

    def report_progress(self, job_id: str, machine: int, tasks: Sequence[TaskProgress]) -> None:
        """Keep how far the tasks of a job on a machine have come, in place of its report before; it expires."""
        values = {"machine": machine, "text": pack_progress(tasks), "expire_ms": TAIL_MS}
        self._calls.run("progress", values, own={"progress": f"progress:{job_id}"})

    def reported_progress(self, job_id: str, machines: Sequence[int]) -> dict[int, list[TaskProgress]]:
        """Return how far the tasks of a job on some machines have come, by machine, as far as they report it."""
        key = f"progress:{job_id}"
        known = ((b"%d" % machine, record) for machine, record in self._calls.fields(key, machines) if record)
        return {int(machine): tasks for machine, tasks in self._calls.readable(key, known, unpack_progress)}

    def request_output(self, executor: int, request: OutputRequest) -> bool:
        """Ask an agent, by the number of its mailbox, for output of a task; `output_part` returns the answer.

        Returns False when its mailbox has too many messages: the agent does not read it, or has enough to do.
        """
        values = {"most": MOST_ASKED, "message": request.message()}
        return bool(self._calls.run("request_output", values, own={"box": f"box:{executor}"})[0] == b"ok")

    def answer_output(self, name: str, part: OutputPart) -> None:
        """Answer a request for output (``? …`` in the mailbox) for the client that waits for it; it expires."""
        values = {"text": part.pack(), "expire_ms": ANSWER_MS}
        self._calls.run("answer_output", values, own={"answer": f"answer:{name}"})

    def output_part(self, name: str) -> OutputPart | None:
        """Return the answer to the request of this name; None while there is none, or when it expired."""
        answer = self._calls.command(self._calls.client.get, f"{self._calls.prefix}answer:{name}")
        return self._calls.record("answer", name, OutputPart.unpack, answer) if answer is not None else None

    def keep_tails(self, tails: Mapping[tuple[str, int, int, str], bytes]) -> None:
        """Store the last output of tasks, by job, group, task and stream; its size is bounded, and it expires."""
        rest: list[object] = []
        for field, text in tails.items():
            rest += [" ".join(map(str, field)), text]
        if rest:
            self._calls.run("tail", {"most": TAILS, "expire_ms": TAIL_MS}, rest)

    def tail(self, job: str, group: int, task: int, stream: str) -> bytes | None:
        """Return the last output of a task, if there is any."""
        ((_, output),) = self._calls.fields("output", [f"{job} {group} {task} {stream}"])
        return output

    def measured(self, job: str) -> list[bytes]:
        """Return what agents measured of a job's ended tasks, a record for each group and machine (`measured`)."""
        key, pattern = self._calls.prefix + "output", f"{job} * {STREAM}"
        outputs = self._calls.command(lambda: dict(self._calls.client.hscan_iter(key, match=pattern, count=TAILS)))
        return [outputs[field] for field in sorted(outputs)]

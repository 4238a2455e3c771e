"""Jobs of a cell on a server: submitted, held, resized, stopped."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput
from omega.cellstate.lanes import lane_of
from omega.cellstate.logged_settings import jobs_text, update_text
from omega.cellstate.model import (
    MOST_CLAIMS,
    MOST_GROUPS,
    MOST_STOPS,
    NOTHING_TAKEN,
    Job,
    JobSpec,
    JobState,
    TakeOver,
    TaskGroup,
    aims,
    refusal,
    runs_commands,
)
from omega.cellstate.override import override
from omega.cellstate.plain_text import check_texts, plain_reason
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.link import confirm
from omega.cellstate.redis.reads import RedisPages
from omega.cellstate.redis.scripts import AT_ONCE
from omega.cellstate.replies import Budget, Original, Submitted
from omega.cellstate.resources import LARGEST_COUNT
from omega.cellstate.transaction import Position


class RedisJobs(RedisPages):
    """What people do with jobs; see `Cell` for the methods of the port."""

    @override
    def tasks_by_machine(self, job_id: str) -> dict[int, int]:
        job, tasks = self.jobs_by_id([job_id]).get(job_id), Counter[int]()
        machines = {machine for group in job.groups for _, machine, leaving in group.runs if not leaving} if job else ()
        for run in self.runs(sorted(machines)):
            if run.job == job_id and not run.leaving:
                tasks[run.machine] += ranges.count(run.tasks)
        return dict(tasks)

    @override
    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        rest: list[object] = []
        for job in jobs:
            job.check_numbers()
            for group in job.groups:
                self._check(f"job {job.name}", group.need)
            record, spec = job_records.new_job(job, at_ms, by, held=held)
            rest += [job.id, record, str(lane_of(job.kind, job.precedence, job.spec)), spec]
        kinds = {f"pending:{job.kind}" for job in jobs}
        values = {**self._values(at_ms, by), "settings": jobs_text(jobs)}
        reply = self._run("submit", values, rest, extra=kinds | self._wakes())
        answers = []
        for job, answer in zip(jobs, reply[2:], strict=True):
            status, _, word = answer.decode().partition(" ")
            known = int(word or reply[1]) if status in ("new", "same") else 0
            word = unquote(word) if status in ("pool", "user") else word
            answers.append(Submitted(job.id, status, "" if known else word, known))
        if any(answer.status == "new" for answer in answers):
            self._see(Position(int(reply[1]), str(values["tag"])))
        return answers

    @override
    def claim_jobs(self, ids: Sequence[str], name: str, *, expire_ms: int) -> list[str]:
        with self.client.pipeline(transaction=False) as pipe:
            for key in (f"{self._prefix}chosen:{job_id}" for job_id in ids):
                pipe.set(key, name, nx=True, px=expire_ms)
                pipe.get(key)
            answers = self._command(pipe.execute)
        self._command(confirm, self.client, self.name, self.durability)
        return [name if cell is None else cell.decode() for cell in answers[1::2]]

    @override
    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        return self._alter("stop", job_id, at_ms, by, check, {"state": int(state), "keep": int(keep)})

    @override
    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        return self._alter("hold", job_id, at_ms, by, check, {"action": "hold", "reason": ""})

    @override
    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        return self._alter("hold", job_id, at_ms, by, check, {"action": "release", "reason": ""})

    @override
    def gate(self, job_id: str, reason: str, at_ms: int, by: str) -> Job:
        said = plain_reason(reason)
        return self._alter("hold", job_id, at_ms, by, None, {"action": "gate" if said else "pass", "reason": said})

    @override
    def resize(  # noqa: PLR0913, PLR0917 - the port's
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
        seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
        spec: Mapping[str, Any] | None = None, takes: Mapping[int, TakeOver] | None = None,
    ) -> Job:  # fmt: skip
        # As many calls as it takes to stop running tasks MOST_STOPS at a time.
        if any(number < 0 or not 0 <= total <= LARGEST_COUNT for number, total in totals.items()):
            raise BadInput(f"job {job_id}: a group's tasks are from 0 to {LARGEST_COUNT}")
        more: dict[str, object] = {"step": int(seen is not None), "most": MOST_CLAIMS, "stops": MOST_STOPS}
        more["spec"] = b"" if spec is None else records.pack(dict(spec))
        while True:
            groups = [
                f"{number} {totals.get(number, '-')} {(seen or {}).get(number, '-')} {(placed or {}).get(number, '-')} "
                f"{(takes or {}).get(number, NOTHING_TAKEN).text()}"
                for number in {**totals, **(placed or {})}
            ]
            job = self._alter("resize", job_id, at_ms, by, check, more, groups)
            if self.dry or all(job.groups[number].total == total for number, total in totals.items()):
                return job
            check = seen = placed = None

    @override
    def update(
        self, job_id: str, groups: Sequence[TaskGroup], spec: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        check_texts(spec, f"job {job_id}")
        for group in groups:
            self._check(f"job {job_id}", group.need)
        texts = [job_records.new_group(group) for group in groups]
        commands = int(runs_commands(spec))
        whose = str(lane_of("", 0, spec)).rpartition(" ")[2]
        current = aims(spec)
        named = "-" if current is None else f",{','.join(map(str, current))},"
        more: dict[str, object] = {"most": MOST_GROUPS, "commands": commands, "whose": whose, "current": named}
        more["spec"] = records.pack(dict(spec))
        more["settings"] = update_text(job_id, groups)
        return self._alter("update", job_id, at_ms, by, check, more, texts)

    @override
    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        values = {**self._values(at_ms, by), "job": job_id, "reason": " ".join(reason.split())}
        return bool(self._run("settle", values)[1])

    @override
    def speculate(
        self, job_id: str, originals: Sequence[Original], budget: Budget, at_ms: int, by: str
    ) -> list[Original]:
        values = {**self._values(at_ms, by), "job": job_id, "most": budget.job, "cell_most": budget.cell}
        asked = [f"{machine} {placement} {task}" for machine, placement, task in originals]
        return [originals[int(place) - 1] for place in self._run("speculate", values, asked, extra=self._hints())[1:]]

    @override
    def copied_jobs(self, kind: str) -> list[str]:
        return sorted(job_id.decode() for job_id, of in self._hash("copied").items() if of == kind.encode())

    @override
    def note_attempts(self, jobs: Sequence[str], at_ms: int, by: str) -> int:
        parts = [jobs[start : start + AT_ONCE] for start in range(0, len(jobs), AT_ONCE)]
        return sum(int(self._run("attempt", self._values(at_ms, by), part)[1]) for part in parts)

    @override
    def retire(self, now_ms: int, most: int = 1_000) -> int:
        return int(self._run("retire", {"now": now_ms, "most": most})[0])

    @override
    def updates(self) -> dict[str, str]:
        return {job_id.decode(): state.decode() for job_id, state in sorted(self._hash("updates").items())}

    @override
    def update_state(self, job_id: str) -> str:
        state: bytes = self._command(self.client.hget, self._prefix + "updates", job_id) or b""
        return state.decode()

    def _alter(
        self, name: str, job_id: str, at_ms: int, by: str, check: int | None, more: Mapping[str, object],
        rest: Sequence[object] = (),
    ) -> Job:  # fmt: skip
        """Run a script that changes a job; returns its record afterwards."""
        values = {**self._values(at_ms, by), "job": job_id, "check": "-" if check is None else check, **more}
        status, *record = self._run(name, values, rest, extra=self._hints())
        job = None
        if record:
            apart = self._apart({job_id: record[0]}).get(job_id, {})
            job = job_records.read_job(job_id, record[0], b"", len(self.dimensions), apart)
        if job is None or status != b"ok":
            raise refusal(self.name, job_id, status.decode(), job)
        return job

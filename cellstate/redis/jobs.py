"""Jobs of a cell on a server: read, submitted, held, resized, stopped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import unquote

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput, Unreadable
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
from omega.cellstate.pages import JobHead, JobPage, Keep, full_page, last_page
from omega.cellstate.plain_text import check_texts, plain_reason
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.calls import Connection
from omega.cellstate.redis.link import confirm
from omega.cellstate.redis.machines import RedisMachines
from omega.cellstate.redis.part import Part
from omega.cellstate.redis.scripts import AT_ONCE
from omega.cellstate.replies import Budget, Housekept, Original, Submitted
from omega.cellstate.resources import LARGEST_COUNT
from omega.cellstate.transaction import Position

_PAGE_CHUNK = 5_000
"""Jobs per read: a few milliseconds of the server's time."""


def _every(_: JobHead) -> bool:
    return True


def joined_chunks(fields: Iterable[tuple[str, int, str]], texts: Mapping[str, bytes]) -> dict[str, dict[int, str]]:
    """Join the chunks of runs; `fields`: job, group and field of each, in order."""
    runs: dict[str, dict[int, list[str]]] = {}
    for job_id, group, field in fields:
        runs.setdefault(job_id, {}).setdefault(group, []).append(texts.get(field, b"").decode(errors="replace"))
    return {job_id: {group: "".join(parts) for group, parts in groups.items()} for job_id, groups in runs.items()}


class RedisJobs(Part):
    """Jobs; lists that are read in pages scan all records only without a limit, else an index leads to the newest."""

    def __init__(self, calls: Connection, machines: RedisMachines) -> None:
        """Use the connection of the cell and other parts of it."""
        super().__init__(calls)
        self._machines = machines

    def get(self, job_id: str) -> Job | None:
        """Return a job, or None."""
        record = self._calls.command(self._calls.client.hget, self._calls.prefix + "jobs", job_id)
        spec = self._calls.command(self._calls.client.hget, self._calls.prefix + "specs", job_id)
        if record is None:
            return None
        job = self.read(job_id, record, spec or b"", self.apart({job_id: record}).get(job_id, {}))
        if job is None:
            self._calls.unreadable.pop(("jobs", job_id), None)  # the error names it
            raise Unreadable(f"job {job_id}: its record cannot be read; see omega cell verify {self._calls.name}")
        return job

    def apart(self, jobs: Mapping[str, bytes]) -> dict[str, dict[int, str]]:
        """Return the runs of jobs in chunks outside these records, by job and group."""
        wanted = [(job_id, *each) for job_id, record in jobs.items() for each in self.chunk_fields(job_id, record)]
        texts = self._calls.fields("placed", [field for *_, field in wanted], 1_000)
        return joined_chunks(wanted, {field: text for field, text in texts if text})

    def chunk_fields(self, job_id: str, record: bytes) -> list[tuple[int, str]]:
        try:
            return list(job_records.chunk_fields(job_id, record, len(self._calls.dimensions)))
        except records.UNREADABLE:
            return []  # the record is noted when the job is read

    def read(self, job_id: str, record: bytes, spec: bytes, apart: Mapping[int, str] | None = None) -> Job | None:
        """Read a job; without its specification when that cannot be read, which is noted."""
        if spec and self._calls.record("specs", job_id, records.unpack, spec) is None:
            spec = b""
        return self._calls.record(
            "jobs", job_id, job_records.read_job, job_id, record, spec, len(self._calls.dimensions), apart
        )

    def by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        """Return those of some jobs that are stored, without the parts that only schedulers and executors read."""
        stored = {job_id: record for job_id, record in self._calls.fields("jobs", ids) if record}
        apart = self.apart(stored)
        jobs = ((job_id, self.read(job_id, record, b"", apart.get(job_id, {}))) for job_id, record in stored.items())
        return {job_id: job for job_id, job in jobs if job is not None}

    def running(self, ids: Sequence[str]) -> dict[str, list[int]]:
        """Return how many tasks of each group run, of those of some jobs that are stored; their runs are not read."""
        jobs = (
            (job_id, self.read(job_id, record, b"")) for job_id, record in self._calls.fields("jobs", ids) if record
        )
        return {job_id: [group.placed for group in job.groups] for job_id, job in jobs if job is not None}

    def tasks_by_machine(self, job_id: str) -> dict[int, int]:
        """Return how many tasks of a job run on each machine, without those that are leaving; empty if not stored."""
        job, tasks = self.by_id([job_id]).get(job_id), Counter[int]()
        machines = {machine for group in job.groups for _, machine, leaving in group.runs if not leaving} if job else ()
        for run in self._machines.runs(sorted(machines)):
            if run.job == job_id and not run.leaving:
                tasks[run.machine] += ranges.count(run.tasks)
        return dict(tasks)

    def specs(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the fields of jobs that only schedulers and executors read; empty for a job that is not stored."""
        known = self._calls.fields("specs", ids)
        return {
            job_id: self._calls.record("specs", job_id, records.unpack, spec or b"") or {} for job_id, spec in known
        }

    def live_count(self) -> int:
        """Return the number of jobs that have not ended."""
        ended = self._calls.command(self._calls.client.llen, self._calls.prefix + "done")
        return max(0, self.count() - int(ended))

    def count(self) -> int:
        """Return the number of stored jobs."""
        return int(self._calls.command(self._calls.client.hlen, self._calls.prefix + "jobs"))

    def ids(self) -> list[str]:
        """Return the ids of all stored jobs, in no order."""
        return [name.decode() for name in self._calls.command(self._calls.client.hkeys, self._calls.prefix + "jobs")]

    def all(self) -> list[Job]:
        """Return every stored job, in order of submission."""
        # Read a few thousand at a time.
        read: list[Job | None] = []
        scan = self._calls.client.hscan_iter(self._calls.prefix + "jobs", count=2000)
        while chunk := self._calls.command(dict, islice(scan, 2000)):
            specs = self._calls.command(self._calls.client.hmget, self._calls.prefix + "specs", list(chunk))
            named = {job_id.decode(errors="replace"): record for job_id, record in chunk.items()}
            apart = self.apart(named)
            for (job_id, record), spec in zip(named.items(), specs, strict=True):
                read.append(self.read(job_id, record, spec or b"", apart.get(job_id, {})))
        return sorted({job.id: job for job in read if job is not None}.values(), key=lambda job: job.order)

    def id_of(self, name: str) -> str | None:
        """Return the id of the live job of a name, or None."""
        job_id = self.ids_by_name([name]).get(name)
        job = self.by_id([job_id]).get(job_id) if job_id is not None else None
        return None if job is None or not any(group.unplaced or group.placed for group in job.groups) else job_id

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """Return the id of the newest job of each of some names, live or ended, where one is kept."""
        ids = self._calls.fields("jobnames", names)
        return {name: job_id.decode() or name for name, job_id in ids if job_id is not None}

    def names(self) -> dict[str, str]:
        """Return the names of jobs, and the id of the newest of each; reads a few thousand at a time."""
        scan = self._calls.client.hscan_iter(self._calls.prefix + "jobnames", count=2000)
        ids: dict[str, str] = {}
        while chunk := self._calls.command(dict, islice(scan, 2000)):
            ids.update((name.decode(), (job_id or name).decode()) for name, job_id in chunk.items())
        return ids

    def heads(self) -> list[JobHead]:
        """Return a summary of every stored job, in no order."""
        return [head for head, _ in self._heads(self._job_records())]

    def _job_records(self) -> dict[bytes, bytes]:
        """Return the records of all jobs by id, as stored. A scan may return a job twice, then the later is newer."""
        jobs: dict[bytes, bytes] = {}
        cursor = None
        while cursor != 0:
            cursor, chunk = self._calls.command(
                self._calls.client.hscan, self._calls.prefix + "jobs", cursor or 0, count=_PAGE_CHUNK
            )
            jobs |= chunk
        return jobs

    def _heads(self, jobs: Mapping[bytes, bytes]) -> Iterator[tuple[JobHead, bytes]]:
        """Yield the jobs in short, with their records."""
        size = len(self._calls.dimensions)
        for field, record in jobs.items():
            job_id = field.decode(errors="replace")
            head = self._calls.record("jobs", job_id, job_records.read_head, job_id, record, size)
            if head is not None:
                yield head, record

    def page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        """Return the `most` newest jobs (None: all) before the `before`-th submission, in order of submission.

        Only jobs that `keep` accepts and that `user` submitted. The page's `before` begins the next page.
        """
        if most is not None:
            filtered = keep is not None or user is not None
            return self._filtered_page(most, before, keep, user) if filtered else self._newest_page(most, before)
        rows = self._ordered(self._job_records()) if keep is None else self._kept(self._job_records(), keep)
        rows.sort(reverse=True)
        if user is not None:
            rows = [row for row, job in self._with_specs(rows, runs=False) if job.spec.get("user") == user]
        jobs = [job for row, job in self._with_specs(rows) if before is None or row[0] < before]
        return JobPage(len(rows), jobs[::-1], None, 0)

    def _filtered_page(self, most: int, before: int | None, keep: Keep | None, user: str | None) -> JobPage:
        """Return the newest jobs that pass a filter: the index is read back until the page is full."""
        found, read = list[Job](), min(_PAGE_CHUNK, 4 * most)
        newest = "+inf" if before is None else f"({before}"
        while orders := self._newest(newest, read):
            stored = {job_id.encode(): record for job_id, record in self._calls.fields("jobs", list(orders)) if record}
            rows = self._kept(stored, keep or _every)
            for _, job in self._with_specs(sorted(rows, reverse=True)):
                if len(found) == most:
                    return full_page(found)
                if user in (None, job.spec.get("user")):
                    found.append(job)
            last = min(orders.values())
            newest, read = f"({last}", _PAGE_CHUNK
            if len(found) == most and (last < found[-1].order or self._newest(newest, 1)):
                return full_page(found)
        return last_page(found, before)

    def _newest(self, newest: str, most: int) -> dict[str, int]:
        """Return jobs and their positions by the index of submissions, from a position on."""
        key = self._calls.prefix + "recent"
        found = self._calls.command(self._calls.client.zrevrangebyscore, key, newest, "-inf", 0, most, withscores=True)
        return {job_id.decode(): int(order) for job_id, order in found}

    def _newest_page(self, most: int, before: int | None) -> JobPage:
        """Return a page of all jobs by the index of submissions: it costs the same in a cell of any number of jobs."""
        key, below = self._calls.prefix + "recent", "+inf" if before is None else f"({before}"
        with self._calls.client.pipeline() as pipe:
            pipe.zcard(key)
            pipe.zcount(key, "-inf", below)
            pipe.zrevrangebyscore(key, below, "-inf", 0, most, withscores=True)
            total, older, found = self._calls.command(pipe.execute)
        orders = {job_id.decode(): int(order) for job_id, order in found}
        stored = self._calls.fields("jobs", list(orders))
        rows = [(orders[job_id], job_id, record) for job_id, record in stored if record]
        jobs = [job for _, job in self._with_specs(rows)]
        left = older - len(orders)
        return JobPage(total, jobs[::-1], min(orders.values()) if orders and left else None, left)

    def newest_ids(self, most: int) -> list[str]:
        """Return the ids of the `most` jobs that were submitted last, the newest first."""
        return [
            job_id.decode()
            for job_id in self._calls.command(self._calls.client.zrevrange, self._calls.prefix + "recent", 0, most - 1)
        ]

    def _ordered(self, jobs: Mapping[bytes, bytes]) -> list[tuple[int, str, bytes]]:
        """Return order of submission, id and record of each job."""
        try:
            return [(job_records.read_order(record), field.decode(), record) for field, record in jobs.items()]
        except records.UNREADABLE:  # one by one, to note which
            return self._kept(jobs, _every)

    def _kept(self, jobs: Mapping[bytes, bytes], keep: Keep) -> list[tuple[int, str, bytes]]:
        """Return order of submission, id and record of the jobs that pass a filter."""
        return [(head.order, head.id, record) for head, record in self._heads(jobs) if keep(head)]

    def _with_specs(
        self, rows: Sequence[tuple[int, str, bytes]], *, runs: bool = True
    ) -> Iterator[tuple[tuple[int, str, bytes], Job]]:
        for start in range(0, len(rows), _PAGE_CHUNK):
            chunk = rows[start : start + _PAGE_CHUNK]
            specs = self._calls.command(
                self._calls.client.hmget, self._calls.prefix + "specs", [job_id for _, job_id, _ in chunk]
            )
            apart = self.apart({job_id: record for _, job_id, record in chunk}) if runs else {}
            for row, spec in zip(chunk, specs, strict=True):
                job = self.read(row[1], row[2], spec or b"", apart.get(row[1], {}))
                if job is not None:
                    yield row, job

    def copied(self, kind: str) -> list[str]:
        """Return the jobs of a kind whose tasks may have copies, and some that ended (`speculate`)."""
        return sorted(job_id.decode() for job_id, of in self._calls.hash_of("copied").items() if of == kind.encode())

    def updates(self) -> dict[str, str]:
        """Return unfinished updates by job id: ``rolling``, or ``stalled`` and the reason."""
        return {job_id.decode(): state.decode() for job_id, state in sorted(self._calls.hash_of("updates").items())}

    def update_state(self, job_id: str) -> str:
        """Return the state of the update of a job as `updates` has it, "" without an unfinished one."""
        state: bytes = self._calls.command(self._calls.client.hget, self._calls.prefix + "updates", job_id) or b""
        return state.decode()

    # Changes

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        """Submit jobs; a job already stored under its id changes nothing.

        The store holds a job that waits for others (`JobSpec.after`). The call that ends the last of them releases it,
        or stops it when one did not end as required, and so on along the chain.
        """
        rest: list[object] = []
        for job in jobs:
            job.check_numbers()
            for group in job.groups:
                self._calls.check_amounts(f"job {job.name}", group.need)
            record, spec = job_records.new_job(job, at_ms, by, held=held)
            rest += [job.id, record, str(lane_of(job.kind, job.precedence, job.spec)), spec]
        kinds = {f"pending:{job.kind}" for job in jobs}
        values = {**self._calls.values(at_ms, by), "settings": jobs_text(jobs)}
        reply = self._calls.run("submit", values, rest, extra=kinds | self._calls.wakes())
        answers = []
        for job, answer in zip(jobs, reply[2:], strict=True):
            status, _, word = answer.decode().partition(" ")
            known = int(word or reply[1]) if status in ("new", "same") else 0
            word = unquote(word) if status in ("pool", "user") else word
            answers.append(Submitted(job.id, status, "" if known else word, known))
        if any(answer.status == "new" for answer in answers):
            self._calls.see(Position(int(reply[1]), str(values["tag"])))
        return answers

    def claim(self, ids: Sequence[str], name: str, *, expire_ms: int) -> list[str]:
        """Decide that jobs go to the cell `name`; return the cell of each, another one if that was decided before.

        A decision ends after `expire_ms` milliseconds by the server's clock.
        """
        with self._calls.client.pipeline(transaction=False) as pipe:
            for key in (f"{self._calls.prefix}chosen:{job_id}" for job_id in ids):
                pipe.set(key, name, nx=True, px=expire_ms)
                pipe.get(key)
            answers = self._calls.command(pipe.execute)
        self._calls.command(confirm, self._calls.client, self._calls.name, self._calls.durability)
        return [name if cell is None else cell.decode() for cell in answers[1::2]]

    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        """Stop or abandon a job: unplaced tasks end now, running ones by `housekeep`; Refused for an unknown job.

        With `keep` the running tasks of an abandoned job continue until it is stopped.

        `check`, here and below, is the modify index the caller read: Overtaken when it changed since. A change that is
        already in effect changes nothing, whatever the index.
        """
        return self._alter("stop", job_id, at_ms, by, check, {"state": int(state), "keep": int(keep)})

    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Stop new placements of a job; running tasks continue. Refused when it has ended."""
        return self._alter("hold", job_id, at_ms, by, check, {"action": "hold", "reason": ""})

    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """Undo `hold`; a job that waits for others keeps waiting. Refused when it has ended."""
        return self._alter("hold", job_id, at_ms, by, check, {"action": "release", "reason": ""})

    def gate(self, job_id: str, reason: str, at_ms: int, by: str) -> Job:
        """Hold a job for a reason of its scheduler's gate, or release it from that (reason ""); returns the job.

        A job that a person released from its gate stays released. Refused when it has ended.
        """
        said = plain_reason(reason)
        return self._alter("hold", job_id, at_ms, by, None, {"action": "gate" if said else "pass", "reason": said})

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
            if self._calls.dry or all(job.groups[number].total == total for number, total in totals.items()):
                return job
            check = seen = placed = None

    def update(
        self, job_id: str, groups: Sequence[TaskGroup], spec: Mapping[str, Any], at_ms: int, by: str,
        check: int | None = None,
    ) -> Job:  # fmt: skip
        """Begin an update: add `groups`, empty, whatever their count; `spec` replaces the job's.

        ``groups`` in `spec` lists the specs of all groups, including old ones. The update is ``rolling`` until
        `settle`: meanwhile `resize` moves tasks from old groups to new ones (schedulers/rolling.py). Refused when the
        job does not exist, has ended, or has too many groups.
        """
        check_texts(spec, f"job {job_id}")
        for group in groups:
            self._calls.check_amounts(f"job {job_id}", group.need)
        texts = [job_records.new_group(group) for group in groups]
        commands = int(runs_commands(spec))
        whose = str(lane_of("", 0, spec)).rpartition(" ")[2]
        current = aims(spec)
        named = "-" if current is None else f",{','.join(map(str, current))},"
        more: dict[str, object] = {"most": MOST_GROUPS, "commands": commands, "whose": whose, "current": named}
        more["spec"] = records.pack(dict(spec))
        more["settings"] = update_text(job_id, groups)
        return self._alter("update", job_id, at_ms, by, check, more, texts)

    def settle(self, job_id: str, reason: str, at_ms: int, by: str) -> bool:
        """End a rolling update as done, or as stalled with a `reason`. Returns whether there was one.

        A stalled one is deleted with its job.
        """
        values = {**self._calls.values(at_ms, by), "job": job_id, "reason": " ".join(reason.split())}
        return bool(self._calls.run("settle", values)[1])

    def speculate(
        self, job_id: str, originals: Sequence[Original], budget: Budget, at_ms: int, by: str
    ) -> list[Original]:
        """Add copies of running tasks to the group for copies behind theirs, within a budget; returns these tasks.

        They wait like other tasks, are placed on another machine than their original, and evict nothing. What ends one
        of the two ends or promotes the other (semantics 41). A task that no longer runs so, or has a copy, is left out.
        A job that ended leaves `copied_jobs`.
        """
        values = {**self._calls.values(at_ms, by), "job": job_id, "most": budget.job, "cell_most": budget.cell}
        asked = [f"{machine} {placement} {task}" for machine, placement, task in originals]
        return [
            originals[int(place) - 1]
            for place in self._calls.run("speculate", values, asked, extra=self._calls.hints())[1:]
        ]

    def note_attempts(self, jobs: Sequence[str], at_ms: int, by: str) -> int:
        """Record that the first attempt of these jobs placed nothing: their wait is over. Returns how many are new.

        A job of which something was placed since then stays unchanged.
        """
        parts = [jobs[start : start + AT_ONCE] for start in range(0, len(jobs), AT_ONCE)]
        return sum(int(self._calls.run("attempt", self._calls.values(at_ms, by), part)[1]) for part in parts)

    def _alter(
        self, name: str, job_id: str, at_ms: int, by: str, check: int | None, more: Mapping[str, object],
        rest: Sequence[object] = (),
    ) -> Job:  # fmt: skip
        """Run a script that changes a job; returns its record afterwards."""
        values = {**self._calls.values(at_ms, by), "job": job_id, "check": "-" if check is None else check, **more}
        status, *record = self._calls.run(name, values, rest, extra=self._calls.hints())
        job = None
        if record:
            apart = self.apart({job_id: record[0]}).get(job_id, {})
            job = job_records.read_job(job_id, record[0], b"", len(self._calls.dimensions), apart)
        if job is None or status != b"ok":
            raise refusal(self._calls.name, job_id, status.decode(), job)
        return job

    # Housekeeping; its time is the server's

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

        Any live scheduler calls it, repeatedly while more is due.
        """
        values = self._calls.values(at_ms, by) | {"now": self._calls.store_ms(), "most": most}
        _, ended, queued, more = self._calls.run("housekeep", values, extra=self._calls.hints())
        return Housekept(int(ended), int(queued), bool(more))

    def chores(self) -> dict[str, int]:
        """Return the jobs that are due for housekeeping: from when, in ms of the server's clock."""
        chores = self._calls.command(
            self._calls.client.zrange, self._calls.prefix + "housekeeping", 0, -1, withscores=True
        )
        return {job_id.decode(): int(when) for job_id, when in chores}

    def retire(self, now_ms: int, most: int = 1_000) -> int:
        """Delete finished jobs older than the cell keeps them, at most `most`; returns their number.

        `now_ms` is the server's clock (`RedisCell.store_ms`), never a client's (semantics 30).
        """
        return int(self._calls.run("retire", {"now": now_ms, "most": most})[0])

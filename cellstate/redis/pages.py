"""Pages of jobs and machines on a server. Nothing here changes anything."""

from collections.abc import Iterator, Mapping, Sequence

from omega.cellstate.model import Job, Machine, MachineState
from omega.cellstate.override import override
from omega.cellstate.pages import JobHead, JobPage, Keep, full_page, last_page
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.sums import RedisSums

_CHUNK = 5_000
"""Jobs per read: a few milliseconds of the server's time."""


def _every(_: JobHead) -> bool:
    return True


class RedisPages(RedisSums):
    """Lists that are read in pages: an index leads to the newest jobs; a list without a limit scans all records."""

    def _job_records(self) -> dict[bytes, bytes]:
        """Return the records of all jobs by id, as stored. A scan may return a job twice, then the later is newer."""
        jobs: dict[bytes, bytes] = {}
        cursor = None
        while cursor != 0:
            cursor, chunk = self._command(self.client.hscan, self._prefix + "jobs", cursor or 0, count=_CHUNK)
            jobs |= chunk
        return jobs

    @override
    def job_heads(self) -> list[JobHead]:
        return [head for head, _ in self._heads(self._job_records())]

    def _heads(self, jobs: Mapping[bytes, bytes]) -> Iterator[tuple[JobHead, bytes]]:
        """Yield the jobs in short, with their records."""
        size = len(self.dimensions)
        for field, record in jobs.items():
            job_id = field.decode(errors="replace")
            head = self._record("jobs", job_id, job_records.read_head, job_id, record, size)
            if head is not None:
                yield head, record

    @override
    def job_page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
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
        found, read = list[Job](), min(_CHUNK, 4 * most)
        newest = "+inf" if before is None else f"({before}"
        while orders := self._newest(newest, read):
            stored = {job_id.encode(): record for job_id, record in self._fields("jobs", list(orders)) if record}
            rows = self._kept(stored, keep or _every)
            for _, job in self._with_specs(sorted(rows, reverse=True)):
                if len(found) == most:
                    return full_page(found)
                if user in (None, job.spec.get("user")):
                    found.append(job)
            last = min(orders.values())
            newest, read = f"({last}", _CHUNK
            if len(found) == most and (last < found[-1].order or self._newest(newest, 1)):
                return full_page(found)
        return last_page(found, before)

    def _newest(self, newest: str, most: int) -> dict[str, int]:
        """Return jobs and their positions by the index of submissions, from a position on."""
        key = self._prefix + "recent"
        found = self._command(self.client.zrevrangebyscore, key, newest, "-inf", 0, most, withscores=True)
        return {job_id.decode(): int(order) for job_id, order in found}

    def _newest_page(self, most: int, before: int | None) -> JobPage:
        """Return a page of all jobs by the index of submissions: it costs the same in a cell of any number of jobs."""
        key, below = self._prefix + "recent", "+inf" if before is None else f"({before}"
        with self.client.pipeline() as pipe:
            pipe.zcard(key)
            pipe.zcount(key, "-inf", below)
            pipe.zrevrangebyscore(key, below, "-inf", 0, most, withscores=True)
            total, older, found = self._command(pipe.execute)
        orders = {job_id.decode(): int(order) for job_id, order in found}
        stored = self._fields("jobs", list(orders))
        rows = [(orders[job_id], job_id, record) for job_id, record in stored if record]
        jobs = [job for _, job in self._with_specs(rows)]
        left = older - len(orders)
        return JobPage(total, jobs[::-1], min(orders.values()) if orders and left else None, left)

    def newest_ids(self, most: int) -> list[str]:
        """Return the ids of the jobs that were submitted last, the newest first."""
        return [
            job_id.decode() for job_id in self._command(self.client.zrevrange, self._prefix + "recent", 0, most - 1)
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
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            specs = self._command(self.client.hmget, self._prefix + "specs", [job_id for _, job_id, _ in chunk])
            apart = self._apart({job_id: record for _, job_id, record in chunk}) if runs else {}
            for row, spec in zip(chunk, specs, strict=True):
                job = self._job(row[1], row[2], spec or b"", apart.get(row[1], {}))
                if job is not None:
                    yield row, job

    @override
    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        size, machines = len(self.dimensions), []
        rows, statics = self._fields("machines", indices, _CHUNK), self._fields("static", indices, _CHUNK)
        for (index, row), (_, static) in zip(rows, statics, strict=True):
            for whole in self._whole_rows({b"%d" % index: row}, records.row_bytes(size)) if row else ():
                values = records.read_row(whole, size)
                machine = self._record("static", str(index), records.read_machine, values, static or b"", size)
                if machine is not None and machine.state is not MachineState.GONE:
                    machines.append(machine)
        return machines

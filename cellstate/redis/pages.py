"""Pages of jobs and machines on a server. Nothing here changes anything."""

from collections.abc import Iterator, Sequence
from itertools import islice

from cellstate.model import Job, Machine, MachineState
from cellstate.pages import JobHead, JobPage, Keep
from cellstate.redis import records
from cellstate.redis.reads import RedisReads

_CHUNK = 5_000
"""Jobs per read: a few milliseconds of the server's time."""


class RedisPages(RedisReads):
    """Lists that are read in pages: the records of all jobs are scanned, only those of a page are read in full."""

    def _job_records(self) -> Iterator[tuple[str, bytes]]:
        scan = self.client.hscan_iter(self._prefix + "jobs", count=_CHUNK)
        seen: set[bytes] = set()
        while chunk := self._plain(dict, islice(scan, _CHUNK)):
            for job_id, record in chunk.items():
                if job_id not in seen:
                    seen.add(job_id)
                    yield job_id.decode(errors="replace"), record

    def job_heads(self) -> list[JobHead]:
        """See Cell.job_heads."""
        size, found = len(self.dimensions), []
        for job_id, record in self._job_records():
            head = self._record("jobs", job_id, records.read_head, job_id, record, size)
            if head is not None:
                found.append(head)
        return found

    def job_page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        """See Cell.job_page."""
        size = len(self.dimensions)
        found: list[tuple[int, str, bytes]] = []
        for job_id, record in self._job_records():
            if keep is None:
                order = self._record("jobs", job_id, records.read_order, record)
            else:
                head = self._record("jobs", job_id, records.read_head, job_id, record, size)
                order = head.order if head is not None and keep(head) else None
            if order is not None:
                found.append((order, job_id, record))
        found.sort(reverse=True)
        if user is not None:
            found = [row for row, job in self._with_specs(found, runs=False) if job.spec.get("user") == user]
        older = [row for row in found if before is None or row[0] < before]
        shown = older[:most]
        jobs = [job for _, job in self._with_specs(shown)]
        left = len(older) - len(shown)
        return JobPage(len(found), jobs[::-1], shown[-1][0] if shown and left else None, left)

    def _with_specs(
        self, rows: Sequence[tuple[int, str, bytes]], *, runs: bool = True
    ) -> Iterator[tuple[tuple[int, str, bytes], Job]]:
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            specs = self._plain(self.client.hmget, self._prefix + "specs", [job_id for _, job_id, _ in chunk])
            apart = self._apart({job_id: record for _, job_id, record in chunk}) if runs else {}
            for row, spec in zip(chunk, specs, strict=True):
                job = self._job(row[1], row[2], spec or b"", apart.get(row[1], {}))
                if job is not None:
                    yield row, job

    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        """See Cell.machines_at."""
        size, found = len(self.dimensions), []
        for start in range(0, len(indices), _CHUNK):
            chunk = [str(index) for index in indices[start : start + _CHUNK]]
            texts = self._plain(self.client.hmget, self._prefix + "machines", chunk)
            statics = self._plain(self.client.hmget, self._prefix + "static", chunk)
            for index, text, static in zip(chunk, texts, statics, strict=True):
                whole = b"".join(self._whole_rows({index.encode(): text}, records.row_bytes(size))) if text else b""
                if not whole:
                    continue
                row = records.read_rows(whole, size)[0]
                machine = self._record("static", index, records.read_machine, row, static or b"", size)
                if machine is not None and machine.state is not MachineState.GONE:
                    found.append(machine)
        return found

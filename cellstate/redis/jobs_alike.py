"""Jobs of a reply that are alike, read in columns: what they have in common is read once.

Jobs that were submitted alike have records of one length that differ in few bytes: modify index, bucket, order, time of
submission and name. These are columns of a table of bytes; all other bytes are compared with those of the first record.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from omega.cellstate.model import Job
from omega.cellstate.redis.job_records import BUCKET_AT, MODIFIED_AT, ORDER_AT, SUBMITTED_AT, name_span, read_job
from omega.cellstate.redis.records import UNREADABLE, unpack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_new = object.__new__
LEAST = 4
"""Number of jobs from which reading them in columns is cheaper than one by one."""


def read_alike(ids: Sequence[str], records: Sequence[bytes], specs: Sequence[bytes], dimensions: int) -> list[Job]:
    """Read the records of jobs that are alike, with the result of `read_job` for each; empty when some differ."""
    record, spec, number = records[0], specs[0], len(records)
    if number < LEAST or specs.count(spec) < number or set(map(len, records)) != {len(record)}:
        return []
    try:
        start, end = name_span(record)
        first = read_job(ids[0], record, spec, dimensions)
        table = _table(records, len(record))
        if not ((table == table[0]) | _own(len(record), start, end)).all():
            return []
        names = _texts(table, start, end) if end > start else ids
    except UNREADABLE:
        return []
    order, submitted, modified = (_numbers(table, at) for at in (ORDER_AT, SUBMITTED_AT, MODIFIED_AT))
    jobs: list[Job] = []
    for job_id, name, position, at_ms, index in zip(ids, names, order, submitted, modified, strict=True):
        job = _new(Job)  # field by field, in two thirds of the time of a call of the class
        job.id, job.name, job.order, job.submitted_ms, job.modified = job_id, name, position, at_ms, index
        job.groups, job.spec = first.groups, unpack(spec) if spec else first.spec
        job.kind, job.precedence, job.state = first.kind, first.precedence, first.state
        job.gang, job.gang_min = first.gang, first.gang_min
        job.held, job.after, job.awaited, job.begun = first.held, first.after, first.awaited, first.begun
        job.lane, job.commands, job.submitter = first.lane, first.commands, first.submitter
        job.gate, job.released = first.gate, first.released
        jobs.append(job)
    return jobs


def read_runs(ids: Sequence[str], records: Sequence[bytes], specs: Sequence[bytes], dimensions: int) -> list[Job]:
    """Read jobs of several lanes, with the result of `read_job` for each; empty when one cannot be read.

    The jobs of one lane follow one another, and most of them are alike.
    """
    jobs, start = list[Job](), 0
    try:
        for _, run in groupby(specs):
            end = start + len(list(run))
            several = ids[start:end], records[start:end], specs[start:end]
            jobs += read_alike(*several, dimensions) or [
                read_job(*each, dimensions) for each in zip(*several, strict=True)
            ]
            start = end
    except UNREADABLE:
        return []
    return jobs


def _table(records: Sequence[bytes], length: int) -> "NDArray[np.uint8]":
    import numpy as np  # noqa: PLC0415 - as records.read_rows

    return np.frombuffer(b"".join(records), dtype=np.uint8).reshape(-1, length)


@lru_cache(maxsize=256)
def _own(length: int, start: int, end: int) -> "NDArray[np.bool_]":
    """Return which bytes of a record are the job's own; its name is from `start` to `end`."""
    import numpy as np  # noqa: PLC0415 - as records.read_rows

    own = np.zeros(length, dtype=np.bool_)
    for at, width in ((MODIFIED_AT, 8), (BUCKET_AT, 2), (ORDER_AT, 8), (SUBMITTED_AT, 8), (start, end - start)):
        own[at : at + width] = True
    return own


def _numbers(table: "NDArray[np.uint8]", at: int) -> list[int]:
    numbers: list[int] = table[:, at : at + 8].copy().view("<u8")[:, 0].tolist()
    return numbers


def _texts(table: "NDArray[np.uint8]", start: int, end: int) -> list[str]:
    words: list[bytes] = table[:, start:end].copy().view(f"S{end - start}")[:, 0].tolist()
    return [word.decode() for word in words]

"""All jobs of a cell in columns, and a row of bytes for each (packed_jobs.py)."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import Job
from omega.cellstate.pages import own_groups
from omega.queries.job_state import STATES, state
from omega.queries.job_times import JobTimes
from omega.queries.mirror.codes import ABSENT, Codes
from omega.queries.mirror.packed_jobs import pack, unpack

NUMBERS = ("order", "modified", "changed", "precedence", "tasks", "waiting", "placed", "started", "ended")
CODED = ("state", "kind", "user", "pool", "shape", "demand")
_STATE_CODES = {word: code for code, word in enumerate(STATES)}
_STATE_WORDS = tuple(STATES)
LEAST = 256
"""Rows of an empty table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list has; empty: any. `name` is a part of the name or the beginning of the id."""

    state: str = ""
    kind: str = ""
    user: str = ""
    pool: str = ""
    name: str = ""
    reason: str = ""


ALL_JOBS = JobFilter()


def _blank(size: int) -> NDArray[Any]:
    """Return rows that no job has."""
    rows = np.zeros(size, dtype=[*((name, "i8") for name in NUMBERS), *((name, "i4") for name in CODED)])
    rows["state"] = ABSENT
    return rows


class JobTable:
    """The jobs by id; a removed job leaves a row that is used again."""

    def __init__(self) -> None:
        self._numbers = _blank(LEAST)
        self._rows: list[bytes] = []
        self._ids: dict[str, int] = {}
        self.names: list[str] = []
        self.row_ids: list[str] = []
        self._spare: list[int] = []
        self._by_name: list[int] | None = None
        self.states = tuple(STATES)
        self.kinds, self.users, self.pools = Codes(), Codes(), Codes()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._ids

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of all rows in use and spare; the state of a spare one is `ABSENT`."""
        found: NDArray[Any] = self._numbers[name][: len(self._rows)]
        return found

    # Changes

    def put(self, job: Job, version: int, *, shape: int, demand: int) -> int:
        """Add a job or replace it, changed in a version; return its row."""
        known = self._ids.get(job.id)
        if known is not None and self.place(known) != (job.name, job.order):
            self.drop(job.id)  # another job with the id of one that was retired
            known = None
        row = self._new_row(job.id) if known is None else known
        times = (0, 0) if known is None else (self.value("started", row), self.value("ended", row))
        self._rows[row] = pack(job)
        self.names[row] = job.name if job.name != job.id else job.id
        spec, groups = job.spec, own_groups(job)
        user, pool = spec.get("user"), spec.get("pool")
        self._numbers[row] = (
            job.order, job.modified, version, job.precedence,
            *(sum(map(attrgetter(name), groups)) for name in ("total", "unplaced", "placed")),
            *times, _STATE_CODES[state(job)], self.kinds.of(job.kind),
            self.users.of(user if isinstance(user, str) else ""), self.pools.of(pool if isinstance(pool, str) else ""),
            shape, demand,
        )  # fmt: skip
        if known is None and self._by_name is not None:
            insort(self._by_name, row, key=self.place)
        return row

    def put_times(self, job_id: str, times: JobTimes) -> bool:
        """Set when a job started and ended; return whether that is new."""
        row = self._ids[job_id]
        if times == self.times(row):
            return False
        self._numbers["started"][row], self._numbers["ended"][row] = (each or 0 for each in times)
        return True

    def _new_row(self, job_id: str) -> int:
        if self._spare:
            row = self._spare.pop()
        else:
            row = len(self._rows)
            if row >= len(self._numbers):
                wider = _blank(row + row // 4)
                wider[:row] = self._numbers
                self._numbers = wider
            self._rows.append(b"")
            self.names.append("")
            self.row_ids.append("")
        self._ids[job_id], self.row_ids[row] = row, job_id
        return row

    # In order of names

    def by_name(self) -> list[int]:
        """Return the rows in order of their names, then of submission; kept in order from the first call on."""
        if self._by_name is None:
            self._by_name = sorted(self._ids.values(), key=self.place)
        return self._by_name

    def place(self, row: int) -> tuple[str, int]:
        """Return the name and the number of submission of a row."""
        return self.names[row], self.value("order", row)

    def drop(self, job_id: str) -> None:
        """Remove a job, if it is there."""
        row = self._ids.pop(job_id, None)
        if row is not None:
            if self._by_name is not None:
                del self._by_name[bisect_left(self._by_name, self.place(row), key=self.place)]
            self._rows[row], self.names[row], self.row_ids[row] = b"", "", ""
            self._numbers["state"][row] = ABSENT
            self._spare.append(row)

    # Reads

    def row(self, job_id: str) -> int | None:
        """Return the row of a job."""
        return self._ids.get(job_id)

    def job(self, row: int) -> Job:
        """Return the job of a row."""
        return unpack(self._rows[row])

    def times(self, row: int) -> JobTimes:
        """Return when the job of a row started and ended, as far as it was read."""
        return JobTimes(self.value("started", row) or None, self.value("ended", row) or None)

    def get(self, job_id: str) -> Job | None:
        """Return a job by its id."""
        row = self._ids.get(job_id)
        return None if row is None else unpack(self._rows[row])

    def named(self, name: str) -> int | None:
        """Return the row of the newest job of a name; None without one."""
        if name not in self.names:  # many times as fast as a comparison of each
            return None
        return max(
            (row for row, each in enumerate(self.names) if each == name), key=lambda row: self.value("order", row)
        )

    def newest(self, most: int) -> list[int]:
        """Return the rows of the jobs that were submitted last, the newest first."""
        rows = np.flatnonzero(self.column("state") != ABSENT)
        found: list[int] = rows[np.argsort(-self.column("order")[rows], kind="stable")[:most]].tolist()
        return found

    def value(self, name: str, row: int) -> int:
        """Return a number of a row."""
        return int(self._numbers[name][row])

    def ids(self) -> Iterable[str]:
        """Return the ids of all jobs, in no order."""
        return self._ids.keys()

    def jobs(self) -> Iterator[Job]:
        """Yield all jobs, in no order."""
        return (unpack(self._rows[row]) for row in self._ids.values())

    def ended_first(self) -> Iterator[str]:
        """Yield the ids of the jobs that ended, those that changed last last."""
        rows = np.flatnonzero(self.column("state") >= _STATE_CODES["finished"])
        order = np.argsort(self.column("changed")[rows], kind="stable")
        return (self.row_ids[row] for row in rows[order].tolist())

    def matching(
        self, wanted: JobFilter, reasons: Callable[[str], Sequence[int]], in_pool: Callable[[str, str, str], bool]
    ) -> NDArray[np.intp]:
        """Return the rows of the jobs that pass a filter.

        `reasons` gives the rows with a reason, `in_pool` whether jobs of a pool and a user are in a pool.
        """
        states = self.column("state")
        mask = states != ABSENT if not wanted.state else states == _STATE_CODES.get(wanted.state, ABSENT - 1)
        for text, codes, name in ((wanted.kind, self.kinds, "kind"), (wanted.user, self.users, "user")):
            if text:
                code = codes.known(text)
                mask = mask & (self.column(name) == code) if code != ABSENT else np.zeros_like(mask)
        if wanted.pool:
            whose = self.column("pool").astype(np.int64) << 32 | self.column("user")
            found = [
                each for each in np.unique(whose[mask]).tolist()
                if in_pool(wanted.pool, self.pools.texts[each >> 32], self.users.texts[each & 0xFFFFFFFF])
            ]  # fmt: skip
            mask = mask & np.isin(whose, found)
        if wanted.reason:
            chosen = np.zeros_like(mask)
            chosen[list(reasons(wanted.reason))] = True
            mask = mask & chosen
        rows = np.flatnonzero(mask)
        if wanted.name:
            part = wanted.name
            listed, names, ids = rows.tolist(), self.names, self.row_ids
            named = {row for row in listed if part in names[row]}
            named.update(row for row in [row for row in listed if part in ids[row]] if ids[row].startswith(part))
            rows = np.array(sorted(named), dtype=np.intp)
        return rows

    def state_counts(self) -> dict[str, int]:
        """Return the number of stored jobs in each state."""
        states = self.column("state")
        counts = np.bincount(states[states != ABSENT], minlength=len(_STATE_WORDS)).tolist()
        return dict(zip(_STATE_WORDS, counts, strict=True))

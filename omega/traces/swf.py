"""The Standard Workload Format of the Parallel Workloads Archive (version 2.2): rigid parallel jobs.

A job is a gang of tasks of one processor each. Fields that are -1 are missing.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.model import MOST_CLAIMS, Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import Dimensions, shown
from omega.traces import csv_blocks
from omega.traces.names import Names
from omega.traces.text_rows import RowError, first_lines, lines, refuse
from omega.traces.trace import Defects, Trace, TraceOptions, percentiles
from omega.workload.workload import Arrival, Workload

FIELDS = 18
CPU = Dimensions(("cpu",))
COMPLETED, PARTIAL, CANCELLED = 1, (2, 3, 4), 5
_COUNT = re.compile(r"\s*(\d{1,3}(?:,\d{3})+|\d{1,12})")
_HEADER = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.*)")
_MOST = 9 * 10**10
EXTRA, OUT_OF_ORDER, PARTIAL_ROW, TWICE, NEVER_STARTED = (
    "extra-columns", "out-of-order", "partial-row", "number-twice", "never-started",
)  # fmt: skip
ENDS_FIRST, STARTS_FIRST, ZERO, NO_PROCESSORS, TOO_LARGE, NEGATIVE, OVERRAN, NO_REQUEST = (
    "ends-before-start", "starts-before-submission", "zero-length", "no-processors", "too-large", "negative-submission",
    "overran", "no-requested-time",
)  # fmt: skip
RULES = {
    **csv_blocks.RULES,
    EXTRA: "rows with more than 18 fields: the others are ignored",
    OUT_OF_ORDER: "rows submitted earlier than the row before them: sorted by submission",
    PARTIAL_ROW: "rows of parts of a job (status 2 to 4) that also has a row of its own: left out",
    TWICE: "rows with a job number that an earlier row has: another job",
    NEVER_STARTED: "jobs that never started: left out",
    ENDS_FIRST: "jobs that end before they start (run time below -1): left out",
    STARTS_FIRST: "jobs that start before their submission (wait below -1): submitted as the row says, wait unknown",
    ZERO: "jobs that ran for 0 s: kept, they end when they start",
    NO_PROCESSORS: "jobs that ran on an unknown number of processors: left out",
    TOO_LARGE: "jobs with more processors than the computer has: left out",
    NEGATIVE: "jobs submitted before 0 s: submitted when the log begins",
    OVERRAN: "jobs that ran longer than they requested: run as long as they ran, or are cut at the request (overruns)",
    NO_REQUEST: "jobs without a requested time: schedulers see the run time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwfRow:
    """A row as it is in the file; -1: missing. Times are seconds."""

    place: str
    number: int
    submit: float
    wait: float
    run: float
    allocated: int
    requested: int
    requested_seconds: float
    status: int
    user: int
    queue: int

    @property
    def processors(self) -> int:
        """Allocated processors, else requested ones."""
        return self.allocated if self.allocated > 0 else self.requested


@dataclass(slots=True)
class SwfLog:
    """The comments of a file's header, by name, and its rows."""

    header: dict[str, list[str]] = field(default_factory=dict)
    rows: list[SwfRow] = field(default_factory=list)

    def comment(self, text: str, before: str) -> str:
        """Take a comment; one without a name continues the one `before`. Return its name."""
        if match := _HEADER.match(text):
            self.header.setdefault(match[1], []).append(match[2].strip())
            return match[1]
        more = text[1:].strip()
        if not more or not before:
            return ""
        self.header[before][-1] += f" {more}"
        return before

    def number(self, name: str) -> int | None:
        """Return the first whole number above 0 of a comment; None without one."""
        for text in self.header.get(name, ()):
            found = _COUNT.match(text)
            if found and (count := int(found[1].replace(",", ""))) > 0:
                return count
        return None


class SwfReader:
    """Reads files in the Standard Workload Format."""

    name = "swf"
    title = "Standard Workload Format (.swf, .swf.gz)"
    rules = RULES

    def recognises(self, path: Path) -> bool:
        """Return whether it is a file with that name, or one whose first row has 18 numbers."""
        if not path.is_file():
            return False
        if path.name.lower().removesuffix(".gz").endswith(".swf"):
            return True
        rows = [text for text in first_lines(path) if text.strip() and not text.lstrip().startswith(";")]
        return bool(rows) and len(rows[0].split()) == FIELDS and _numeric(rows[0].split())

    def read(self, path: Path, options: TraceOptions) -> Trace:
        """Read a file. Raises BadInput with file and row."""
        defects = Defects(RULES)
        log = read_log(path, defects, skip=options.skip_bad_rows)
        if not log.rows:
            raise BadInput(f"{path}: no row of a job; want {FIELDS} fields per row")
        return _Made(path, options, log, defects).trace()


def _numeric(fields: Sequence[str]) -> bool:
    try:
        return all(isfinite(float(each)) for each in fields)
    except ValueError:
        return False


def read_log(path: Path, defects: Defects, *, skip: bool) -> SwfLog:
    """Return the rows of a file. Comments may stand anywhere. Raises BadInput with file and row."""
    log, name = SwfLog(), ""
    for number, text in lines(path, defects, skip=skip):
        stripped = text.strip()
        if stripped.startswith(";"):
            name = log.comment(stripped, name)
        elif stripped:
            place = f"{path}:{number}"
            try:
                log.rows.append(_row(place, stripped.split(), defects))
            except RowError as error:
                refuse(place, error, defects, skip=skip)
    return log


def _row(place: str, fields: Sequence[str], defects: Defects) -> SwfRow:
    if len(fields) < FIELDS:
        raise RowError(f"{len(fields)} fields; want {FIELDS}, as in the Standard Workload Format")
    if len(fields) > FIELDS:
        defects.add(EXTRA, 1, [place])
    try:
        values = [float(each) for each in fields[:FIELDS]]
    except ValueError:
        wrong = next(each for each in fields if not _numeric([each]))
        raise RowError(f"{shown(wrong)} is not a number") from None
    if not all(abs(value) <= _MOST for value in values):
        raise RowError("a number is not finite, or larger than 9 × 10^10")
    whole = [int(value) for value in values]
    return SwfRow(
        place=place, number=whole[0], submit=values[1], wait=values[2], run=values[3],
        allocated=whole[4], requested=whole[7], requested_seconds=values[8],
        status=whole[10], user=whole[11], queue=whole[14],
    )  # fmt: skip


@dataclass(slots=True)
class _Made:
    """Makes the workload of a log."""

    path: Path
    options: TraceOptions
    log: SwfLog
    defects: Defects

    def trace(self) -> Trace:
        """Return the trace."""
        ran = list(self._ran())
        machines, guessed = self._machines(ran)
        total = sum(spec.capacity[0] for spec in machines) // 1000
        fitting = [row for row in ran if not self._too_large(row, total)]
        submitted = self._submissions(fitting)
        order = sorted(range(len(fitting)), key=submitted.__getitem__)
        self.defects.add(OUT_OF_ORDER, sum(b < a for a, b in pairwise(submitted)))
        begin = submitted[order[0]] if order else 0.0
        order = self._wanted(order, [at - begin for at in submitted], fitting)
        per = machines[0].capacity[0] // 1000
        microseconds = np.array([self._lasting(fitting[at]) for at in order], dtype=np.int64)
        names = Names()
        arrivals = []
        for place, at in enumerate(order):
            row = fitting[at]
            job = self._job(row, per, names)
            lasting = microseconds[place : place + 1]
            views = tuple(np.broadcast_to(lasting, group.count) for group in job.groups)
            arrivals.append(Arrival(submitted[at] - begin, job, views))
        facts = self._facts(ran, machines, guessed)
        ends = (arrival.at_seconds + arrival.durations[0][0] / 1e6 for arrival in arrivals)
        workload = Workload(machines, [], arrivals, self._about(machines, arrivals, facts), dimensions=CPU)
        seconds = float(max(ends, default=0.0))
        return Trace(SwfReader.name, workload, self.defects.found(), facts, seconds, _guessed(facts))

    def _ran(self) -> Iterator[SwfRow]:
        """Yield the rows of jobs that ran."""
        defects = self.defects
        own = {row.number for row in self.log.rows if row.status not in PARTIAL}
        for row in self.log.rows:
            if row.status in PARTIAL and row.number in own:
                defects.add(PARTIAL_ROW, 1, [row.place])
            elif row.run < -1:
                defects.add(ENDS_FIRST, 1, [row.place])
            elif row.run < 0 or (row.run == 0 and row.allocated <= 0):
                defects.add(NEVER_STARTED, 1, [row.place])
            elif row.processors <= 0:
                defects.add(NO_PROCESSORS, 1, [row.place])
            else:
                if row.wait < -1:
                    defects.add(STARTS_FIRST, 1, [row.place])
                if row.run == 0:
                    defects.add(ZERO, 1, [row.place])
                yield row

    def _machines(self, rows: Sequence[SwfRow]) -> tuple[list[MachineSpec], bool]:
        """Return the machines, and whether their number of processors is guessed from the largest job."""
        total, nodes = self.log.number("MaxProcs"), self.log.number("MaxNodes")
        guessed = total is None and nodes is None
        total = total or nodes or max((row.processors for row in rows), default=1)
        if self.options.processors is not None:
            nodes = ceil(total / self.options.processors)
        count = min(nodes or total, total)
        if count > MOST_CLAIMS:  # a job on all processors is one gang, with at most one task per machine
            count = ceil(total / ceil(total / MOST_CLAIMS))
        base, more = divmod(total, count)
        return [MachineSpec(f"n{at}", (1000 * (base + (at < more)),)) for at in range(count)], guessed

    def _too_large(self, row: SwfRow, total: int) -> bool:
        if row.processors > total:
            self.defects.add(TOO_LARGE, 1, [row.place])
        return row.processors > total

    def _submissions(self, rows: Sequence[SwfRow]) -> list[float]:
        begin = min((row.submit for row in rows if row.submit >= 0), default=None)
        if begin is None:
            return [row.submit for row in rows]
        self.defects.add(NEGATIVE, sum(row.submit < 0 for row in rows), (row.place for row in rows if row.submit < 0))
        return [row.submit if row.submit >= 0 else begin for row in rows]

    def _wanted(self, order: Sequence[int], at: Sequence[float], rows: Sequence[SwfRow]) -> list[int]:
        kept, tasks = [], 0
        for each in order:
            if self.options.seconds is not None and at[each] > self.options.seconds:
                break
            if self.options.tasks is not None and tasks >= self.options.tasks:
                break
            kept.append(each)
            tasks += rows[each].processors
        return kept

    def _lasting(self, row: SwfRow) -> int:
        """Return how long a job runs, in microseconds."""
        seconds = row.run
        if 0 < row.requested_seconds < row.run:
            self.defects.add(OVERRAN, 1, [row.place])
            if self.options.overruns == "cut":
                seconds = row.requested_seconds
        return round(seconds * 1e6)

    def _job(self, row: SwfRow, per: int, names: Names) -> JobSpec:
        if row.requested_seconds <= 0:
            self.defects.add(NO_REQUEST, 1, [row.place])
        wanted = row.requested_seconds if row.requested_seconds > 0 else row.run
        lasting, count = round(1000 * wanted), row.processors
        if count <= MOST_CLAIMS:
            groups = [TaskGroup((1000,), count, lasting)]
        else:
            whole, rest = divmod(count, per)
            groups = [TaskGroup((1000 * per,), whole, lasting)]
            groups += [TaskGroup((1000 * rest,), 1, lasting)] if rest else []
        number = str(row.number) if row.number >= 0 else f"row-{row.place.rsplit(':', 1)[1]}"
        number, again = names.unique(number)
        self.defects.add(TWICE, int(again), [row.place] * again)
        spec = {"user": f"user-{row.user}"} if row.user >= 0 else {}
        if row.queue >= 0:
            spec["pool"] = f"queue-{row.queue}"
        gang = Gang.YES if count > 1 else Gang.NO
        return JobSpec(number, f"swf/{number}", "batch", tuple(groups), gang=gang, spec=spec)

    def _facts(self, ran: Sequence[SwfRow], machines: Sequence[MachineSpec], guessed: bool) -> dict[str, Any]:  # noqa: FBT001
        rows = self.log.rows
        queues = sorted(Counter(row.queue for row in ran if row.queue >= 0).items())
        waits = np.array([row.wait for row in ran if row.wait >= 0])
        notes = [text for text in self.log.header.get("Note", ()) if text]
        return {
            "computer": "; ".join(self.log.header.get("Computer", ())),
            "installation": "; ".join(self.log.header.get("Installation", ())),
            "rows": len(rows),
            "status": {str(status): count for status, count in sorted(Counter(row.status for row in rows).items())},
            "users": len({row.user for row in ran if row.user >= 0}),
            "queues": {f"queue-{queue}": count for queue, count in queues},
            "processors": sum(spec.capacity[0] for spec in machines) // 1000,
            "processors_guessed": guessed,
            "requested_times": sum(row.requested_seconds > 0 for row in ran),
            "waits": len(waits),
            "recorded_wait": percentiles(waits),
            "notes": notes,
        }  # fmt: skip

    def _about(self, machines: Sequence[MachineSpec], arrivals: Sequence[Arrival], facts: Mapping[str, Any]) -> str:
        guess = " (the largest job: the header names none)" if facts["processors_guessed"] else ""
        lines = [
            f"{self.path.name}: {len(machines):,} machines with {facts['processors']:,} processors{guess}",
            f"arriving: {len(arrivals):,} jobs with {sum(each.job.total for each in arrivals):,} tasks",
        ]
        if not facts["requested_times"]:
            lines.append("no job has a requested time: schedulers see the run time")
        if not facts["waits"]:
            lines.append("no job has a wait time: submissions may be starts")
        return "\n".join(lines)


def _guessed(facts: Mapping[str, Any]) -> tuple[str, ...]:
    found = ["machines have equally many processors, by the header's numbers"]
    if facts["processors_guessed"]:
        found = ["the header names no processors: as many as the largest job has, one per machine"]
    if not facts["requested_times"]:
        found.append("no job has a requested time: schedulers see the run time")
    if not facts["waits"]:
        found.append("no job has a wait: the submissions may be starts")
    return tuple(found)

"""The files of Google's 2011 trace (clusterdata-2011-2): rows in, machines and lives of tasks out.

Times in the files are microseconds; events before the trace begins are dated 0, and the
trace itself begins at 600 s. Columns are those of the trace's own schema.csv.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from omega.cellstate.errors import BadInput

START_US = 600_000_000
"""When the trace begins on its own clock."""
BURST_US = 60_000_000
"""Tasks of one job submitted closer together than this arrive as one job."""

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST = range(7)
WIDTHS = {"machine_events": 6, "job_events": 8, "task_events": 13}


def seconds(time_us: int) -> float:
    """Return seconds since the trace's beginning for a time on its clock; 0 for earlier events."""
    return max(time_us - START_US, 0) / 1e6


def kind_of(precedence: int, scheduling_class: str) -> str:
    """``service`` for production jobs that want low latency, else ``batch``.

    The split of the simulator published with EuroSys 2013; the trace calls 9 and above production.
    """
    return "service" if precedence >= 9 and scheduling_class not in ("", "0", "1") else "batch"


def parts(directory: Path, table: str) -> list[Path]:
    """Return the files of `table` (``task_events`` …) in order. Raises BadInput when there are none."""
    if not directory.is_dir():
        raise BadInput(f"trace {directory}: no such directory; want machine_events, job_events and task_events in it")
    found = sorted((*(directory / table).glob("part-*.csv.gz"), *(directory / table).glob("part-*.csv")))
    if not found:
        raise BadInput(f"trace {directory}: no {table}/part-*.csv.gz in it; fetch at least its first part")
    return found


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every row. Raises BadInput (file, line) when it cannot be read."""
    width, line = WIDTHS[path.parent.name], 0
    try:
        with gzip.open(path, "rt", encoding="ascii") if path.suffix == ".gz" else path.open(encoding="ascii") as lines:
            for line, row in enumerate(csv.reader(lines), start=1):
                if len(row) != width:
                    raise BadInput(f"{path}:{line}: {len(row)} fields where {path.parent.name} has {width}")
                yield line, row
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise BadInput(f"{path}:{line + 1}: cannot be read ({error}); fetch the file again") from None


def _all_rows(directory: Path, table: str) -> Iterator[tuple[str, list[str]]]:
    """Place (``file:line``) and fields of every row of a table, part after part."""
    for path in parts(directory, table):
        for line, row in rows(path):
            yield f"{path}:{line}", row


def natural(text: str) -> int:
    """Return a whole number from 0 on. Raises ValueError."""
    value = int(text)
    if value < 0:
        raise ValueError(f"{text!r} is not a number from 0 on")
    return value


def share(text: str) -> float | None:
    """Return a share of the largest machine, None when the trace has none. Raises ValueError."""
    if not text:
        return None
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not a share from 0 to 1")
    return value


@dataclass(frozen=True, slots=True)
class TraceMachine:
    """A machine at the trace's beginning; cpu and memory as shares of the largest."""

    name: str
    platform: str
    cpu: float
    memory: float


def read_machines(directory: Path) -> list[TraceMachine]:
    """Return the machines up when the trace begins. Raises BadInput."""
    machines: dict[str, TraceMachine] = {}
    for place, row in _all_rows(directory, "machine_events"):
        try:
            if int(row[0]) == 0 and int(row[2]) == 0:
                name = str(natural(row[1]))
                machines[name] = TraceMachine(name, row[3], share(row[4]) or 0.0, share(row[5]) or 0.0)
        except ValueError as error:
            raise BadInput(f"{place}: {error}; want time, machine, event, platform, cpu, memory") from None
    if not machines:
        raise BadInput(f"trace {directory}: no machine is added at time 0 in machine_events")
    return list(machines.values())


@dataclass(frozen=True, slots=True)
class TraceJob:
    """Additions of job_events to a job's tasks: its scheduling class and its logical name."""

    scheduling_class: str
    logical_name: str


def read_jobs(directory: Path, until_us: float = inf) -> dict[str, TraceJob]:
    """Return the jobs submitted until then, by the trace's job ID. Raises BadInput."""
    jobs: dict[str, TraceJob] = {}
    for place, row in _all_rows(directory, "job_events"):
        try:
            time, event = int(row[0]), int(row[3])
        except ValueError as error:
            raise BadInput(f"{place}: {error}; want time, missing info, job, event, user, class, name") from None
        if time > until_us:
            break
        if event == SUBMIT:
            jobs.setdefault(row[2], TraceJob(row[5], row[7]))
    return jobs


@dataclass(slots=True, kw_only=True)
class Life:
    """What happened to one task.

    Only its first run that finished, failed or was killed counts: evicted and lost runs start
    again from nothing, and a run after a failure is the same work again.
    """

    submitted_us: int
    user: str
    scheduling_class: str
    precedence: int
    cpu: float | None
    memory: float | None
    apart: bool
    """Whether the job's tasks want different machines."""
    there_at_start: bool = False
    """Whether it was running when the trace begins."""
    started_us: int = -1
    ran_us: int = -1
    """Length of the run that finished, failed or was killed; from the trace's beginning for those there."""
    seen_us: int = 0
    """Length of its longest run that was not seen to end so."""

    def happened(self, event: int, time_us: int) -> None:
        """Take the next event of the task."""
        if event == SCHEDULE:
            self.there_at_start |= time_us == 0
            self.started_us = max(time_us, START_US)
        elif EVICT <= event <= LOST and self.started_us >= 0:
            length = time_us - self.started_us
            if event in (EVICT, LOST):
                self.seen_us = max(self.seen_us, length)
            elif self.ran_us < 0:
                self.ran_us = max(length, 0)
            self.started_us = -1

    def close(self, time_us: int) -> None:
        """The window of observation ends."""
        if self.started_us >= 0:
            self.seen_us = max(self.seen_us, time_us - self.started_us)


@dataclass(slots=True)
class History:
    """Tasks by job and burst, in order of submission.

    Burst 0 is the job as first submitted; later ones are tasks it got more than a minute after
    the last. No burst begins once `wanted` tasks have arrived.
    """

    wanted: float = inf
    jobs: dict[tuple[str, int], list[Life]] = field(default_factory=dict)
    arrived: int = 0
    full_us: float = inf
    """When the last wanted task arrived."""
    until_us: int = START_US
    """The last event read."""
    lives: dict[tuple[str, str], Life] = field(default_factory=dict)
    _bursts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def submit(self, row: list[str], time_us: int) -> None:
        """Take a submission; that of a task already known is its next try. Raises ValueError."""
        key = (row[2], row[3])
        if key in self.lives:
            return
        number, last_us = self._bursts.get(row[2], (-1, -BURST_US - 1))
        new = time_us - last_us > BURST_US
        if new and time_us > 0 and self.arrived >= self.wanted:
            return
        natural(row[2])  # the job's id is made of it
        number += new
        self._bursts[row[2]] = (number, time_us)
        life = Life(
            submitted_us=time_us, user=row[6], scheduling_class=row[7], precedence=natural(row[8]),
            cpu=share(row[9]), memory=share(row[10]), apart=row[12] == "1",
        )  # fmt: skip
        self.lives[key] = life
        self.jobs.setdefault((row[2], number), []).append(life)
        self.arrived += time_us > 0
        if self.arrived >= self.wanted and self.full_us == inf:
            self.full_us = time_us


def read_tasks(directory: Path, tasks: float = inf, follow_seconds: float = inf) -> History:
    """Read the tasks there at the beginning and at least the first `tasks` that arrive, jobs whole.

    Goes on for `follow_seconds` of trace after the last of them to see how long they run, or to
    the end of the last part present. Raises BadInput (file, line).
    """
    history = History(tasks)
    lives = history.lives
    for place, row in _all_rows(directory, "task_events"):
        try:
            time, event = int(row[0]), int(row[5])
            if time > history.full_us + follow_seconds * 1e6:
                break
            if event == SUBMIT:
                history.submit(row, time)
            elif (life := lives.get((row[2], row[3]))) is not None:
                life.happened(event, time)
        except ValueError as error:
            raise BadInput(f"{place}: {error}; the columns are those of the trace's schema.csv") from None
        history.until_us = max(time, START_US)
    for life in lives.values():
        life.close(history.until_us)
    return history

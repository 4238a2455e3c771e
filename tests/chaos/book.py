"""The book of executions: each task records when it starts and ends, and the book is compared with the store's account.

A task holds a lock on its page (a file) while any of its processes lives; the kernel releases the lock with the last
of them. A second copy that runs beside the first finds the lock taken and records an overlap. Each line of a page is
``start|overlap|end PLACEMENT PID``.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from omega.cellstate import ranges
from omega.cellstate.events import Fact
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from tests.conftest import absent
from tests.integration.stage import all_facts

SCRIPT = """
exec 9>>"$BOOK/$OMEGA_JOB.$OMEGA_TASK"
flock -n 9 || echo "overlap $OMEGA_PLACEMENT $$" >&9
echo "start $OMEGA_PLACEMENT $$" >&9
sleep "$LASTS"
echo "end $OMEGA_PLACEMENT $$" >&9
"""
Task = tuple[str, int]
"""(job id, task index) of a job of one group."""


def rounds() -> int:
    """How many times each fault of the ladder is repeated: ROUNDS in the environment, 3 by default."""
    return int(os.environ.get("ROUNDS", "3"))


@dataclass(frozen=True, slots=True)
class Page:
    """What one task recorded: the placement ids of its starts, ends and overlaps, in order."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    overlaps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """Faults found when the book and the store's log are compared; each entry is one line for a person."""

    overlaps: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    """Tasks that the store recorded as finished more than once."""
    invented: tuple[str, ...] = ()
    """Tasks that the store recorded as finished under a placement that never wrote its end."""
    lost: tuple[str, ...] = ()
    """Tasks of acknowledged jobs that the store does not record as finished."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.overlaps or self.doubled or self.invented or self.lost)


@dataclass(frozen=True, slots=True)
class Book:
    """The pages of all recorded tasks, in one directory."""

    directory: Path

    @classmethod
    def new(cls, place: Path) -> "Book":
        """Make an empty book; skips the test where tasks cannot lock a file."""
        if which("flock") is None:
            absent("no flock program")
        place.mkdir(parents=True)
        return cls(place)

    def job(self, name: str, tasks: int, seconds: float, *, kind: str = "batch", grace_ms: int = 300) -> JobSpec:
        """A job of `tasks` recorded tasks that last `seconds` each."""
        group = TaskGroup((100, 32), tasks, 0, {"command": ["sh", "-c", SCRIPT], "grace": grace_ms})
        environment = {"BOOK": str(self.directory), "LASTS": f"{seconds:g}"}
        return JobSpec(name, name, kind, (group,), spec={"environment": environment})

    def page(self, job: str, task: int) -> Page:
        """What a task recorded so far; nothing if it never started."""
        path = self.directory / f"{job}.{task}"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        found: dict[str, list[int]] = {"start": [], "end": [], "overlap": []}
        for word, placement, _ in lines:
            found[word].append(int(placement))
        return Page(tuple(found["start"]), tuple(found["end"]), tuple(found["overlap"]))

    def compare(self, cell: RedisCell, jobs: Sequence[JobSpec]) -> Account:
        """Compare the pages of `jobs`, all acknowledged, with the log of the cell."""
        return self.compare_facts(all_facts(cell), jobs)

    def compare_facts(self, facts: Sequence[Fact], jobs: Sequence[JobSpec]) -> Account:
        """Compare the pages with the facts of a log that goes back to the first of `jobs`."""
        finished = ends_of(facts)
        overlaps, doubled, invented, lost = list[str](), list[str](), list[str](), list[str]()
        for job in jobs:
            for task in range(job.total):
                page, known = self.page(job.id, task), finished.get((job.id, task), Counter())
                where = f"{job.id}.{task}: {page}, finished as {dict(known)}"
                if page.overlaps:
                    overlaps.append(where)
                if known.total() > 1:
                    doubled.append(where)
                if any(placement not in page.ends for placement in known):
                    invented.append(where)
                if not known:
                    lost.append(where)
        return Account(tuple(overlaps), tuple(doubled), tuple(invented), tuple(lost))


def ends_of(facts: Sequence[Fact]) -> dict[Task, Counter[int]]:
    """How often the log records each task as finished, by placement id; also late, after it was taken for lost."""
    found: dict[Task, Counter[int]] = {}
    for fact in facts:
        if fact.event[0] == "finished" or (fact.event[0] == "late" and fact.event[6] == "finished"):
            placement, _, job, _, tasks = fact.event[1:6]
            for task in ranges.indices(tasks):
                found.setdefault((job, task), Counter())[int(placement)] += 1
    return found

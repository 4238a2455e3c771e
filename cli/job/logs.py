"""``omega job logs``."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cellstate import ranges
from cellstate.errors import Refused
from cli import render, words
from cli.app import App
from cli.job.watch import patiently
from omega.queries.finding import find_job
from omega.queries.job_state import ended

if TYPE_CHECKING:
    from cellstate.model import Job
    from cellstate.redis import RedisCell
    from omega.live.agent.output import Reader

POLL_SECONDS = 0.2


@click.command()
@click.argument("job")
@click.option("--task", default=0, show_default=True, type=click.IntRange(0), metavar="N", help="Which task.")
@click.option("--group", metavar="NAME", help="Of which task group (default: the first).")
@click.option("--stderr", is_flag=True, help="Its error stream instead of its output.")
@click.option("--tail", "lines", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what it says, until it ends or Ctrl-C.")
@click.pass_obj
def command(
    app: App, job: str, task: int, group: str | None, stderr: bool, lines: int | None, follow: bool
) -> None:  # fmt: skip
    """What a task of the JOB said: all that is kept on the machine it ran on, the last words from elsewhere."""
    cell = app.open()
    found = find_job(cell, job)
    number = _group(found, group)
    if task >= found.groups[number].total:
        raise Refused(f"job {found.name}: has no task {task}; the last one is {found.groups[number].total - 1}")
    log = _Log(cell, found, number, task, "stderr" if stderr else "stdout")
    log.find()
    if app.as_json:
        text = b"".join(log.new(lines)).decode(errors="replace")
        here = log.reader is not None
        about = {"cell": cell.name, "job": found.id, "group": number, "task": task, "stream": log.stream}
        render.document({**about, "source": "files" if here else "store", "cut_bytes": log.cut, "text": text})
        return
    said = log.show(lines)
    if follow:
        log.follow()
    elif not said:
        render.note(log.silence())


def _group(job: "Job", asked: str | None) -> int:
    from omega.queries.job_state import group_names

    names = group_names(job)
    if asked is None:
        return 0
    if asked not in names:
        raise Refused(f"job {job.name}: has no task group {asked!r}; it has {', '.join(names)}")
    return names.index(asked)


@dataclass
class _Log:
    """What one task says: read from its files here, else from its last words in the store."""

    cell: "RedisCell"
    job: "Job"
    group: int
    task: int
    stream: str
    reader: "Reader | None" = None
    _place: Path | None = None
    _last: bytes = field(default=b"")
    _told: int = 0
    """How many bytes it was said are gone."""

    @property
    def cut(self) -> int:
        """How many bytes before what was shown are not there any more."""
        return self.reader.cut if self.reader is not None else 0

    def find(self) -> None:
        """Look for the files of its newest placement, unless it is on another machine by now."""
        from omega.embedded_places import state_directory
        from omega.live.agent.output import Reader
        from omega.live.agent.places import all_places

        newest = max(
            ((key.placement, places.task(key)) for places in all_places(state_directory(), self.cell.name)
             for key in places.found() if key[:3] == (self.job.id, self.group, self.task)), default=None,
        )  # fmt: skip
        if newest is None or newest[0] < self._placement():
            self.reader = self._place = None
        elif newest[1] != self._place:
            self._place = newest[1]
            self.reader = Reader(newest[1], self.stream)

    def _placement(self) -> int:
        """The id of the placement it has now; 0 when it has none."""
        job = patiently(lambda: self.cell.job(self.job.id)) or self.job
        there = [machine for _, machine, leaving in job.groups[self.group].runs if not leaving]
        runs = patiently(lambda: self.cell.runs(there)) if there else []
        mine = (run for run in runs if (run.job, run.group, run.leaving) == (self.job.id, self.group, False))
        return max((run.placement for run in mine if self.task in ranges.indices(run.tasks)), default=0)

    def new(self, lines: int | None = None) -> Iterator[bytes]:
        """Yield what it said since the last time, or only the last lines of that."""
        from omega.live.agent.output import last_lines

        if lines is not None:
            yield last_lines(b"".join(self.new()), lines)
        elif self.reader is not None:
            yield from self.reader.more()
        else:
            last = patiently(lambda: self.cell.tail(self.job.id, self.group, self.task, self.stream)) or b""
            if last != self._last:
                # Not all of it is there; what was shown already is left out.
                known = next((n for n in range(len(last), 0, -1) if self._last.endswith(last[:n])), 0)
                self._last = last
                yield last[known:]

    def show(self, lines: int | None = None) -> bool:
        """Write what is new to stdout as it is; whether there was anything."""
        said = False
        for piece in self.new(lines):
            more, self._told = self.cut - self._told, self.cut
            if more > 0 and lines is None:
                render.note(f"… {words.count(more, 'byte')} before this are not kept")
            said |= bool(piece)
            render.output(piece)
        return said

    def follow(self) -> None:
        """Go on until the job has ended and nothing more comes."""
        while True:
            over = ended(patiently(lambda: self.cell.job(self.job.id)) or self.job)
            self.find()
            self.show()
            if over:
                return
            time.sleep(POLL_SECONDS)

    def silence(self) -> str:
        """Why there is nothing to read."""
        if self.reader is not None:
            return f"task {self.task} of {self.job.name} said nothing on {self.stream}"
        return (
            f"task {self.task} of {self.job.name}: no {self.stream} here nor in the store; it did not run yet, said "
            "nothing, was played, or its last words have expired"
        )

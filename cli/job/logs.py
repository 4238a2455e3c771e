"""``omega job logs``."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.live.task_log import TaskLog

POLL_SECONDS = 0.2
SOURCES = {"files": "from files on this computer", "agent": "from its agent", "store": "from the store"}


@click.command()
@click.argument("job")
@click.option(
    "--task",
    type=click.IntRange(0),
    metavar="N",
    help="Number of the task from 0, in an array its position, not its index (default: 0).",
)
@click.option("--index", type=click.IntRange(0), metavar="N", help="Index of the task in its array, instead of --task.")
@click.option("--group", metavar="NAME", help="Name of its task group (default: the first).")
@click.option(
    "--generation", type=click.IntRange(1), metavar="N", help="Generation of its tasks (default: the newest)."
)
@click.option("--all", "every", is_flag=True, help="Print the output of every task.")
@click.option("--to", metavar="DIR", help="With --all: write both streams to files GROUP.INDEX.STREAM in DIR instead.")
@click.option("--previous", is_flag=True, help="Print the output of the placement before the newest.")
@click.option("--placement", type=click.IntRange(1), metavar="N", help="Print that of this placement (omega events).")
@click.option("--stderr", is_flag=True, help="Print its error stream instead of its output.")
@click.option("--tail", "lines", type=click.IntRange(0), metavar="N", help="Print only the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Print new output until the task ends or Ctrl-C.")
@click.pass_obj
def command(
    app: App, *, every: bool, to: str | None, job: str, task: int | None, index: int | None, group: str | None,
    generation: int | None, previous: bool, placement: int | None, stderr: bool, lines: int | None, follow: bool,
) -> None:  # fmt: skip
    """Print a task's output, from its files on this computer, from the agent that ran it, or else its end in the store.

    A note says where it comes from if not from this computer, and what is missing with the reason.

    Each update of a job that replaces tasks begins a new generation of them; omega job status names the older ones.

    A file or a pipe receives the bytes unchanged; a terminal receives no escape sequences.
    """
    from omega.live.task_log import TaskLog, all_logs
    from omega.queries.jobs import find_job

    if task is not None and index is not None:
        raise click.UsageError("--task and --index exclude each other; give one of them")
    if previous and placement is not None:
        raise click.UsageError("--previous and --placement exclude each other; give one of them")
    cell = app.open()
    asked = find_job(cell, job)
    if every or to is not None:
        if not every or follow or previous or placement is not None or task is not None or index is not None:
            raise click.UsageError("--all takes --to, --group, --generation, --stderr and --tail; --to needs --all")
        streams = ("stdout", "stderr") if to is not None else ("stderr" if stderr else "stdout",)
        _collect(app, asked, all_logs(cell, asked, streams, group, generation), lines, to)
        return
    stream, which = "stderr" if stderr else "stdout", -1 if previous else placement or 0
    log = TaskLog.of(cell, asked, task or 0, group, stream, generation, index, placement=which)
    if app.as_json:
        render.document(log.as_json(lines))
        return
    if len(asked.groups) > 1 or asked.groups[log.group].total > 1 or sys.stderr.isatty():
        render.note(f"{log.stream} of {log.name}")
    printed = _Printed(log)
    said = printed.show(lines)
    if follow:
        printed.follow()
    elif not said:
        render.note(printed.silence())


def _collect(app: App, job: "Job", logs: "Iterable[TaskLog]", lines: int | None, to: str | None) -> None:
    """Print the output of tasks, or write it to files of a directory; says what is missing of which."""
    about = {"cell": app.open().name, "job": job.id}
    if to is None:
        if app.as_json:
            render.document({**about, "logs": [log.as_json(lines) for log in logs]})
            return
        for log in logs:
            render.note(f"{log.stream} of {log.name}")
            printed = _Printed(log)
            if not printed.show(lines):
                render.note(printed.silence())
        return
    files, missing = list[str](), dict[str, str]()
    try:
        Path(to).mkdir(parents=True, exist_ok=True)
        for log in logs:
            pieces = log.new(lines)
            if first := next(pieces, b""):
                files.append(log.file_name)
                with Path(to, log.file_name).open("wb") as file:
                    file.write(first)
                    file.writelines(pieces)
            if log.missing:
                missing[log.file_name] = log.missing
    except OSError as error:
        raise BadInput(f"--to {to}: {error.filename or to}: {(error.strerror or str(error)).lower()}") from None
    if app.as_json:
        render.document({**about, "to": to, "files": files, "missing": missing})
        return
    render.line(f"{units.count(len(files), 'file')} in {to}")
    for name, why in missing.items():
        render.note(f"{name}: {why}")


class _Printed:
    """The output of a task, printed as it comes."""

    def __init__(self, log: "TaskLog") -> None:
        from omega.cli.terminal_text import TerminalText

        self.log, self._text = log, TerminalText()
        self._source = "files"

    def show(self, lines: int | None = None) -> bool:
        """Write new output to stdout; returns whether there was any."""
        said = False
        for piece in self.log.new(lines):
            if piece and self.log.source != self._source:
                self._source = self.log.source
                missing = self.log.missing if lines is None or self._source == "store" else None
                render.note(f"{SOURCES[self._source]}{f' ({missing})' if missing else ''}")
            said |= bool(piece)
            render.output(piece, self._text)
        return said

    def follow(self) -> None:
        """Print new output until the job has ended and all output is printed."""
        from omega.live.waiting import patiently
        from omega.queries.job_state import ended

        while True:
            over = ended(patiently(lambda: self.log.cell.jobs.get(self.log.job.id)) or self.log.job)
            self.log.find()
            self.show()
            if over:
                return
            time.sleep(POLL_SECONDS)

    def silence(self) -> str:
        """Return why there is nothing to read."""
        why = f" ({self.log.missing})" if self.log.missing else ""
        return f"{self.log.name}: no output on {self.log.stream}{why}"

"""``omega job logs``."""

import sys
import time
from typing import TYPE_CHECKING

import click

from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.live.task_log import TaskLog

POLL_SECONDS = 0.2


@click.command()
@click.argument("job")
@click.option("--task", type=click.IntRange(0), metavar="N", help="Number of the task (default: 0).")
@click.option("--index", type=click.IntRange(0), metavar="N", help="Index of the task in its array, instead of --task.")
@click.option("--group", metavar="NAME", help="Name of its task group (default: the first).")
@click.option(
    "--generation", type=click.IntRange(1), metavar="N", help="Generation of its tasks (default: the newest)."
)
@click.option("--stderr", is_flag=True, help="Print its error stream instead of its output.")
@click.option("--tail", "lines", type=click.IntRange(0), metavar="N", help="Print only the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Print new output until the task ends or Ctrl-C.")
@click.pass_obj
def command(
    app: App, *, job: str, task: int | None, index: int | None, group: str | None, generation: int | None, stderr: bool,
    lines: int | None, follow: bool,
) -> None:  # fmt: skip
    """Print a task's output: all of it on the machine where the task ran, the last lines elsewhere.

    Each update of a job that replaces tasks begins a new generation of them; omega job status names the older ones.

    A file or a pipe receives the bytes unchanged; a terminal receives no escape sequences.
    """
    from omega.live.task_log import TaskLog
    from omega.queries.jobs import find_job

    if task is not None and index is not None:
        raise click.UsageError("--task and --index exclude each other; give one of them")
    cell = app.open()
    asked = find_job(cell, job)
    log = TaskLog.of(cell, asked, task or 0, group, "stderr" if stderr else "stdout", generation, index)
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


class _Printed:
    """The output of a task, printed as it comes."""

    def __init__(self, log: "TaskLog") -> None:
        from omega.cli.terminal_text import TerminalText

        self.log, self._text = log, TerminalText()
        self._told = 0
        """Bytes that were reported as not kept."""

    def show(self, lines: int | None = None) -> bool:
        """Write new output to stdout; returns whether there was any."""
        said = False
        for piece in self.log.new(lines):
            more, self._told = self.log.cut - self._told, self.log.cut
            if more > 0 and lines is None:
                render.note(f"… {units.count(more, 'byte')} before this are not kept")
            said |= bool(piece)
            render.output(piece, self._text)
        return said

    def follow(self) -> None:
        """Print new output until the job has ended and all output is printed."""
        from omega.live.waiting import patiently
        from omega.queries.job_state import ended

        while True:
            over = ended(patiently(lambda: self.log.cell.job(self.log.job.id)) or self.log.job)
            self.log.find()
            self.show()
            if over:
                return
            time.sleep(POLL_SECONDS)

    def silence(self) -> str:
        """Return why there is nothing to read."""
        log = self.log
        if log.reader is not None:
            return f"{log.name}: no output on {log.stream}"
        return (
            f"{log.name}: no {log.stream} on this computer nor in the store; the task has not run yet, was simulated, "
            "printed nothing, or its last output has expired"
        )

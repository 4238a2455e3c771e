"""``omega cell record``: record what happens in a cell, for what-if questions."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput, Refused, Unreachable
from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.recording.recorder import Recorder

POLL_SECONDS = 0.25
TOLD_SECONDS = 5.0


@click.command(short_help="Record what happens in a cell to FILE, for what-if questions.")
@click.argument("file")
@click.option("--for", "length", metavar="DURATION", help="Time to record (default: until Ctrl-C).")
@click.option("--force", is_flag=True, help="Overwrite an existing FILE.")
@click.pass_obj
def command(app: App, file: str, length: str | None, force: bool) -> None:
    """Record a cell to FILE: its state now, then its log and the records of new jobs.

    Ask questions of the recording with `omega sim replay FILE` and `omega cell backtest FILE`. The recorder only reads.
    Progress is printed on stderr. Entries that were trimmed from the log before they could be read are reported and
    noted in FILE. A FILE that was cut in the middle is readable up to the cut. Commands and environments of jobs are
    not recorded.
    """
    from omega.recording.file import Writer
    from omega.recording.recorder import Recorder

    seconds = None if length is None else parse_duration(length) / 1000
    cell = app.open()
    with _opened(Path(file), force=force) as stream:
        writer = Writer(stream)
        recorder = Recorder(cell, writer, time.process_time, render.warning)
        try:
            final = _Following(recorder, seconds, quiet=app.as_json).run()
        except OSError as error:
            raise BadInput(f"recording {file}: {error.strerror}; it is readable up to here") from error
    document: dict[str, Any] = {"file": file, "cell": cell.name, "bytes": writer.bytes, **final}
    if app.as_json:
        render.document(document)
        return
    render.facts(
        {
            "recorded": f"{final['versions']:,} versions of cell {cell.name} to {file} ({writer.bytes:,} bytes)",
            "jobs": f"{final['jobs']:,} submitted"
            + (f", {final['missing']:,} deleted before they were read" * bool(final["missing"])),
            "missing": f"{final['lost']:,} versions in {units.count(final['gaps'], 'gap')}",
            "behind": f"{final['behind']:,} versions at the end, {final['most_behind']:,} at most",
            "processor": units.seconds(final["cpu_seconds"]),
        }
    )


def _opened(path: Path, *, force: bool) -> BinaryIO:
    """Open a new file that only its owner may read: it has what jobs declare."""
    if not path.name:
        raise BadInput(f"recording {str(path)!r}: is not a file name; give the path of a file")
    if os.path.exists(path) and not force:  # noqa: PTH110 - False for a name that is too long, not an error
        raise Refused(f"recording {path}: exists; --force overwrites it")
    try:
        if force:
            path.unlink(missing_ok=True)
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")  # noqa: PTH123 - a descriptor
    except OSError as error:
        raise BadInput(f"recording {path}: {error.strerror}; choose another place") from error


@dataclass
class _Following:
    """Follows the log of a cell until a time, or until Ctrl-C."""

    recorder: "Recorder"
    seconds: float | None
    quiet: bool

    def run(self) -> Any:
        """Record; returns the last frame."""
        start = time.monotonic()
        why = "time"
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
        try:
            self.recorder.begin()
            render.note(f"recording from version {self.recorder.progress.version:,}; Ctrl-C ends it")
            self._follow(start)
        except KeyboardInterrupt:
            why = "interrupted"
        return self.recorder.end(why)

    def _follow(self, start: float) -> None:
        told, away = start, None
        while self.seconds is None or time.monotonic() - start < self.seconds:
            try:
                if away is not None:
                    self.recorder.resume()
                    render.note("the store is back")
                    away = None
                full = self.recorder.step()
            except Unreachable as error:
                if away is None:
                    render.warning(f"{error}; the recording waits for it")
                away, full = time.monotonic(), False
            now = time.monotonic()
            if now - told >= TOLD_SECONDS and not self.quiet:
                told = now
                self._tell()
            if not full:
                left = POLL_SECONDS if self.seconds is None else self.seconds - (now - start)
                time.sleep(max(0.0, min(POLL_SECONDS, left)))

    def _tell(self) -> None:
        progress = self.recorder.progress
        render.note(
            f"{progress.versions:,} versions, {units.count(progress.jobs, 'job')}, {progress.behind:,} behind,"
            f" {units.seconds(self.recorder.cpu_seconds())} of processor time"
        )

"""What a recorder costs the server and itself: ``python -m benchmarks.recording``.

The server's instructions are counted with callgrind, as `omega bench instructions` does, for jobs of ten tasks from
their submission to their end, and for the recorder that reads what they left in the log. Then, without callgrind, the
versions and tasks that a recorder reads in a second of its own processor time.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.computer import computer
from benchmarks.instructions import FORMS, TASKS, Counter, Settings as Counted, Work, counted_server
from benchmarks.launch import Document, launch, progress
from benchmarks.store import Store, own_server, server_directory
from omega.cellstate.errors import BadInput
from omega.recording.file import Writer
from omega.recording.recorder import Recorder

LIMIT = 0.03
"""A recorder costs the server at most this part of its instructions per task."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Forms to measure; machines of the cell; jobs counted of each form; jobs of the timed run."""

    forms: Sequence[str] = tuple(FORMS)
    machines: int = 1_000
    jobs: int = 320
    timed: int = 20_000


def measure(settings: Settings) -> Document:
    """Measure each form, and how fast a recorder follows. Raises BadInput for an unknown form."""
    if unknown := set(settings.forms) - set(FORMS):
        raise BadInput(f"form {', '.join(sorted(unknown))}: there is {', '.join(FORMS)}")
    about, rows = computer(), []
    with counted_server() as (store, counter), tempfile.TemporaryFile() as file:
        work = Work(store, Counted(machines=settings.machines, jobs=settings.jobs))
        recorder = Recorder(work.cell, Writer(file))
        recorder.begin()
        for name in settings.forms:
            counts = _counts(work, recorder, counter, name, settings.jobs)
            rows.append({"form": name, **counts})
            progress(f"recording: {name}: {100 * counts['part']:.2f} % of the server's instructions")
    return {"forms": rows, "followed": _followed(settings), "limit": LIMIT, "computer": about}


def _counts(work: Work, recorder: Recorder, counter: Counter, name: str, most: int) -> dict[str, float]:
    form = FORMS[name]
    jobs = max(form.per_call, int(most * form.share))
    work.end(work.place(form, work.submit(form, form.per_call)))
    _catch_up(recorder)
    counter.start()
    names = work.submit(form, jobs)
    work.end(work.place(form, names))
    own = counter.stop()
    counter.start()
    _catch_up(recorder)
    read = counter.stop()
    tasks = jobs * TASKS
    return {"per_task": round(own / tasks), "recorder_per_task": round(read / tasks), "part": read / own}


def _catch_up(recorder: Recorder) -> None:
    while recorder.step():
        pass


def _followed(settings: Settings) -> dict[str, float]:
    """Return what a recorder reads in a second of its processor time, of the form ``packed``."""
    directory = server_directory()
    with own_server(directory) as url, tempfile.TemporaryDirectory() as folder:
        work = Work(Store(url, "bench", own=True, directory=directory), Counted(machines=settings.machines))
        path = Path(folder) / "a.rec.gz"
        with path.open("wb") as file:
            recorder = Recorder(work.cell, Writer(file))
            recorder.begin()
            form, at = FORMS["packed"], recorder.progress.version
            for start in range(0, settings.timed, 320):
                names = work.submit(form, min(320, settings.timed - start))
                work.end(work.place(form, names))
            began, wall = time.process_time(), time.perf_counter()
            _catch_up(recorder)
            seconds, wall = time.process_time() - began, time.perf_counter() - wall
            versions = recorder.progress.version - at
            tasks = settings.timed * TASKS
            return {
                "versions": versions, "tasks": tasks, "cpu_seconds": round(seconds, 3), "seconds": round(wall, 3),
                "tasks_per_cpu_second": round(tasks / seconds), "versions_per_cpu_second": round(versions / seconds),
                "bytes_per_task": round(path.stat().st_size / tasks, 2),
            }  # fmt: skip


if __name__ == "__main__":
    launch(Settings, measure)

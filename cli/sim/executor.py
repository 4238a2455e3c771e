"""Executes many simulations: in processes on this computer, or on a Dask cluster; shows progress."""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput, OmegaError, Refused
from omega.cli import render
from omega.cli.pace import Pace
from omega.queries import units

if TYPE_CHECKING:
    from omega.experiments.results import Point, Record, Results

DASK = "dask://"
ANSWER_SECONDS = 5.0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _worker() -> None:
    """Initialize a worker process: ignore Ctrl-C, which the process that keeps the results handles.

    A worker ends when its parent process ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextlib.contextmanager
def _processes(workers: int) -> "Iterator[Executor | None]":
    if workers == 1:
        yield None
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_worker)
    try:
        yield pool
    except BaseException:
        for process in active_children():  # their results are no longer needed
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _dask(where: str) -> "Iterator[Executor]":
    try:
        import distributed
    except ImportError:
        raise BadInput(f"executor {where}: needs dask; pip install 'omega-scheduler[dask]'") from None
    for name in ("distributed", "tornado", "asyncio"):  # their errors are reported in one line
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    address = where.removeprefix(DASK)
    connect: Any = distributed.Client
    try:
        client = connect(f"tcp://{address}", timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise Refused(f"executor {where}: not reachable ({error}); check that a Dask scheduler runs there") from None
    try:
        yield client.get_executor(pure=False)
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(timeout=1)


def _executor(where: str | None, workers: int | None) -> "contextlib.AbstractContextManager[Executor | None]":
    if where is None:
        return _processes(workers or _cores())
    if not where.startswith(DASK) or ":" not in where.removeprefix(DASK):
        raise BadInput(f"executor {where!r}: must be dask://HOST:PORT; leave it out for local processes")
    return _dask(where)


def _kept(results: "Results") -> str:
    return f"{units.count(len(results), 'finished point')} in {results.path}; run it again to resume"


def _codes(records: "Sequence[Record]") -> str:
    """Return the versions of the code that made the records, as text."""
    made = {f"Omega {record['version']} (sources {record.get('sources', 'not noted')})": None for record in records}
    return " and ".join(made)


def writable(path: Path) -> None:
    """Create the directory of an output file before long work. Raises BadInput when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{path.parent}: {error.strerror}; choose another directory") from None
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadInput(f"{path}: cannot be written; choose another file")


def finish(
    configurations: "Sequence[Point]",
    path: Path,
    where: str | None,
    workers: int | None,
    *,
    quiet: bool,
    check: "Callable[[Record], None]" = lambda _: None,
) -> "list[Record]":
    """Run the points missing from `path` and return all records; finished ones are kept even on failure.

    `check` is called with each finished record and may raise BadInput.
    Raises Refused when the executor fails, click.Abort after Ctrl-C.
    """
    from omega.experiments.results import Results, key_of
    from omega.experiments.sweep import Sweep

    if not configurations:
        return []
    results = Results(path)
    sweep = Sweep(configurations, results)
    if not sweep.left:
        return sweep.records()
    if sweep.outdated:
        old = units.count(len({record["key"] for record in sweep.outdated}), "point")
        render.note(f"{path}: {old} of {_codes(sweep.outdated)} kept; simulated again with the current code")
    if len(sweep.left) == 1 and where is None:
        workers = 1
    total = len({*configurations})
    weights = {key_of(each): each.weight for each in sweep.left}
    pace = Pace(sum(weights.values()), min(len(sweep.left), workers or _cores()))
    try:
        with _executor(where, workers) as executor, render.progress(quiet=quiet) as bars:
            bar = bars.add_task("simulations", total=total, completed=total - len(sweep.left), more="", left="")

            def done(record: "Record") -> None:
                check(record)
                pace.finish(weights[record["key"]])
                more = f"last took {units.seconds(record['seconds'])}"
                bars.update(bar, advance=1, more=more, left=pace.text())

            return sweep.run(executor, time.process_time, done)
    except KeyboardInterrupt:
        render.note(f"interrupted: {_kept(results)}")
        raise click.Abort from None
    except (BrokenExecutor, CancelledError, OSError) as error:
        name = where or "local processes"
        said = str(error) or "the connection was lost"
        raise Refused(f"executor {name}: failed ({said}); {_kept(results)}") from None
    except OmegaError as error:
        raise type(error)(f"{error}; {_kept(results)}" if len(results) else str(error)) from None

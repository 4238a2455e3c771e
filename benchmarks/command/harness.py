"""Commands that run a benchmark: a process of the package `benchmarks`; shared options, tables and the last line.

The process takes its settings on stdin, prints progress on stderr and one JSON document on stdout.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.live.processes.bound import LEAVING_SECONDS

if TYPE_CHECKING:
    Parameter = click.ParamType[Any]
else:
    Parameter = click.ParamType  # takes a type only in newer versions of click

CHECKOUT = Path(__file__).resolve().parents[2]
"""The directory that holds this package and, in a checkout, the harness."""
INTERRUPTED_SECONDS = LEAVING_SECONDS + 10.0
"""Time for an interrupted measurement to stop the processes that it started."""


class Listed(Parameter):
    """A comma-separated list of values of one type."""

    name = "list"

    def __init__(self, each: "click.ParamType[Any]") -> None:
        self.each = each

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        """Return the values. Fails as a usage error when one has another type."""
        if isinstance(value, list):
            return value
        return [self.each.convert(word.strip(), param, ctx) for word in str(value).split(",")]


NUMBERS = Listed(click.IntRange(min=1))
COUNTS = Listed(click.IntRange(min=0))
SHARES = Listed(click.FloatRange(0, 0.95))


Report = Callable[[dict[str, Any]], str]
"""Prints a document; returns the text with which its last line begins."""


def benchmark(module: str, *, stored: bool = True, counted: bool = False) -> Callable[[Report], Callable[..., None]]:
    """Make of a report the function of a command that runs a benchmark, and exits with 1 when it misses its target.

    `stored`: the benchmark measures a store. `counted`: it counts the server's instructions too if asked to.
    """

    def decorate(report: Report) -> Callable[..., None]:
        @click.pass_obj
        @wraps(report)
        def run(app: App, /, instructions: bool = False, **settings: Any) -> None:
            rows = measure(app, "instructions", {}, stored=False)["forms"] if instructions else []
            document = measure(app, module, settings, stored=stored)
            if rows:
                document["instructions"] = rows
            if app.as_json:
                render.document(document)
            else:
                said = report(document)
                instruction_table(rows)
                _last_line(document, said)
            if not document.get("met", True):
                click.get_current_context().exit(1)

        command = instructions_option(run) if counted else run
        return append_only_option(store_option(command)) if stored else command

    return decorate


def measure(app: App, module: str, options: Mapping[str, Any], *, stored: bool) -> dict[str, Any]:
    """Run a benchmark with the options that were given, and return its document; exits when it reports an error."""
    settings = {name: value for name, value in options.items() if value is not None}
    # A load test must be explicit: OMEGA_STORE may be a store in production.
    if stored and "store" not in settings and app.store_option:
        settings["store"] = app.store
    code, text = _run(module, settings)
    if code:
        click.get_current_context().exit(code if code > 0 else 1)
    document: dict[str, Any] = json.loads(text)
    return document


def _run(module: str, settings: Mapping[str, Any]) -> tuple[int, str]:
    """Run ``benchmarks.MODULE`` to its end and forward its progress and errors to stderr."""
    # The harness directory replaces the current one on the path: another package of that name must not be imported.
    from omega.live.secrets import without_store

    root = str(CHECKOUT)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    with subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{module}"],
        env=without_store(os.environ) | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without pipes")
        try:
            # Held open: if this command is killed, the harness detects it and stops its processes.
            process.stdin.write(json.dumps({**settings, "attached": True}) + "\n")
            process.stdin.flush()
            text = process.stdout.read()
            return process.wait(), text
        except KeyboardInterrupt:
            process.wait(INTERRUPTED_SECONDS)  # it was interrupted too
            raise click.Abort from None
        finally:
            if process.poll() is None:
                process.terminate()


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows under headings; a column is a heading and the name of a field, or a format string of the fields."""
    cells = [[text.format_map(row) if "{" in text else row[text] for _, text in columns] for row in rows]
    render.table([heading for heading, _ in columns], cells)


def instruction_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the instructions per job of ten tasks, if they were counted."""
    if rows:
        table(
            [("jobs", "form"), (">instructions per job", "per_job"), (">to place", "place"), (">to end", "end")], rows
        )


append_only_option = click.option(
    "--append-only", is_flag=True, help="Let the server log every write, flushed each second."
)
store_option = click.option("--store", metavar="URL", help="Measure this store (default: a server of its own).")
instructions_option = click.option(
    "--instructions",
    is_flag=True,
    help="Also count the server's instructions per job, which other load does not change; needs valgrind.",
)
machines_option = click.option("--machines", type=click.IntRange(min=1), help="Machines in the cell (default: 10000).")


def _last_line(document: Mapping[str, Any], what: str) -> None:
    """Print the computer and the store of the measurement."""
    from omega.embedded.program import allocator_advice

    on, store = document["computer"], document.get("store")
    parts = [what, f"{on['processors']} processors {on['model']}, load {on['load']} before"]
    if store:
        kept = "append-only file" if store["append_only"] else "no persistence"
        allocator = store["allocator"].partition(" ")[0]
        parts.append(f"{store['product']} {store['version']} with {allocator} over {store['transport']}, {kept}")
    render.note("; ".join(filter(None, parts)))
    if store and store["own"] and (advice := allocator_advice(store["allocator"], restart=False)):
        render.note(advice)

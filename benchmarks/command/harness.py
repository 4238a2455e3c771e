"""Run the harness, a process of the package `benchmarks`; shared options and the last line of reports.

It takes its settings on stdin, prints progress on stderr and one JSON document on stdout.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App

if TYPE_CHECKING:
    Parameter = click.ParamType[Any]
else:
    Parameter = click.ParamType  # takes a type only in newer versions of click

CHECKOUT = Path(__file__).resolve().parents[2]
"""The directory that holds this package and, in a checkout, the harness."""
LEAVING_SECONDS = 20.0
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


def stated(**settings: Any) -> dict[str, Any]:
    """Return the settings that were given; the harness has the defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def measure(app: App, module: str, settings: dict[str, Any], *, stored: bool = True) -> dict[str, Any]:
    """Run a benchmark and return its document; exits when the harness reports an error."""
    # A load test must be explicit: OMEGA_STORE may be a store in production.
    if stored and "store" not in settings and app.store not in (None, app.usual_store):
        settings["store"] = app.store
    code, said = _run(module, settings)
    if code:
        click.get_current_context().exit(code if code > 0 else 1)
    found: dict[str, Any] = json.loads(said)
    return found


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
            said = process.stdout.read()
            return process.wait(), said
        except KeyboardInterrupt:
            process.wait(LEAVING_SECONDS)  # it was interrupted too
            raise click.Abort from None
        finally:
            if process.poll() is None:
                process.terminate()


def count_instructions(app: App, wanted: bool) -> list[dict[str, Any]]:
    """Return the rows of ``omega bench instructions``; none unless `wanted`."""
    rows: list[dict[str, Any]] = measure(app, "instructions", {}, stored=False)["forms"] if wanted else []
    return rows


def instruction_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the instructions per job of ten tasks, if they were counted."""
    if rows:
        render.table(
            ["jobs", ">instructions per job", ">to place", ">to end"],
            [[row["form"], f"{row['per_job']:,}", f"{row['place']:,}", f"{row['end']:,}"] for row in rows],
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


def foot(document: Mapping[str, Any], what: str) -> None:
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

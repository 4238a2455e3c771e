"""``omega bench``: measure the store and the schedulers.

The harness is a package of its own, `benchmarks`, which nothing imports: it runs as a process that takes
its settings on stdin, tells its progress on stderr and prints one JSON document. An installed Omega
carries it beside this package.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cellstate.errors import Refused
from cli import render
from cli.app import App

if TYPE_CHECKING:
    Parameter = click.ParamType[Any]
else:
    Parameter = click.ParamType  # takes a type only in newer versions of click

LEAVING_SECONDS = 20.0
"""How long an interrupted measurement may take to stop the processes it started."""


class Listed(Parameter):
    """Values with commas between them, each of one type."""

    name = "list"

    def __init__(self, each: "click.ParamType[Any]") -> None:
        self.each = each

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        """Return the values. Wrong usage when one is not of the type."""
        if isinstance(value, list):
            return value
        return [self.each.convert(word.strip(), param, ctx) for word in str(value).split(",")]


NUMBERS = Listed(click.IntRange(min=1))
COUNTS = Listed(click.IntRange(min=0))
SHARES = Listed(click.FloatRange(0, 0.95))


def _said(**settings: Any) -> dict[str, Any]:
    """What the person said; the harness knows its own defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def _measure(app: App, module: str, settings: dict[str, Any], *, stored: bool = True) -> dict[str, Any]:
    """Run a benchmark and return its document; the command ends here when the harness reports an error."""
    if find_spec("benchmarks") is None:
        raise Refused("the harness (package benchmarks) is not installed with this Omega; run it from a checkout")
    # A load test must be asked for: OMEGA_STORE may be a store that people use.
    if stored and "store" not in settings and app.store not in (None, app.usual_store):
        settings["store"] = app.store
    code, said = _run(module, settings)
    if code:
        click.get_current_context().exit(code if code > 0 else 1)
    found: dict[str, Any] = json.loads(said)
    return found


def _run(module: str, settings: Mapping[str, Any]) -> tuple[int, str]:
    """Run ``benchmarks.MODULE`` to its end; its progress and errors go to stderr meanwhile."""
    # Its own folder first and the current one not at all: somebody else's package of that name is not meant.
    from omega.live.secrets import without_store

    root = str(Path(__file__).resolve().parent.parent)
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
            # Held open: should this command be killed, the harness notices and stops what it started.
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


@click.group()
def command() -> None:
    """Measure the store and the schedulers.

    Each measurement starts a real server of its own, without persistence, and removes it afterwards.
    --store measures another one instead, on a cell made for the purpose; OMEGA_STORE is not used.
    """


_append_only = click.option("--append-only", is_flag=True, help="Let the server log every write, flushed each second.")
_store = click.option("--store", metavar="URL", help="Measure this store (default: a server of its own).")
_machines = click.option("--machines", type=click.IntRange(min=1), help="Machines in the cell (default: 10000).")


@command.command()
@click.option("--clients", type=NUMBERS, metavar="N,…", help="Client processes (default: 1,2,4).")
@click.option("--size", "sizes", type=NUMBERS, metavar="N,…", help="Claims per transaction (default: 1,10,100).")
@click.option(
    "--in-flight", "--per-call", "per_call", type=click.IntRange(min=1),
    help="Transactions per round trip (default: as the batch scheduler).",
)  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0.01), help="Length of a round (default: 0.5).")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of each kind, in turn (default: 5).")
@_machines
@_append_only
@_store
@click.pass_obj
def commit(app: App, /, **settings: Any) -> None:
    """Commits per second, beside the same writes without any check.

    The ceiling is the better of plain pipelined commands and an unchecked script; both write the keys and
    bytes that the commits write, in turn with them.
    """
    document = _measure(app, "commit", _said(**settings))
    if app.as_json:
        render.document(document)
        return
    render.table(
        [">clients", ">claims per transaction", ">claims/s", ">transactions/s", ">ceiling", ">ratio", ">from", ">to",
         "ceiling is"],
        [
            [run["clients"], run["size"], run["claims_per_second"], run["transactions_per_second"],
             run["ceiling_claims_per_second"], f"{run['ratio']:.2f}", *(f"{r:.2f}" for r in run["spread"]["ratio"]),
             run["ceiling_kind"]]
            for run in document["runs"]
        ],
    )  # fmt: skip
    per_call = document["runs"][0]["transactions_per_call"]
    _foot(document, f"{document['cell']['machines']:,} machines, {per_call} transactions per round trip")


@command.command()
@click.option(
    "--headline", "preset", flag_value="headline", help="10,000 machines, 2 batch schedulers, 5 runs each way."
)
@click.option("--contended", "preset", flag_value="contended", help="90 % full, 4 schedulers, all four ways, 5 runs.")
@click.option("--batch", type=COUNTS, metavar="N,…", help="Batch schedulers (default: 1,2,4).")
@click.option("--service", type=COUNTS, metavar="N,…", help="Service schedulers (default: 0).")
@click.option(
    "--detection", type=Listed(click.Choice(["fine", "coarse"])), metavar="fine,coarse", help="Default: fine."
)
@click.option(
    "--commit", type=Listed(click.Choice(["incremental", "gang"])), metavar="incremental,gang",
    help="Default: incremental.",
)  # fmt: skip
@click.option("--fullness", type=SHARES, metavar="0,0.9,…", help="Share of the cell in use beforehand (default: 0).")
@click.option("--gang", is_flag=True, help="Gang jobs: all tasks of a job or none.")
@click.option("--tasks", type=click.IntRange(min=1), help="Tasks per job (default: 10).")
@click.option("--groups", type=click.IntRange(min=1), help="In so many groups of different sizes (default: 1).")
@click.option("--need", type=COUNTS, metavar="MILLICORES,MIB", help="What a task takes (default: 1000,2048).")
@click.option("--duration-ms", type=click.IntRange(min=1), help="How long a task runs (default: 600).")
@click.option(
    "--jobs-per-call", type=click.IntRange(min=1), help="Jobs per round trip (default: as the batch scheduler)."
)
@click.option("--seconds", type=click.FloatRange(min=0.1), help="How long each run is watched (default: 5).")
@click.option("--repeat", type=click.IntRange(min=1), help="Runs of each configuration, in turn (default: 1).")
@click.option(
    "--pairs", is_flag=True, default=None, help="Compare coarse with fine and gang with incremental, run by run."
)
@_machines
@_append_only
@_store
@click.pass_obj
def conflict(app: App, /, gang: bool, **settings: Any) -> None:
    """Conflict fraction and tasks per second of real schedulers.

    Scheduler processes compete for a cell with jobs queued beforehand; every combination of the lists is run.
    --json has also waits and busyness by scheduler, and every single run.
    """
    document = _measure(app, "conflict", _said(**settings, gang=[True] if gang else None))
    if app.as_json:
        render.document(document)
        return
    render.table(
        [">batch", ">service", "detection", "commit", ">full", "jobs", ">runs", ">tasks/s", ">from", ">to", ">gangs/s",
         ">conflict fraction", ">from", ">to", ">server cpu"],
        [_contest(row) for row in document["medians"]],
    )  # fmt: skip
    for row in document.get("comparisons", []):
        low, high = row["spread"]
        where = ", ".join(str(row[name]) for name in ("detection", "commit") if name in row)
        render.line(
            f"{row['of']}, {where}: conflict fraction × {row['conflict_fraction_ratio']:.2f} "
            f"({low:.2f} to {high:.2f} in {row['pairs']} pairs)"
        )
    chosen = document["chosen"]
    _foot(
        document,
        f"{document['cell']['machines']:,} machines, jobs of {chosen['tasks']} tasks in {chosen['groups']} groups, "
        f"{chosen['need'][0]}m cpu and {chosen['need'][1]}Mi each for {chosen['duration_ms']} ms, "
        f"{chosen['jobs_per_call']} jobs per round trip, watched for {chosen['seconds']:g} s",
    )


def _contest(row: Mapping[str, Any]) -> Sequence[object]:
    rates, fractions = row["spread"]["tasks_per_second"], row["spread"]["conflict_fraction"]
    return [
        row["batch"], row["service"], row["detection"], row["commit"], f"{row['fullness']:.0%}",
        "gang" if row["gang"] else "", row["repeats"], round(row["tasks_per_second"]), *map(round, rates),
        round(row["gangs_per_second"]) if row["gang"] else "", f"{row['conflict_fraction']:.3f}",
        *(f"{each:.3f}" for each in fractions), f"{row['server_cpu']:.2f}",
    ]  # fmt: skip


@command.command()
@click.option("--blocked", type=click.IntRange(min=1), help="Jobs that fit nowhere (default: 1000).")
@click.option("--shapes", type=click.IntRange(min=1), help="Of so many different sizes (default: 1000).")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="How long each run is watched (default: 5).")
@click.option("--repeat", type=click.IntRange(min=1), help="Pairs of runs (default: 5).")
@_machines
@_append_only
@_store
@click.pass_obj
def blocked(app: App, /, **settings: Any) -> None:
    """What jobs that fit nowhere cost those that do.

    Pairs of runs of two batch schedulers on a busy cell, with and without blocked jobs; and the attempts that one
    freed machine costs beside 10,000 of them.
    """
    document = _measure(app, "blocked", _said(**settings))
    if app.as_json:
        render.document(document)
        return
    chosen, medians, wake = document["chosen"], document["medians"], document["wake"]
    low, high = document["spread"]
    render.line(f"without blocked jobs      {medians['without']:>9,} tasks/s")
    render.line(
        f"beside {chosen['blocked']:>6,} of them    {medians['beside']:>9,} tasks/s · × {document['ratio']:.3f} "
        f"({low:.3f} to {high:.3f} in {chosen['repeat']} pairs)"
    )
    low, high = document["cpu_spread"]
    render.line(f"{'':26}{'':>9} per second of cpu time × {document['cpu_ratio']:.3f} ({low:.3f} to {high:.3f})")
    render.line(
        f"one freed machine beside {wake['sleepers']:,} blocked jobs: {wake['attempts']:,} attempts, "
        f"{wake['placed']:,} placed, {wake['milliseconds']} ms"
    )
    _foot(document, f"{document['cell']['machines']:,} machines, {chosen['fullness']:.0%} full beforehand")


def _place(app: App, **settings: Any) -> None:
    document = _measure(app, "place", _said(**settings))
    if app.as_json:
        render.document(document)
        return
    if "placement" in document:
        fields = ("policy", "machines", "tasks_per_job", "p50_us", "p99_us")
        rows = [[row[name] for name in fields] for row in document["placement"]]
        render.table(["policy", ">machines", ">tasks", ">p50 µs", ">p99 µs"], rows)
    if "sync" in document:
        render.table(
            [">machines", ">changed", ">ms", ">from", ">to"],
            [[r["machines"], r["changed"], r["milliseconds"], *r["spread"]] for r in document["sync"]],
        )
    if memory := document.get("memory"):
        for row in memory["server"]:
            used = f"{row['megabytes_per_100000']} MB per 100,000 running tasks"
            render.line(f"server: {used} in jobs of {row['tasks_per_job']:,}")
        row = memory["scheduler"]
        beside = f"{row['machines']:,} machines and {row['running_tasks']:,} tasks"
        render.line(f"scheduler: {row['resident_mib']} MiB resident beside {beside}")
    _foot(document, "")


_parts = click.option(
    "--part", "parts", type=Listed(click.Choice(["placement", "sync", "memory"])), metavar="PART,…",
    help="Only these: placement, sync, memory.",
)  # fmt: skip
_sizes = click.option("--machines", type=NUMBERS, metavar="N,…", help="Cell sizes (default: 1000,10000,100000).")


@command.command()
@_parts
@_sizes
@_append_only
@_store
@click.pass_obj
def place(app: App, parts: Any, machines: Any, append_only: bool, store: str | None) -> None:
    """Time to place a job, cost of a sync, memory.

    By placement policy and size of the cell; by number of changed machines; of a scheduler and of the server.
    """
    _place(app, parts=parts, machines=machines, append_only=append_only, store=store)


@command.command()
@_parts
@_sizes
@_append_only
@_store
@click.pass_obj
def sync(app: App, parts: Any, machines: Any, append_only: bool, store: str | None) -> None:
    """The same as place."""
    _place(app, parts=parts, machines=machines, append_only=append_only, store=store)


@command.command()
@click.option(
    "--part", "parts", type=Listed(click.Choice(["speed", "agreement"])), metavar="PART,…",
    help="Only these: speed, agreement.",
)  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=1), help="Runs of each configuration that is compared (default: 10).")
@click.option("--repeat", type=click.IntRange(min=1), help="Runs of each one that is timed (default: 3).")
@click.option("--large/--no-large", default=None, help="Also a day of 10,000 machines (default: yes).")
@click.option("--results", type=click.Path(dir_okay=False), help="Results to compare with, instead of those on record.")
@click.option(
    "--workload",
    type=click.Path(dir_okay=False),
    help="The day they are of (default: in the folder OMEGA_SHARED names).",
)
@click.pass_obj
def sim(app: App, /, **settings: Any) -> None:
    """Speed of the simulator, and its figures beside those of the authors' simulator.

    Both simulate the same day under the same rules. A figure agrees when the means over the seeds are no further
    apart than three standard deviations, 1 % or 1e-5, whichever is most.
    """
    document = _measure(app, "sim", _said(**settings), stored=False)
    if app.as_json:
        render.document(document)
        return
    if "speed" in document:
        render.table(
            ["architecture", "detection", "commit", ">machines", ">jobs", ">tasks", ">s", ">from", ">to",
             ">theirs, warm", ">cold"],
            [
                [row["architecture"], row["detection"], row["commit"], row["machines"], row["jobs"], row["tasks"],
                 *(f"{s:.2f}" for s in (row["wall_seconds"], *row["spread"])),
                 *(f"{row['reference'][when]:.2f}" for when in ("warm", "cold"))]
                for row in document["speed"]
            ],
        )  # fmt: skip
    if "agreement" in document:
        render.table(
            ["architecture", "commit", ">t_job service", ">figures", ">agree", "apart"],
            [
                [row["architecture"], row["commit"], row["t_job_service"], len(row["figures"]),
                 sum(figure["agrees"] for figure in row["figures"]),
                 ", ".join(figure["name"] for figure in row["figures"] if not figure["agrees"]) or "-"]
                for row in document["agreement"]
            ],
        )  # fmt: skip
        render.line(f"{document['figures_that_agree']} of {document['figures']} figures agree")
    _foot(document, "")


@command.command("all")
@click.option("--quick", is_flag=True, help="Fewer and shorter runs: a first impression.")
@_append_only
@_store
@click.pass_obj
def everything(app: App, /, **settings: Any) -> None:
    """All of them, beside what was measured before.

    About ten minutes. The figures are compared with those of benchmarks/ranges.toml, which are of another
    computer perhaps: `within` says whether one is no worse than its margin allows.
    """
    document = _measure(app, "everything", _said(**settings))
    if app.as_json:
        render.document(document)
        return
    render.table(
        ["figure", ">now", ">before", ">limit", ">to reach", "unit", "within"],
        [
            [row["name"], row["value"], row["measured"], row["limit"], row["target"] or "", row["unit"],
             "ok" if row["within"] else "no"]
            for row in document["ranges"]
        ],
    )  # fmt: skip
    _foot(document, f"before: {document['measured']['machine']}, {document['measured']['date']}")


def _foot(document: Mapping[str, Any], what: str) -> None:
    """Say on what it was measured."""
    on, store = document["computer"], document.get("store")
    parts = [what, f"{on['processors']} processors {on['model']}, load {on['load']} before"]
    if store:
        kept = "append-only file" if store["append_only"] else "no persistence"
        parts.append(f"{store['product']} {store['version']} over {store['transport']}, {kept}")
    render.note("; ".join(filter(None, parts)))

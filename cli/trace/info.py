"""``omega trace info``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.trace_options import reader_options, trace_argument, trace_options
from omega.queries import units

if TYPE_CHECKING:
    from omega.traces import Trace
    from omega.traces.summary import Summary

INTERVALS = 12


@click.command()
@trace_argument
@reader_options
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Draw the trace into this directory, as trace.svg and trace.png.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of everything that a reader draws.")
@click.pass_obj
def command(app: App, /, path: Path, figures: Path | None, seed: int, **given: Any) -> None:
    """Print machines, jobs, distributions and defects of a trace.

    Requests over time are those of all tasks if each starts when it arrives. Formats, rules and options:
    docs/traces.md.
    """
    if figures:
        from omega.experiments.plots.trace import draw_trace  # noqa: F401 - fails before a long read without matplotlib
    with render.busy(f"reading {path}", quiet=app.as_json):
        from omega.traces import read_trace
        from omega.traces.summary import as_json, summarised

        trace = read_trace(path, trace_options(given, seed))
        summary = summarised(trace)
        document = {"path": str(path), **as_json(trace, summary, INTERVALS)}
    paths = _draw(trace, summary, path, figures, quiet=app.as_json) if figures else []
    document["figures"] = [str(each) for each in paths]
    if app.as_json:
        render.document(document)
        return
    _show(trace, document, path)
    for each in paths:
        render.line(str(each))


def _draw(trace: "Trace", summary: "Summary", path: Path, directory: Path, *, quiet: bool) -> list[Path]:
    from omega.experiments.plots.trace import draw_trace

    paths = [directory / f"trace{ending}" for ending in (".svg", ".png")]
    details = f"{path.name} · {summary.machines:,} machines · {units.seconds(summary.end)}"
    with render.busy("drawing", quiet=quiet):
        draw_trace(trace, summary, details, *paths)
    return paths


def _show(trace: "Trace", document: Mapping[str, Any], path: Path) -> None:
    from omega.traces import reader_of

    capacity = document["machines"]["capacity"]
    facts, events = document["facts"], document["machines"]["events"]
    render.facts(
        {
            "format": reader_of(path).title,
            "period": units.seconds(document["seconds"]),
            "machines": f"{document['machines']['count']:,}" + (f" · {events:,} events" if events else ""),
            "capacity": " · ".join(f"{units.amount(name, amount)} {name}" for name, amount in capacity.items()),
            "at 0 s": _residents(document["residents"], facts),
            "over-commit": _over(facts),
            "arriving": tuple(
                f"{kind}: {of['jobs']:,} jobs with {of['tasks']:,} tasks" for kind, of in document["arrivals"].items()
            ),
            "recorded wait": _waits(facts.get("recorded_wait") or {}),
            "guessed": tuple(document["guessed"]),
            "notes": tuple(facts.get("notes", ())) or "",
        }
    )
    render.line()
    render.records([_distribution(name, of) for name, of in document["distributions"].items()])
    render.line()
    render.records([_interval(row) for row in document["requested"]])
    render.line()
    if not trace.defects:
        render.line("defects: none")
    render.records([_defect(each, path) for each in document["defects"]])


def _residents(of: Mapping[str, int], facts: Mapping[str, Any]) -> str:
    if not of["jobs"]:
        return ""
    running, waiting = facts.get("running", of["running"]), facts.get("waiting", of["waiting"])
    unknown = facts.get("on_unknown_machines", 0)
    note = f", {unknown:,} of them on unknown machines" if unknown else ""
    return f"{running:,} tasks run{note}; {waiting:,} wait"


def _over(facts: Mapping[str, Any]) -> str:
    """Return how much the residents request of their machines, for traces that say where they run."""
    if "load" not in facts:
        return ""
    load = " · ".join(f"{name.replace('p100', 'max')} {value:.3f}" for name, value in facts["load"].items())
    factor = f"{facts['machines_over_factor']:,} at × {facts['factor']:g}"
    return f"{facts['machines_over']:,} machines hold more than they have, {factor}; load ÷ capacity {load}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.4g}"


def _waits(of: Mapping[str, float]) -> str:
    return " · ".join(f"{name.replace('p100', 'max')} {units.seconds(value)}" for name, value in of.items())


def _distribution(name: str, of: Mapping[str, float]) -> dict[str, object]:
    return {
        "distribution": name,
        **{f">{each}": _number(of[each]) for each in ("mean", "p50", "p90", "p99", "max")},
    }


def _interval(row: Mapping[str, float]) -> dict[str, object]:
    requested = {f">{name} requested": f"{value:.1%}" for name, value in row.items() if name != "from"}
    return {">from": units.age(row["from"]), **requested}


def _defect(of: Mapping[str, Any], path: Path) -> dict[str, object]:
    places = [place.removeprefix(f"{path}/").replace(f"{path}:", "row ") for place in of["places"][:2]]
    text = (of["what"], *([f"first: {', '.join(places)}"] if places else []))
    return {">count": of["count"], "defect": text}

"""``omega sim replay``."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.scheduler_choice import numbered, selected, variables
from omega.cli.sim import recorded, replay_text
from omega.cli.sim.options import architecture_option, pools_option, scheduler_options, seed_option
from omega.cli.sim.replay_files import Outputs
from omega.cli.sim.replay_runs import Runs, settings_of
from omega.cli.sim.trace_options import reader_options, trace_argument, trace_options
from omega.queries import units

if TYPE_CHECKING:
    from omega.replay.run import Replay
    from omega.traces import Trace

DIRECTORY = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@trace_argument
@click.option(
    "--scheduler",
    "names",
    multiple=True,
    metavar="NAME[=N]",
    help="Schedulers: an installed name, MODULE:ATTRIBUTE or FILE.toml, and how many. Repeatable. Those of kind batch "
    "and service replace the presets of these names.",
)
@click.option("--takes", metavar="KIND", help="Kind whose jobs schedulers of other kinds than the trace's take over.")
@click.option(
    "--share", type=click.FloatRange(0, 1, min_open=True), default=0.5, metavar="PART",
    help="Part of these jobs (default: 0.5), in equal parts.",
)  # fmt: skip
@scheduler_options
@click.option("--placement", metavar="NAME", help="Recordings: an installed placement (default: as recorded).")
@click.option("--preemption", metavar="NAME", help="Recordings: an installed preemption policy (default: as recorded).")
@architecture_option
@pools_option
@seed_option
@click.option("--paper", is_flag=True, help="As Omega §5: no machine fails, no scheduler evicts.")
@click.option("--compare-paper", is_flag=True, help="Run with and without failures and preemption, and compare.")
@click.option("--compare-lightweight", is_flag=True, help="Also run the lightweight simulator, and compare conflicts.")
@reader_options
@click.option(
    "--drain",
    type=click.FloatRange(0, 240_000),
    default=0.0,
    help="Hours to go on after the trace's period (default: 0).",
)
@click.option("--records", type=DIRECTORY, metavar="DIRECTORY", help="Write jobs, tasks, users and utilisation as CSV.")
@click.option("--parquet", is_flag=True, help="Write the --records as Parquet (extra parquet) instead of CSV.")
@click.option("--batsim", type=FILE, metavar="FILE.csv", help="Write Batsim's jobs.csv, which evalys reads.")
@click.option(
    "--batsim-unit", metavar="AMOUNT", help="Cpu unit of --batsim; requests are rounded up (default: an exact one)."
)
@click.option("--figures", type=DIRECTORY, metavar="DIRECTORY", help="Draw gantt and utilisation, as SVG and PNG.")
@click.option("--store", "url", metavar="URL", help="Keep the cell state in a temporary cell of this store.")
@click.pass_obj
def command(
    app: App, /, path: Path, names: Sequence[str], *, paper: bool, compare_paper: bool, compare_lightweight: bool,
    records: Path | None, parquet: bool, batsim: Path | None, batsim_unit: str | None, figures: Path | None,
    url: str | None, **given: Any,
) -> None:  # fmt: skip
    """Replay a trace: its machines, initial jobs, arrivals and durations, with the schedulers that run live.

    A recording of a cell is compared with what really happened, and answers what other settings would have changed
    (--batch +2, --detection, --commit, --placement, --preemption, --pools, --t-job-batch): docs/what-if.md.

    Prints the standard metrics by kind of job, the conflict fraction and busyness of schedulers, utilisation,
    fragmentation and fairness among users: docs/replay.md.
    """
    if recorded.is_question(path, options := click.get_current_context().params):
        recorded.answer(app, path, options)
        return
    outputs = Outputs(records, parquet, batsim, batsim_unit, figures)
    outputs.check()
    seed = given["seed"] or 0
    chosen = [selected(variables(name)) for name, count in map(numbered, names) for _ in range(count)]
    with render.busy(f"reading {path}", quiet=app.as_json):
        from omega.traces import read_trace

        trace = read_trace(path, trace_options(given, seed))
    runs = Runs(app, trace, settings_of(given, trace, seed), chosen, given, url)
    began, compared = time.perf_counter(), None
    if compare_paper:
        compared, replayed = runs.compare(paper=paper)
    else:
        replayed = runs.run("replay", not paper, not paper)
    document = _document(path, trace, replayed, time.perf_counter() - began)
    document |= {"paper_mode": paper, "policies": runs.policies(preemption=not paper)}
    del document["settings"]["placement"]  # that of schedulers that are not in a replay
    if compared is not None:
        from omega.replay.paper_mode import as_json

        document["compare_paper"] = as_json(compared)
    if compare_lightweight:
        document["compare_lightweight"] = runs.lightweight(replayed)
    details = f"{path.name} · {units.seconds(86_400 * document['days'])} · seed {seed} · {document['architecture']}"
    written = outputs.write(replayed, path.name.partition(".")[0], details, quiet=app.as_json)
    factor = trace.facts.get("factor") or 1
    if batsim is not None and written.refused is None and factor != 1:
        written.notes.append(f"{batsim}: machines have {factor:g} × their capacity in the trace, and so many cpu units")
    document |= {"files": [str(each) for each in written.paths], "notes": written.notes}
    if app.as_json:
        render.document(document)
    else:
        replay_text.show(document)
        if compared is not None:
            replay_text.show_comparison(compared)
        if compare_lightweight:
            replay_text.show_lightweight(document["compare_lightweight"])
        for each in written.paths:
            render.line(str(each))
        for note in written.notes:
            render.note(note)
    if written.refused is not None:
        raise written.refused


def _document(path: Path, trace: "Trace", replayed: "Replay", seconds: float) -> dict[str, Any]:
    residents = {**replayed.residents(), "on_unknown_machines": trace.facts.get("on_unknown_machines", 0)}
    return {
        "trace": {
            "path": str(path), "format": trace.format, "seconds": trace.seconds,
            "defects": [asdict(each) for each in trace.defects], "facts": dict(trace.facts),
        },
        "workload": trace.workload.about.strip().splitlines(),
        **replayed.result.as_json(),
        "kinds": [kind for kind, of in replayed.result.kinds.items() if of.jobs_submitted],
        "residents": residents,
        "over_commit": replayed.over_commit(),
        "metrics": replayed.metrics(),
        "wall_seconds": seconds,
    }  # fmt: skip

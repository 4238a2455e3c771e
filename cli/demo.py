"""``omega demo``: a realistic workload end to end."""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omega.cellstate.clock import since_1970
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobState
from omega.cli import render
from omega.cli.app import App
from omega.cli.options import listen_option, web_option
from omega.cli.serve import check_free, console_of, console_settings
from omega.queries import units

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from omega.cellstate.cell import Cell, Jobs, Schedulers
    from omega.live.processes.supervisor import ProcessSupervisor
    from omega.live.workload_replay import WorkloadReplay
    from omega.workload import Workload

CELL = "demo"
LEASE_MS = 1_500
LOOK_SECONDS, FIGURES_SECONDS = 0.5, 5.0
FOLLOW_SECONDS = 25_000.0
"""Seconds of the trace read beyond the last arrival, to see tasks end: about five parts."""
TRACE_SPEED = 40.0
"""The first 10,000 tasks of the trace arrive in 837 s, about 21 s at this speed."""


def _workload(trace: Path | None, machines: int, seed: int, tasks: int) -> "Workload":
    from omega.workload import DEMO, google_mix

    if trace is None:
        return google_mix(seed, machines, DEMO)
    from omega.traces import TraceOptions, reader_of

    reader = reader_of(trace)
    if reader.name != "google-2011":
        raise BadInput(f"trace {trace}: {reader.title}; the demonstration takes Google's trace of 2011")
    options = TraceOptions(residents="thin", tasks=tasks, seed=seed, follow_seconds=FOLLOW_SECONDS)
    return reader.read(trace, options).workload


def _fresh_cell(app: App, name: str, workload: "Workload") -> "Cell":
    """Return an empty cell for the demonstration; replaces one left by an earlier run."""
    from omega.cellstate.server import connect
    from omega.cellstate.store import create_cell, open_cell
    from omega.workload.workload import DIMENSIONS

    client = connect(app.url)
    if name in app.cells():
        cell = open_cell(client, name, app.url, any_schema=True)
        if any(alive for _, alive, _ in cell.schedulers.members().values()):
            raise BadInput(f"cell {name}: has running schedulers; stop them, or choose another cell with --cell")
        cell.delete()
    keep = len(workload.residents) + len(workload.arrivals) + 1000
    return app.closing(create_cell(client, name, DIMENSIONS, keep_jobs=keep, url=app.url))


def _start(
    app: App,
    cell: "Cell",
    group: "ProcessSupervisor",
    replay: "WorkloadReplay",
    schedulers: Mapping[str, int],
    console: str,
) -> None:
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("machines join", total=len(replay.workload.machines), more="")
        replay.join(CELL, lambda count: bars.advance(bar, count))
    members = [f"{kind}/{n}" for kind, number in schedulers.items() for n in range(number)]
    for member in [*members, f"simulated/{CELL}"]:
        group.start(member)
    group.wait_ready(cell)
    capacity = dict(zip(cell.dimensions.names, replay.workload.capacity, strict=True))
    if console:  # on a line of its own, which a terminal does not break
        (render.note if app.as_json else render.line)(f"console: {console}")
    if not app.as_json:
        size = f"{capacity['cpu'] // 1000:,} cpu · {capacity['memory'] / 1024**2:.1f} TiB"
        render.facts(
            {
                "store": app.shown_url,
                "cell": f"{cell.name} · {len(replay.workload.machines):,} machines · {size}",
                "workload": tuple(line.strip() for line in replay.workload.about.strip().splitlines()),
                "workers": "  ".join(f"{member} (pid {group.members[member].pid})" for member in group.members),
                "takes": f"about {units.age(replay.expected_seconds)}",
            }
        )


def _watch(bars: "Bars", replay: "WorkloadReplay") -> float:
    """Run the workload with bars for submitted and placed tasks; returns seconds."""
    submitted = bars.add_task("submitted", total=None, more="")
    placed = bars.add_task("placed", total=None, more="")
    last = (0.0, 0)
    spent = 0.0
    for now in replay.run():
        rate = (now.placed - last[1]) / (now.seconds - last[0]) if now.seconds - last[0] >= 0.5 else None
        so_far = f"tasks in {now.jobs:,} jobs · {now.phase}"
        bars.update(submitted, completed=now.tasks, total=now.all_tasks, more=so_far)
        if rate is not None:
            last = now.seconds, now.placed
            more = f"{rate:,.0f}/s · {now.pending:,} jobs pending · conflicts {now.conflict_fraction:.3f}"
            bars.update(placed, completed=min(now.placed, now.all_tasks), total=now.all_tasks, more=more)
        spent = now.seconds
    return spent


def stop_jobs(jobs: "Jobs", at_ms: int, by: str) -> int:
    """Stop the jobs that are left and return their number: the machines are gone, so they would wait without end."""
    left = [head.id for head in jobs.heads() if head.state in (JobState.ACTIVE, JobState.HELD)]
    for job_id in left:
        jobs.stop(job_id, at_ms, by)
    return len(left)


def _ended(app: App, cell: "Cell") -> str:
    """Stop what is left after the processes of the demonstration ended, and return what became of the cell."""
    with render.busy("stopping the jobs that are left", quiet=app.as_json):
        stopped = stop_jobs(cell.jobs, app.now_ms(), app.by)
    left = f"the {units.count(stopped, 'job')} that ran or waited there" if stopped else "no job"
    return f"the demonstration ended: its machines are offline, and it stopped {left}"


def _report(app: App, cell: "Cell", replay: "WorkloadReplay", spent: float, *, ended: bool) -> int:
    """Print the result; with `ended` stop the jobs that are left afterwards."""
    from omega.cellstate.verify import verify

    figures, pending = cell.schedulers.figures(), sum(cell.schedulers.queue_depths().values())
    with render.busy("checking every invariant", quiet=app.as_json):
        report = verify(cell)
    if app.as_json:
        document = {
            "cell": {"name": cell.name, "machines": len(replay.workload.machines)},
            "seconds": spent,
            "jobs": replay.jobs,
            "tasks": replay.tasks,
            "pending_jobs": pending,
            "workload": replay.workload.about.strip().splitlines(),
            "schedulers": figures,
            "verify": report.as_json(),
            "stopped_jobs": stop_jobs(cell.jobs, app.now_ms(), app.by) if ended else 0,
        }
        render.document(document)
        return 0 if report.ok else 1
    placed = sum(each["tasks"] for each in figures.values())
    render.line()
    tasks = f"all {placed:,}" if placed == replay.tasks else f"{placed:,} of {replay.tasks:,}"
    waiting = f"{pending:,} jobs are pending" if pending else "no job is pending"
    render.line(f"{tasks} tasks placed in {units.seconds(spent)}; {waiting}")
    render.line()
    render.records(
        [
            {
                "scheduler": member,
                ">jobs": each["jobs"],
                ">tasks": each["tasks"],
                ">transactions": each["transactions"],
                ">wait mean / p90": f"{units.seconds(each['wait_mean'])} / {units.seconds(each['wait_p90'])}",
                ">busy": f"{each['busyness']:.2f}",
                ">conflict fraction": f"{each['conflict_fraction']:.3f}",
                ">abandoned": each["abandoned"],
            }
            for member, each in sorted(figures.items())
        ]
    )
    render.line()
    checked = " · ".join(f"{report.checked[name]:,} {name}" for name in ("machines", "tasks", "jobs"))
    verdict = "ok" if report.ok else f"{len(report.violations)} violations"
    render.line(f"cell verify  {verdict} · {checked}")
    for violation in report.violations[:10]:
        render.line(f"  invariant {violation.invariant}: {violation.what} · {violation.where}")
    if app.store is None:
        from omega.embedded import server as embedded
        from omega.embedded.program import allocator_advice

        if advice := allocator_advice(embedded.status().allocator, restart=True):
            render.note(advice)
    if ended:
        render.line(_ended(app, cell))
    further = ("job list", "machine list", "events", "top")
    render.line("next: " + " · ".join(f"omega --cell {cell.name} {name}" for name in further))
    return 0 if report.ok else 1


def _await_figures(schedulers: "Schedulers", tasks: int) -> None:
    """Wait, not for long, until the figures of running schedulers count all tasks."""
    until = time.monotonic() + FIGURES_SECONDS
    while sum(each["tasks"] for each in schedulers.figures().values()) < tasks and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)


def _keep(group: "ProcessSupervisor", console: str) -> None:
    """Keep the cell and its console until Ctrl-C."""
    render.line(f"console: {console}   (Ctrl-C here ends the demonstration)")
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(LOOK_SECONDS)
            group.restart_dead()


@click.command("demo")
@click.option(
    "--trace", type=click.Path(path_type=Path), help="Directory with a trace in the format of Google's 2011 trace."
)
@click.option(
    "--machines", default=1000, show_default=True, type=click.IntRange(1), help="Number of machines (without --trace)."
)
@click.option("--batch", default=2, show_default=True, type=click.IntRange(1, 64), help="Number of batch schedulers.")
@click.option(
    "--service", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of service schedulers."
)
@click.option(
    "--tasks", default=10_000, show_default=True, type=click.IntRange(1), help="Number of tasks (with --trace)."
)
@click.option("--speed", type=click.FloatRange(0.01), help="Speed-up of time (default: 1; with --trace 40).")
@click.option("--seed", default=2013, show_default=True, help="Seed of the workload.")
@web_option
@listen_option
@click.pass_obj
def command(
    app: App,
    *,
    trace: Path | None,
    machines: int,
    batch: int,
    service: int,
    tasks: int,
    speed: float | None,
    seed: int,
    web: bool,
    tokens: str | None,
    listen: str,
) -> None:
    """Run a store, a cell, scheduler processes and a realistic mixed workload; verify the result.

    With --web the cell continues after the report, with its console, until Ctrl-C (at a terminal). At the end the
    simulated machines go offline, and the jobs that still run or wait are stopped; their records stay.
    """
    from omega.embedded.places import state_directory
    from omega.live.processes.supervisor import ProcessSupervisor
    from omega.live.workload_replay import WorkloadReplay

    settings = console_settings(web=web, listen=listen, tokens=tokens)
    check_free(settings)
    with render.busy("reading the workload", quiet=app.as_json):
        workload = _workload(trace, machines, seed, tasks)
    name = app.cell_name or CELL
    cell = _fresh_cell(app, name, workload)
    speed = speed or (TRACE_SPEED if trace else 1.0)
    replay = WorkloadReplay(cell, workload, since_1970, time.sleep, speed)
    logs = state_directory() / "logs" / name
    with ProcessSupervisor(app.url, name, logs, lease_ms=LEASE_MS, speed=speed, bound=True) as group:
        console = console_of(group, settings).login if settings else ""
        _start(app, cell, group, replay, {"batch": batch, "service": service}, console)
        with render.progress(quiet=app.as_json) as bars:
            spent = _watch(bars, replay)
        time.sleep(LEASE_MS / 3000 + 0.1)  # the next heartbeat brings the last figures
        stays = bool(console) and not app.as_json and sys.stdin.isatty() and sys.stdout.isatty()
        if stays:
            _await_figures(cell.schedulers, replay.tasks)
            code = _report(app, cell, replay, spent, ended=False)
            _keep(group, console)
    if stays:
        render.line(_ended(app, cell))
    else:
        code = _report(app, cell, replay, spent, ended=True)
    if code:
        click.get_current_context().exit(code)

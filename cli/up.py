"""``omega up``: a complete cell on this computer, until Ctrl-C; ``omega down`` stops its processes."""

import time
from collections.abc import Mapping, Sequence
from math import isinf
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.clock import since_1970
from omega.cellstate.errors import Refused, StoreError
from omega.cellstate.model import MachineState
from omega.cellstate.refused_writes import said
from omega.cli import render
from omega.cli.app import App
from omega.cli.options import (
    AttributeValues,
    attribute_option,
    attributes_of,
    listen_option,
    process_options,
    web_option,
)
from omega.cli.scheduler_choice import further
from omega.cli.serve import check_free, console_of, console_settings
from omega.client.defaults import DEFAULT_CELL
from omega.live.simulated import DEFAULT_EXECUTOR
from omega.queries import units
from omega.queries.failures import NewFailures
from omega.queries.fleet import Fleet

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.schedulers import RedisSchedulers
    from omega.live.processes.supervisor import ProcessSupervisor
    from omega.web.server import Serving

LOOK_SECONDS = 0.5


def _open(app: App, name: str) -> "RedisCell":
    """Return the cell, created if absent. Raises Refused when schedulers already run in it."""
    from omega.cellstate.server import connect
    from omega.cellstate.store import create_cell

    if name not in app.cells():
        return app.closing(create_cell(connect(app.url), name, url=app.url))
    cell = app.open(name)
    alive = [_at(member, figures) for member, (_, holds, figures) in cell.schedulers.members().items() if holds]
    if alive:
        remedy = "stop it first (omega down), or choose another cell with --cell"
        raise Refused(f"cell {name} is already up ({'; '.join(alive)}); {remedy}")
    return cell


def _at(member: str, figures: Mapping[str, Any]) -> str:
    """Return a scheduler's name with its process, which a killed `omega up` may have left behind."""
    return f"{member}, pid {figures['pid']} on {figures['host']}" if figures.get("pid") else member


def _join(cell: "RedisCell", machines: int, cpu: str, memory: str, attributes: AttributeValues) -> None:
    from omega.cellstate.model import MachineSpec
    from omega.live.simulated.executor import SimulatedExecutor

    capacity = cell.dimensions.parse_capacity({"cpu": cpu, "memory": memory})
    wanted = [MachineSpec(f"m{number}", capacity, attributes_of(attributes, number)) for number in range(machines)]
    indices = cell.machines.indices([machine.name for machine in wanted])
    there = {machine.name for machine in cell.machines.at(sorted(indices.values()))}
    SimulatedExecutor(cell, DEFAULT_EXECUTOR, since_1970).join(
        [machine for machine in wanted if machine.name not in there]
    )


def _simulated(cell: "RedisCell", *, expected: bool) -> bool:
    """Return whether to run simulated machines; warns about machines of an earlier run."""
    try:
        machines = cell.executors.machines_of(DEFAULT_EXECUTOR)
    except Refused:
        return False
    count = sum(state is not MachineState.GONE for _, state in machines)
    if count and not expected:
        there = f"cell {cell.name}: has {units.count(count, 'machine')} that are simulated and run no commands"
        render.warning(f"{there}; remove them with omega machine remove, or choose another cell with --cell")
    return count > 0


def _line(schedulers: "RedisSchedulers", group: "ProcessSupervisor") -> str:
    figures = {name: each for name, each in schedulers.figures().items() if name in group.members}
    conflicts, accepted = (sum(each[name] for each in figures.values()) for name in ("conflicts", "accepted"))
    placed = sum(each["tasks"] for each in figures.values())
    waiting = sum(schedulers.queue_depths().values())
    fraction = conflicts / accepted if accepted else 0.0
    counts = f"{placed:,} tasks placed · {waiting:,} jobs pending · conflicts {fraction:.3f}"
    return f"{len(group.members)} processes · {counts}"


def _watch(app: App, cell: "RedisCell", group: "ProcessSupervisor", seconds: float | None) -> None:
    """Show a status line until the time is over or Ctrl-C; restart processes that end."""
    screen = render.console(stderr=True)
    refused = away = ""
    deadline, failures = None if seconds is None else time.monotonic() + seconds, NewFailures()
    with screen.status(_line(cell.schedulers, group)) as status:
        while deadline is None or time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            for member, code, delay in group.restart_dead():
                again = "does not start again" if isinf(delay) else f"starts again in {units.seconds(delay)}"
                render.warning(f"{member}: {group.end_of(member, code)}; {again}")
            try:
                refused = _tell_refused(cell, refused)
                for error in failures.read(cell, group.members):
                    render.warning(error)
                if screen.is_terminal and not app.as_json:
                    status.update(_line(cell.schedulers, group))
                away = _tell_away(away, "")
            except StoreError as error:  # the members wait for it, and so does this process
                away = _tell_away(away, str(error))


def _tell_away(before: str, now: str) -> str:
    """Print once that the store is away, and once that it answers again; return the error, "" when it answers."""
    if bool(now) != bool(before):
        render.warning(f"store away: {now}" if now else "the store answers again")
    return now


def _tell_refused(cell: "RedisCell", before: str) -> str:
    """Print once that the store refuses writes, and once that it takes them again; return why it refuses them."""
    now = cell.refuses_writes()
    if bool(now) != bool(before):
        render.warning(said(now) or "The store takes writes again")
    return now


def _announce(
    app: App, cell: "RedisCell", group: "ProcessSupervisor", serving: "Serving | None", *, offers: bool
) -> None:
    """Print what runs; `offers`: this computer runs tasks."""
    pids = {member: process.pid for member, process in group.members.items()}
    count = Fleet(cell.sums()).total
    if app.as_json:
        console = {"console": serving.as_json()} if serving else {}
        render.json_line({"store": app.shown_url, "cell": cell.name, "machines": count, "processes": pids} | console)
        return
    render.facts(
        {
            "store": app.shown_url,
            "cell": f"{cell.name} · {units.count(count, 'machine')}",
            "workers": "  ".join(f"{member} (pid {pid})" for member, pid in pids.items()),
        }
    )
    if serving:  # on a line of its own, which a terminal does not break
        render.line(f"console: {serving.login}")
    what = "-- echo hello" if offers else "--name first --duration 5s"
    render.line(f"ready: omega --cell {cell.name} job run --cpu 1 {what}   (Ctrl-C here stops all)")


@click.command("up")
@click.option("--batch", default=2, show_default=True, type=click.IntRange(0, 64), help="Number of batch schedulers.")
@click.option(
    "--service", default=1, show_default=True, type=click.IntRange(0, 64), help="Number of service schedulers."
)
@click.option(
    "--mapreduce", default=0, show_default=True, type=click.IntRange(0, 64), help="Number of MapReduce schedulers."
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="NAME[=N]",
    help="Another scheduler, in N processes (default: 1): an installed name, MODULE:ATTRIBUTE or FILE.toml. "
    "One of kind batch, service or mapreduce replaces those of its kind.",
)
@click.option(
    "--machines",
    type=click.IntRange(0),
    metavar="N",
    help="Number of simulated machines, instead of offering this computer.",
)
@click.option("--cpu", default="16", show_default=True, help="Cores of each simulated machine.")
@click.option("--memory", default="64Gi", show_default=True, help="Memory of each simulated machine.")
@attribute_option("attributes")
@click.option(
    "--speed", default=1.0, show_default=True, type=click.FloatRange(0.01), help="Speed-up of simulated tasks."
)
@click.option(
    "--for", "seconds", type=click.FloatRange(0), metavar="SECONDS", help="Stop after this time (default: at Ctrl-C)."
)
@web_option
@listen_option
@process_options
@click.pass_obj
def up(
    app: App,
    *,
    batch: int,
    service: int,
    mapreduce: int,
    schedulers: Sequence[str],
    machines: int | None,
    cpu: str,
    memory: str,
    attributes: AttributeValues,
    speed: float,
    seconds: float | None,
    web: bool,
    tokens: str | None,
    listen: str,
) -> None:
    """Start the store, a cell, schedulers, and an agent that offers this computer as a machine that runs tasks.

    Ctrl-C or omega down stops them; the cell's state stays in the store.
    """
    from omega.embedded.places import state_directory
    from omega.live.agent.offer import default_name
    from omega.live.processes.record import ProcessRecord
    from omega.live.processes.supervisor import ProcessSupervisor

    name = app.cell_name or DEFAULT_CELL
    numbers, choices = further(schedulers)  # raises before any process starts
    settings = console_settings(web=web, listen=listen, tokens=tokens)
    cell = _open(app, name)
    check_free(settings)
    kinds = {"batch": batch, "service": service, "mapreduce": mapreduce, **numbers}
    members = [f"{kind}/{n}" for kind, number in kinds.items() for n in range(number)]
    members += [f"agent/{default_name()}"] if machines is None else []
    if machines:
        _join(cell, machines, cpu, memory, attributes)
    members += [f"simulated/{DEFAULT_EXECUTOR}"] if _simulated(cell, expected=machines is not None) else []
    state = state_directory()
    record = ProcessRecord.begin(state, name)
    with ProcessSupervisor(app.url, name, state / "logs" / name, speed=speed, record=record, choices=choices) as group:
        for member in members:
            group.start(member)
        group.wait_ready(cell)
        serving = console_of(group, settings) if settings else None
        _announce(app, cell, group, serving, offers=machines is None)
        try:
            _watch(app, cell, group, seconds)
        except KeyboardInterrupt:
            render.note("stopping; the cell's state stays in the store")


@click.command("down")
@click.pass_obj
def down(app: App) -> None:
    """Stop the processes that omega up started on this computer, and their tasks; the cell's state stays in the store.

    The processes are process by a record in the state directory, also after omega up was killed. Without --cell, the
    processes of all cells are stopped. The store keeps running (omega store stop stops it); it need not be reachable.
    """
    from omega.embedded.places import state_directory
    from omega.live.processes.record import end_all, records

    state = state_directory()
    ended = [
        {"cell": record.cell, "member": process.member, "pid": process.pid, "killed": killed}
        for record in records(state, app.cell_name)
        for process, killed in end_all(record, state)
    ]
    if app.as_json:
        render.document({"ended": ended})
        return
    for each in ended:
        how = "killed: it did not stop in time" if each["killed"] else "ended"
        render.line(f"{each['member']} (pid {each['pid']}) of cell {each['cell']}: {how}")
    if not ended:
        render.line("no processes of omega up are running")

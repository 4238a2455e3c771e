"""``omega machine status``."""

import click

from omega.cli import render
from omega.cli.app import App
from omega.queries import units
from omega.queries.event_text import clock, lines
from omega.queries.machine_status import MachineStatus
from omega.queries.machines import find_machines, state_word
from omega.queries.names import Names


@click.command()
@click.argument("name")
@click.option(
    "--verbose", "-v", is_flag=True, help="Add the resources of each task, rejected claims, and the last events."
)
@click.pass_obj
def command(app: App, name: str, verbose: bool) -> None:
    """Show the machine NAME and its running tasks."""
    cell = app.open()
    status = MachineStatus(cell, find_machines(cell, [name])[0])
    if app.as_json:
        render.document(status.as_json(verbose=verbose))
        return
    machine, agent, past = status.machine, status.agent, status.events if verbose else []
    rejected = status.rejected if verbose else {}
    columns = zip(cell.dimensions.names, machine.allocated, machine.capacity, strict=True)
    render.facts(
        {
            "machine": f"{machine.name} (index {machine.index})",
            "state": state_word(machine) + since(status.since_ms, app.now_ms()),
            "starts no tasks": agent and agent.unfit,
        }
        | {each: f"{units.in_use(each, used, has)} · {units.percent(used, has)} in use" for each, used, has in columns}
        | {
            "tasks": f"{status.tasks:,}" + _moved(status.deadline_ms, status.tasks),
            "stopping": _stopping(status),
            "agent": agent and f"{'live' if agent.lives else 'lapsed'} (incarnation {agent.incarnation})",
            "attributes": ", ".join(f"{key}={value}" for key, value in machine.attributes.items()),
            "changes": f"{machine.number:,} (its sequence number)",
            "rejected": ", ".join(f"{units.count(count, 'claim')} of {member}" for member, count in rejected.items()),
        }
    )
    for member, count in status.rejected_in_a_row.items():
        said = f"machine {machine.name} rejected {count:,} claims of {member} in a row"
        render.warning(f"{said}; drain it if it is faulty")
    _show_runs(status, verbose=verbose)
    if past:
        render.line()
        for said in lines(past, Names(cell), app.now_ms()):
            render.line(said)


def _show_runs(status: MachineStatus, *, verbose: bool) -> None:
    if not status.runs:
        return
    rows = []
    for run in status.runs:
        job = status.jobs.get(run.job)
        need = units.amounts(status.cell.dimensions, job.groups[run.group].need) if job else ""
        rows.append(
            {">placement": str(run.placement), "job": run.job, "name": job.name if job else ""}
            | {"user": status.users.get(run.job, ""), ">group": run.group}
            | {"tasks": run.tasks}
            | ({">precedence": str(job.precedence) if job else "", "each task": need} if verbose else {})
            | {"state": "stopping" if run.leaving else "running"}
        )
    render.line()
    render.records(rows)


def _stopping(status: MachineStatus) -> str:
    """Return the tasks whose processes have not ended, and what they still hold."""
    held = status.stopping
    if not held:
        return ""
    names = status.cell.dimensions.names
    amounts = units.amounts(status.cell.dimensions, [held.get(name, 0) for name in names])
    return f"{units.count(held['tasks'], 'task')}, {amounts}: processes that have not ended"


def since(at_ms: int | None, now_ms: int) -> str:
    """Return since when a machine is in its state, as text behind the state."""
    return "" if at_ms is None else f" since {clock(at_ms, now_ms)[:-4]} ({units.age((now_ms - at_ms) / 1000)})"


def _moved(deadline_ms: int | None, tasks: int) -> str:
    """Return when the tasks of a drained machine are moved off, as text; empty without a deadline, or without tasks."""
    if deadline_ms is None or not tasks:
        return ""
    return f" · moved off in {units.seconds(deadline_ms / 1000)}" if deadline_ms > 0 else " · being moved off"

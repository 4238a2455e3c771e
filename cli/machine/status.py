"""``omega machine status``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cellstate.model import MachineState
from cli import render, words
from cli.app import App
from cli.event_words import lines
from omega.queries.events import Event, events, extent
from omega.queries.machines import find_machines, machine_json, state_word, tasks_on
from omega.queries.names import Names

if TYPE_CHECKING:
    from cellstate.model import Job, Run
    from cellstate.ports import Queries


MOST_EVENTS, MOST_VERSIONS = 20, 2_000


@click.command()
@click.argument("name")
@click.option("--verbose", "-v", is_flag=True, help="With what each task takes, rejected claims, and the last events.")
@click.pass_obj
def command(app: App, name: str, verbose: bool) -> None:
    """Show the machine NAME and its running tasks."""
    cell = app.open()
    machine = find_machines(cell, [name])[0]
    runs = cell.runs([machine.index])
    jobs: dict[str, Job | None] = {run.job: cell.job(run.job) for run in runs}
    tasks = tasks_on(runs).get(machine.index, 0)
    deadline = cell.deadlines().get(machine.index) if machine.state is MachineState.DRAINED else None
    agent = cell.agents().get(machine.name)
    past = _events(cell, machine.index) if verbose else []
    rejected = _rejected(cell, machine.index) if verbose else {}
    if app.as_json:
        more: dict[str, Any] = {
            "agent": None if agent is None else {"incarnation": agent.incarnation, "live": agent.lives},
            "deadline_ms": deadline, "runs": [_run(cell, run, jobs[run.job], verbose=verbose) for run in runs],
        }  # fmt: skip
        more |= {"rejections": rejected, "events": [event.as_json() for event in past]} if verbose else {}
        render.document({"cell": cell.name} | machine_json(cell.dimensions, machine, tasks) | more)
        return
    columns = zip(cell.dimensions.names, machine.allocated, machine.capacity, strict=True)
    render.facts(
        {"machine": f"{machine.name} (index {machine.index})", "state": state_word(machine)}
        | {each: f"{words.in_use(each, used, has)} · {words.percent(used, has)} in use" for each, used, has in columns}
        | {
            "tasks": f"{tasks:,}" + _moved(deadline),
            "agent": agent and f"{'live' if agent.lives else 'lapsed'} (incarnation {agent.incarnation})",
            "attributes": ", ".join(f"{key}={value}" for key, value in machine.attributes.items()),
            "changes": f"{machine.number:,} (its sequence number)",
            "rejected": ", ".join(f"{words.count(count, 'claim')} of {member}" for member, count in rejected.items()),
        }
    )
    _show_runs(cell, runs, jobs, verbose=verbose)
    if past:
        render.line()
        for said in lines(past, Names(cell), app.now_ms()):
            render.line(said)


def _run(cell: "Queries", run: "Run", job: "Job | None", *, verbose: bool) -> dict[str, Any]:
    plain = {"placement": run.placement, "job": run.job, "name": job.name if job else "", "group": run.group,
             "tasks": run.tasks, "leaving": run.leaving}  # fmt: skip
    if not verbose or job is None:
        return plain
    return plain | {"precedence": job.precedence, "need": cell.dimensions.numbers(job.groups[run.group].need)}


def _show_runs(cell: "Queries", runs: "Sequence[Run]", jobs: "Mapping[str, Job | None]", *, verbose: bool) -> None:
    if not runs:
        return
    rows = []
    for run in runs:
        job = jobs[run.job]
        need = words.amounts(cell.dimensions, job.groups[run.group].need) if job else ""
        more = (str(job.precedence) if job else "", need) if verbose else ()
        state = "leaving" if run.leaving else "running"
        rows.append((str(run.placement), run.job, job.name if job else "", run.group, run.tasks, *more, state))
    headings = (">precedence", "each task") if verbose else ()
    render.line()
    render.table((">placement", "job", "name", ">group", "tasks", *headings, "state"), rows)


def _events(cell: "Queries", machine: int) -> "list[Event]":
    """The last events of the machine, oldest first, as far as the end of the log has them."""
    kept = extent(cell)
    found = (each for each in events(cell, max(kept.first - 1, kept.newest - MOST_VERSIONS), kept.newest))
    return [each for each in found if each.machine == machine][-MOST_EVENTS:]


def _rejected(cell: "Queries", machine: int) -> dict[str, int]:
    """Return the number of rejected claims on it by scheduler; each reports the machines that reject most."""
    found = {}
    for member, figures in cell.figures().items():
        for index, count, *_ in figures.get("rejecting_machines", []):
            if index == machine:
                found[member] = int(count)
    return found


def _moved(deadline_ms: int | None) -> str:
    """When the tasks of a drained machine are moved off."""
    if deadline_ms is None:
        return ""
    return f" · moved off in {words.seconds(deadline_ms / 1000)}" if deadline_ms > 0 else " · being moved off"

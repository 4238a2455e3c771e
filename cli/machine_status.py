"""``omega machine status``."""

from typing import TYPE_CHECKING

import click

from cellstate.model import MachineState
from cli import render, words
from cli.app import App
from cli.machine_find import find, state_word
from cli.machine_list import as_json, tasks_on

if TYPE_CHECKING:
    from cellstate.model import Job


@click.command()
@click.argument("name")
@click.pass_obj
def command(app: App, name: str) -> None:
    """The machine NAME and what runs on it."""
    cell = app.open()
    machine = find(cell, [name])[0]
    runs = cell.runs([machine.index])
    jobs: dict[str, Job | None] = {run.job: cell.job(run.job) for run in runs}
    named = {job_id: job.name if job else "" for job_id, job in jobs.items()}
    tasks = tasks_on(runs).get(machine.index, 0)
    deadline = cell.deadlines().get(machine.index) if machine.state is MachineState.DRAINED else None
    agent = cell.agents().get(machine.name)
    if app.as_json:
        listed = [
            {"placement": run.placement, "job": run.job, "name": named[run.job], "group": run.group, "tasks": run.tasks,
             "leaving": run.leaving} for run in runs
        ]  # fmt: skip
        more = {"agent": None if agent is None else {"incarnation": agent.incarnation, "live": agent.lives},
                "deadline_ms": deadline, "runs": listed}  # fmt: skip
        render.document({"cell": cell.name} | as_json(cell.dimensions, machine, tasks) | more)
        return
    columns = zip(cell.dimensions.names, machine.allocated, machine.capacity, strict=True)
    render.facts(
        {"machine": f"{machine.name} (index {machine.index})", "state": state_word(machine)}
        | {each: f"{words.in_use(each, used, has)} · {words.percent(used, has)} in use" for each, used, has in columns}
        | {
            "tasks": f"{tasks:,}" + _moved(deadline),
            "agent": ""
            if agent is None
            else f"{'live' if agent.lives else 'lapsed'} (incarnation {agent.incarnation})",
            "attributes": ", ".join(f"{key}={value}" for key, value in machine.attributes.items()),
            "changes": f"{machine.number:,} (its sequence number)",
        }
    )
    if runs:
        render.line()
        rows = [
            (str(run.placement), run.job, named[run.job], run.group, run.tasks, "leaving" if run.leaving else "running")
            for run in runs
        ]
        render.table((">placement", "job", "name", ">group", "tasks", "state"), rows)


def _moved(deadline_ms: int | None) -> str:
    """When the tasks of a drained machine are moved off."""
    if deadline_ms is None:
        return ""
    return f" · moved off in {words.seconds(deadline_ms / 1000)}" if deadline_ms > 0 else " · being moved off"

"""``omega machine drain``, ``up``, ``down``, ``remove``, ``set`` and ``resize``: change machines that are named."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import Refused
from omega.cellstate.model import MachineState
from omega.cli import render
from omega.cli.app import App
from omega.cli.options import NAME, amount_options, named, vector
from omega.queries import units
from omega.queries.machines import find_machines, tasks_on

if TYPE_CHECKING:
    from omega.cellstate.model import Machine, Run
    from omega.cellstate.ports import OperatorStore


_names = click.argument("names", nargs=-1, required=True, metavar="NAME…")


def change(app: App, names: Sequence[str], to: MachineState, done: str, deadline_ms: int | None = None) -> None:
    """Set the state of the machines and print a line for each; `done` is the verb in that line.

    `deadline_ms`: after this time the machines' tasks are evicted; None clears an earlier deadline.
    """
    cell = app.open(to_change=True)
    machines = find_machines(cell, names)
    agents = {agent.number for agent in cell.agents().values() if agent.lives} if to is MachineState.GONE else ()
    answers = []
    for machine in machines:
        put_back = cell.set_machine_state(machine.index, to, app.now_ms(), app.by)
        cell.set_deadline(machine.index, deadline_ms)
        answers.append((machine, put_back))
    runs = cell.runs([machine.index for machine in machines])
    left = tasks_on(runs)
    if to is MachineState.DRAINED and deadline_ms is None:
        for text in endless(cell, runs, {machine.index: machine.name for machine in machines}):
            render.warning(text)
    if app.as_json:
        deadline = {} if deadline_ms is None else {"deadline_ms": deadline_ms}
        changed = [
            {
                "name": machine.name,
                "index": machine.index,
                "before": machine.state.name.lower(),
                "state": to.name.lower(),
                "put_back": put_back,
                "tasks": left.get(machine.index, 0),
                **deadline,
                **({"agent_ends": True} if machine.executor in agents else {}),
            }
            for machine, put_back in answers
        ]
        render.document({"cell": cell.name, "machines": changed})
        return
    for machine, put_back in answers:
        was = " already" if machine.state is to else ""
        more = f" · {units.count(put_back, 'task')} requeued" if put_back else ""
        tasks = left.get(machine.index, 0)
        more += f" · {units.count(tasks, 'task')} still running" if tasks and to is MachineState.DRAINED else ""
        if deadline_ms is not None:
            more += f" · evicted after {units.seconds(deadline_ms / 1000)}" if deadline_ms else " · evicted now"
        more += " · its agent ends" if machine.executor in agents else ""
        render.line(f"machine {machine.name} {done}{was}{more}")


def endless(cell: "OperatorStore", runs: "Sequence[Run]", names: Mapping[int, str]) -> list[str]:
    """Return a warning for each machine that services keep from becoming empty."""
    there = cell.jobs_by_id(sorted({run.job for run in runs if not run.leaving}))
    services = defaultdict[int, set[str]](set)
    for run in runs:
        job = there.get(run.job)
        if job is not None and job.kind == "service" and not run.leaving:
            services[run.machine].add(job.name)
    return [
        f"machine {names[machine]}: drained without a deadline, and keeps {units.listing(sorted(jobs))}: services do "
        "not end by themselves; drain it again with --deadline"
        for machine, jobs in sorted(services.items())
    ]


@click.command()
@_names
@click.option("--deadline", metavar="TIME", help="Time after which tasks that still run are evicted, such as 5m or 0.")
@click.pass_obj
def drain(app: App, names: Sequence[str], deadline: str | None) -> None:
    """Drain machines: running tasks finish, no new tasks are placed. Tasks of services end only at a --deadline.

    With --deadline, tasks still running at the deadline are evicted by any scheduler or agent of the cell, and
    placed elsewhere.
    """
    from omega.cellstate.durations import parse_duration

    change(app, names, MachineState.DRAINED, "drained", None if deadline is None else parse_duration(deadline))


@click.command()
@_names
@click.pass_obj
def up(app: App, names: Sequence[str]) -> None:
    """Mark machines as up: they take tasks again."""
    change(app, names, MachineState.UP, "up")


@click.command()
@_names
@click.pass_obj
def down(app: App, names: Sequence[str]) -> None:
    """Mark machines as failed. Their tasks are pending again at once.

    While the executor of a machine lives, it ends the tasks first: a task starts elsewhere only afterwards.
    """
    change(app, names, MachineState.DOWN, "down")


@click.command()
@_names
@click.pass_obj
def remove(app: App, names: Sequence[str]) -> None:
    """Remove machines from the cell. Their tasks are pending again at once.

    While the executor of a machine lives, it ends the tasks first: a task starts elsewhere only afterwards. The
    agent of a removed machine ends; a new one adds the machine again, without what operators set of the old one.
    """
    change(app, names, MachineState.GONE, "removed")


@click.command()
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE…")
@click.option(
    "--evict", is_flag=True, help="Evict tasks of other pool trees than the one that the machine is in afterwards."
)
@click.pass_obj
def set_(app: App, name: str, changes: Sequence[str], *, evict: bool) -> None:
    """Change attributes of the machine NAME: KEY=VALUE sets one, KEY= removes one. Running tasks stay.

    The change stays when the machine's agent restarts, also against an --attribute of the agent.

    If the change moves the machine to another pool tree, the tasks of other trees must leave: then it is refused
    without --evict.

    Blocked jobs with constraints that the change may satisfy are retried.
    """
    from omega.pools.leaving import after_attributes, check

    asked = _read(changes)
    cell = app.open(to_change=True)
    machine = find_machines(cell, [name])[0]
    leaving = after_attributes(cell, machine.index, asked)
    check(leaving, f"machine {machine.name}", evict=evict)
    cell.set_machine_attributes(machine.index, asked, app.now_ms(), app.by)
    has = dict(cell.described([machine.index])[0][1])
    if app.as_json:
        render.document(
            {
                "cell": cell.name,
                "name": machine.name,
                "index": machine.index,
                "attributes": has,
                "evicted": leaving.total(),
            }
        )
        return
    said = ", ".join(f"{key}={value}" for key, value in has.items()) or "no attributes"
    render.line(f"machine {machine.name} has {said}")


def _read(changes: Sequence[str]) -> Mapping[str, str | None]:
    """Return ``{KEY: VALUE}``, None for attributes to remove. Raises UsageError for a malformed change."""
    values: dict[str, str | None] = {}
    for text in changes:
        key, equals, value = text.partition("=")
        if not (equals and NAME.fullmatch(key)) or key in values:
            raise click.UsageError(
                f"{text!r} is not KEY=VALUE, or KEY is given twice; write for example rack=r7, or rack="
            )
        values[key] = value or None
    return values


@click.command()
@click.argument("name")
@amount_options("of the machine")
@click.option("--evict", is_flag=True, help="Evict tasks that no longer fit: lowest precedence first, newest first.")
@click.pass_obj
def resize(app: App, name: str, cpu: str | None, memory: str | None, others: Mapping[str, str], evict: bool) -> None:
    """Change the capacity of the machine NAME. Resources that are not given stay unchanged.

    The amounts stay when the machine's agent restarts; the agent's own counts apply to the other resources only.

    The command fails when more is allocated on the machine, unless --evict is given.
    """
    amounts = named(cpu, memory, others)
    if not amounts:
        raise click.UsageError("missing amounts; give the new capacity, such as --cpu 16 --memory 64Gi")
    cell = app.open(to_change=True)
    machine = find_machines(cell, [name])[0]
    capacity = vector(cell.dimensions, amounts, machine.capacity)
    given = [amount if name in amounts else None for name, amount in zip(cell.dimensions.names, capacity, strict=True)]
    victims = _victims(cell, machine) if evict else []
    try:
        evicted = cell.set_machine_capacity(machine.index, given, app.now_ms(), app.by, victims)
    except Refused:
        raise Refused(
            f"machine {machine.name}: has more allocated than {units.amounts(cell.dimensions, capacity)}; "
            "add --evict, or drain it first"
        ) from None
    if app.as_json:
        render.document(
            {
                "cell": cell.name,
                "name": machine.name,
                "index": machine.index,
                "capacity": cell.dimensions.numbers(capacity),
                "evicted": evicted,
            }
        )
        return
    more = f" · {units.count(evicted, 'task')} evicted and requeued" if evicted else ""
    render.line(f"machine {machine.name} has {units.amounts(cell.dimensions, capacity)}{more}")


def _victims(cell: "OperatorStore", machine: "Machine") -> list[tuple[int, int]]:
    """Return all placements of a machine as (placement, tasks), in eviction order; the store evicts only as needed."""
    from omega.cellstate.ranges import count

    runs = [run for run in cell.runs([machine.index]) if not run.leaving]
    jobs = {run.job: cell.job(run.job) for run in runs}
    precedence = {job_id: job.precedence if job else 0 for job_id, job in jobs.items()}
    runs.sort(key=lambda run: (precedence[run.job], -run.placement))
    return [(run.placement, count(run.tasks)) for run in runs]

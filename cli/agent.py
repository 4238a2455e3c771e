"""``omega agent``: offer this computer to a cell."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.options import amount_options, attribute_option, named, process_options
from omega.queries import units

if TYPE_CHECKING:
    from omega.live.agent.agent import Agent

LEAST_LEASE_MS = 1_000


@click.command()
@click.option("--name", metavar="NAME", help="Name of the machine (default: this computer's host name).")
@amount_options("to offer", " (default: all that this computer has)")
@attribute_option("attributes", single=True)
@click.option(
    "--lease",
    default="20s",
    show_default=True,
    metavar="TIME",
    help="Time without a heartbeat after which the machine goes offline.",
)
@click.option("--run-as", metavar="USER", help="User that runs the tasks (default: the agent's user); needs root.")
@click.option(
    "--keep-output",
    default="2Gi",
    show_default=True,
    metavar="SIZE",
    help="Disk space for the directories and output of tasks. Those of ended jobs go first, the oldest first; they go, "
    "too, while less than 10 % of the disk is free.",
)
@process_options
@click.pass_obj
def command(
    app: App,
    *,
    name: str | None,
    cpu: str | None,
    memory: str | None,
    others: Mapping[str, str],
    attributes: Mapping[str, str],
    lease: str,
    run_as: str | None,
    keep_output: str,
) -> None:
    """Offer this computer to a cell, and run the tasks that are placed on it, until Ctrl-C.

    Cores and memory are detected, container limits included. Ctrl-C stops the tasks, which are then placed
    elsewhere. The machine stays in the cell, offline, with all that operators set of it (omega machine drain, down,
    set, resize); omega machine remove ends the agent. An agent that was killed and is restarted
    within its lease resumes its tasks; otherwise the tasks are stopped and placed elsewhere.
    """
    from omega.cellstate.durations import parse_duration
    from omega.cellstate.resources import parse_bytes
    from omega.embedded.places import state_directory
    from omega.live.agent.offer import default_name
    from omega.live.agent.process import AgentOptions, run_agent
    from omega.schedulers.process.log import configure

    configure(os.environ)
    lease_ms = parse_duration(lease)
    if lease_ms < LEAST_LEASE_MS:
        raise click.UsageError(f"a lease of {lease} is too short to be renewed in time; use at least 1s")
    app.await_store()
    cell = app.open()
    called = name or default_name()

    def came(agent: "Agent") -> None:
        capacity = agent.machine.capacity
        if app.as_json:
            offered = cell.dimensions.numbers(capacity)
            render.json_line({"cell": cell.name, "agent": called, "capacity": offered})
        else:
            render.line(f"agent {called} on cell {cell.name} · {units.amounts(cell.dimensions, capacity)}")
            render.note("Ctrl-C stops its tasks and deregisters it")

    options = AgentOptions(named(cpu, memory, others), attributes, lease_ms, run_as, parse_bytes(keep_output))
    if run_agent(app.url, cell.name, called, state_directory(), options, came):
        render.note(f"machine {called} was removed from cell {cell.name}; its agent ended")
    else:
        render.note(f"agent {called} left; machine {called} is offline until its agent returns")

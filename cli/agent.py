"""``omega agent``: offer this computer to a cell."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from cli import render, words
from cli.amounts import amount_options, named
from cli.app import App
from cli.attributes import attribute_option
from cli.process_options import process_options

if TYPE_CHECKING:
    from omega.live.agent.agent import Agent

LEAST_LEASE_MS = 1_000


@click.command()
@click.option("--name", metavar="NAME", help="What to call the machine (default: this computer's name).")
@amount_options("to offer (default: what this computer has)")
@attribute_option("attributes", single=True)
@click.option("--lease", default="20s", show_default=True, metavar="TIME",
              help="When the cell gives this machine up after it was last heard of.")  # fmt: skip
@click.option("--run-as", metavar="USER", help="User that tasks run as (default: the agent's own); needs root.")
@process_options
@click.pass_obj
def command(
    app: App, name: str | None, cpu: str | None, memory: str | None, others: Mapping[str, str],
    attributes: Mapping[str, str], lease: str, run_as: str | None,
) -> None:  # fmt: skip
    """Offer this computer to a cell, and run the tasks that are placed on it, until Ctrl-C.

    Cores and memory are found out, the limits of a container included. Ctrl-C ends the tasks, which are
    placed elsewhere. Killed, it finds its tasks again when it is started within its lease; otherwise
    they end by themselves and are placed elsewhere.
    """
    from omega.embedded_places import state_directory
    from omega.jobfile import parse_duration
    from omega.live.agent.offer import default_name
    from omega.live.agent.process import AgentOptions, run_agent
    from schedulers.process_log import configure

    configure(os.environ)
    lease_ms = parse_duration(lease)
    if lease_ms < LEAST_LEASE_MS:
        raise click.UsageError(f"a lease of {lease} is too short to be renewed in time; want at least 1s")
    cell = app.open()
    called = name or default_name()

    def came(agent: "Agent") -> None:
        capacity = agent.machine.capacity
        if app.as_json:
            offered = cell.dimensions.numbers(capacity)
            render.json_line({"cell": cell.name, "agent": called, "capacity": offered})
        else:
            render.line(f"agent {called} on cell {cell.name} · {words.amounts(cell.dimensions, capacity)}")
            render.note("Ctrl-C ends its tasks and leaves")

    options = AgentOptions(named(cpu, memory, others), attributes, lease_ms, run_as)
    run_agent(app.url, cell.name, called, state_directory(), options, came)
    render.note(f"agent {called} left")

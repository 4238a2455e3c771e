"""``omega sim``: the lightweight simulator."""

import click

from cli.lazy import Lazy

TABLE = {
    "run": ("cli.sim.run", "Simulate one architecture on one workload."),
    "mapreduce": ("cli.sim.mapreduce", "What sizing policies bring MapReduce jobs (Omega §6)."),
    "sweep": ("cli.sim.sweep", "Vary parameters; resumable, on all cores or a Dask cluster."),
    "figure": ("cli.sim.figure", "Draw figure 2 to 10, 15 or 16 of the Omega paper."),
    "report": ("cli.sim.report", "Set every claim of the paper beside what is measured: docs/reproduction.md."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Simulate cells and compare scheduling architectures, in virtual time."""

"""``omega bench``: measure the store and the schedulers. Only a checkout has the harness, a wheel does not."""

import click

from omega.cli.lazy import Lazy

TABLE = {
    "commit": ("omega.cli.bench.commit", "Commits per second, beside the same writes without any check."),
    "conflict": ("omega.cli.bench.conflict", "Conflict fraction and tasks per second of real schedulers."),
    "blocked": ("omega.cli.bench.blocked", "Cost of jobs that fit nowhere for jobs that do."),
    "intake": ("omega.cli.bench.intake", "Server time for the best jobs of a long queue."),
    "fair": ("omega.cli.bench.fair", "Time in which pools of a full cell reach their fair shares."),
    "instructions": ("omega.cli.bench.instructions", "Instructions of the server for a job, counted with valgrind."),
    "lists": ("omega.cli.bench.lists", "Time of pages of jobs and machines, and of the state of a cell."),
    "place": ("omega.cli.bench.place", "Time to place a job, cost of a sync, memory, fair shares."),
    "sync": ("omega.cli.bench.place", "Alias of place."),
    "sim": ("omega.cli.bench.sim", "Speed of the simulator, and its figures beside those of the authors' simulator."),
    "all": ("omega.cli.bench.everything", "Run all measurements and compare them with earlier ones."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Measure the store and the schedulers.

    Each measurement starts a server of its own without persistence and removes it afterwards.
    --store measures another server, in a cell created for the purpose; OMEGA_STORE is not used.
    """

"""``omega scheduler``: run schedulers and show their figures."""

import click

from omega.cli.lazy import Lazy

TABLE = {
    "run": ("omega.cli.scheduler.run", "Run schedulers of a kind until Ctrl-C."),
    "policies": ("omega.cli.scheduler.policies", "List installed schedulers and policies with their parameters."),
    "status": ("omega.cli.scheduler.status", "Show a scheduler: figures, queues, machines that reject its claims."),
    "list": ("omega.cli.scheduler.list", "List schedulers: jobs, conflicts, waits, busyness."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Run schedulers and show their figures."""

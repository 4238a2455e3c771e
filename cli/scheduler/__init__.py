"""``omega scheduler``: run schedulers and see how they do."""

import click

from cli.lazy import Lazy

TABLE = {
    "run": ("cli.scheduler.run", "Run schedulers of a kind until Ctrl-C."),
    "policies": ("cli.scheduler.policies", "The schedulers and policies there are, and what can be set of each."),
    "status": ("cli.scheduler.status", "One scheduler in full: figures, queues, machines that reject its claims."),
    "list": ("cli.scheduler.list", "The schedulers: work done, conflicts, waits, busyness."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Run schedulers and see how they do."""

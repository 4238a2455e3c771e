"""``omega scheduler``: run schedulers and see how they do."""

import click

from cli.lazy import Lazy

TABLE = {
    "run": ("cli.scheduler_run", "Run schedulers of a kind until Ctrl-C."),
    "policies": ("cli.scheduler_policies", "The schedulers and policies there are, and what can be set of each."),
    "status": ("cli.scheduler_status", "One scheduler in full: figures, queues, machines that reject its claims."),
    "list": ("cli.scheduler_list", "The schedulers: work done, conflicts, waits, busyness."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Run schedulers and see how they do."""

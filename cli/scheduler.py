"""``omega scheduler``: run schedulers and see how they do."""

import click

from cli.lazy import Lazy

TABLE = {
    "run": ("cli.scheduler_run", "Run schedulers of a kind until Ctrl-C."),
    "list": ("cli.scheduler_list", "The schedulers: work done, conflicts, waits, busyness."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Run schedulers and see how they do."""

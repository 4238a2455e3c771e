"""``omega machine``: see and change machines."""

import click

from cli.lazy import Lazy

TABLE = {
    "list": ("cli.machine_list", "The machines, their states and what is in use."),
    "status": ("cli.machine_status", "One machine and what runs on it."),
    "add": ("cli.machine_add", "Add machines."),
    "set": ("cli.machine_set", "Change attributes of a machine."),
    "resize": ("cli.machine_resize", "Change what a machine has."),
    "drain": ("cli.machine_drain", "Let machines finish what they run and take nothing new."),
    "up": ("cli.machine_up", "Let machines take tasks again."),
    "down": ("cli.machine_down", "Take machines as failed: what ran on them is placed again."),
    "remove": ("cli.machine_remove", "Remove machines: what ran on them is placed again."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """See and change machines. A machine is given by its name, its index, or the beginning of its name."""

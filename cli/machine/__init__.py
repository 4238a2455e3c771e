"""``omega machine``: see and change machines."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="machine",
    help="List and change machines. A machine is given by its name, its index, or the beginning of its name.",
    table={
        "list": ("omega.cli.machine.list", "List machines with state and use."),
        "status": ("omega.cli.machine.status", "Show a machine and its running tasks."),
        "add": ("omega.cli.machine.add", "Add machines."),
        "set": ("omega.cli.machine.change:set_", "Change attributes of a machine."),
        "resize": ("omega.cli.machine.change:resize", "Change the capacity of a machine."),
        "drain": ("omega.cli.machine.change:drain", "Drain machines: running tasks finish, no new ones start."),
        "up": ("omega.cli.machine.change:up", "Let machines take tasks again."),
        "down": ("omega.cli.machine.change:down", "Mark machines as failed; their tasks are stopped and placed again."),
        "remove": ("omega.cli.machine.change:remove", "Remove machines; their tasks are stopped and placed again."),
        "simulate": ("omega.cli.machine.simulate", "Run a simulated executor for machines that were added."),
    },
)

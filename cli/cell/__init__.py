"""``omega cell``: create, list, verify and delete cells."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="cell",
    help="Create, list, verify and delete cells.",
    table={
        "create": ("omega.cli.cell.lifecycle:create", "Create a cell, optionally with machines."),
        "list": ("omega.cli.cell.status:list_", "List the cells of the store."),
        "status": ("omega.cli.cell.status", "Summarize a cell: machines, use, jobs, schedulers, limits, conflicts."),
        "verify": ("omega.cli.cell.verify", "Check every invariant; exit 1 on a violation."),
        "record": ("omega.cli.cell.record", "Record what happens in a cell to a file, for what-if questions."),
        "backtest": ("omega.cli.cell.backtest", "Run a recording again under other settings, and compare."),
        "limits": ("omega.cli.cell.limits", "Show or set limits on all jobs of a kind."),
        "durability": ("omega.cli.cell.durability", "Show or change what a change needs to be acknowledged."),
        "upgrade": ("omega.cli.cell.lifecycle:upgrade", "Give a cell the rules of this version of Omega."),
        "delete": ("omega.cli.cell.lifecycle:delete", "Delete a cell and everything in it."),
    },
)

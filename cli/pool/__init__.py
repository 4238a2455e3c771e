"""``omega pool``: pools of a cell and fair shares of pool trees."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="pool",
    help="Configure pools and compute fair shares of pool trees.",
    table={
        "list": ("omega.cli.pool.list:list_", "List pools with demand, usage, fair share and status."),
        "show": ("omega.cli.pool.show", "Show the settings, shares and volume of a pool."),
        "set": ("omega.cli.pool.set", "Create a pool or change its settings."),
        "remove": ("omega.cli.pool.set:remove", "Remove pools without jobs."),
        "plan": ("omega.cli.pool.files:plan", "Show fair shares before and after an import."),
        "import": ("omega.cli.pool.files:import_", "Replace all pools by those of a file."),
        "export": ("omega.cli.pool.files:export", "Print all pools as YAML."),
        "watch": ("omega.cli.pool.list:watch", "Print the pools whenever something changes."),
        "compute": ("omega.cli.pool.compute", "Compute fair shares of a pool tree in a file; needs no store."),
    },
)

"""``omega experiment``: the paper's claims as experiments."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="experiment",
    help="Check the claims of the Omega paper by simulation.",
    table={
        "list": ("omega.cli.experiment.run:list_", "List the claims, their sources and the expected results."),
        "run": ("omega.cli.experiment.run:run", "Run experiments and print their measurements."),
        "check": ("omega.cli.experiment.run:check", "Run experiments; exit 1 when a claim does not hold."),
    },
)

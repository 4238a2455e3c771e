"""``omega scheduler``: run schedulers and show their figures."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="scheduler",
    help="Run schedulers and show their figures.",
    table={
        "run": ("omega.cli.scheduler.run", "Run schedulers of a kind until Ctrl-C."),
        "policies": ("omega.cli.scheduler.policies", "List installed schedulers and policies with their parameters."),
        "test": ("omega.cli.scheduler.test", "Test the policies of a file with their contracts, and with mutants."),
        "status": ("omega.cli.scheduler.status", "Show a scheduler: figures, queues, machines that reject its claims."),
        "list": ("omega.cli.scheduler.status:list_", "List schedulers: jobs, conflicts, waits, busyness."),
    },
)

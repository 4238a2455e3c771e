"""``omega sim``: the event-driven simulator."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="sim",
    help="Simulate cells and compare scheduling architectures, in virtual time.",
    table={
        "run": ("omega.cli.sim.run", "Simulate one architecture on one workload."),
        "replay": ("omega.cli.sim.replay", "Replay a trace with the schedulers that run live."),
        "mapreduce": ("omega.cli.sim.mapreduce", "Compare sizing policies of MapReduce jobs (Omega §6)."),
        "hierarchies": (
            "omega.cli.sim.figure:hierarchies",
            "Compare two forms of hierarchical dominant resource fairness.",
        ),
        "copies": ("omega.cli.sim.copies", "Simulate copies of slow tasks."),
        "delay": ("omega.cli.sim.delay", "Compute the offers to refuse for a wanted locality."),
        "slots": (
            "omega.cli.sim.slots",
            "Compare the claims on delay scheduling with measurements: docs/delay-scheduling.md.",
        ),
        "sweep": ("omega.cli.sim.sweep", "Vary parameters, resumably, on all cores or a Dask cluster."),
        "figure": ("omega.cli.sim.figure", "Draw figure 2 to 10, 15 or 16 of the Omega paper."),
        "report": ("omega.cli.sim.report", "Compare every claim of the paper with measurements: docs/reproduction.md."),
    },
)

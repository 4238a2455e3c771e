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
        "figure": ("omega.cli.sim.figure", "Draw figures 2 to 16 of the Omega paper; 11 to 14 need a trace."),
        "report": ("omega.cli.sim.report", "Compare every claim of the paper with measurements: docs/reproduction.md."),
        "high-fidelity": (
            "omega.cli.sim.high_fidelity",
            "Compare the paper's claims about a trace with measurements: docs/high-fidelity.md.",
        ),
    },
)

"""``omega bench``: measure the store and the schedulers. The commands and the harness are in a checkout only."""

import click

from omega.cli.lazy import Lazy

TABLE = {
    "commit": ("benchmarks.command.commit", "Commits per second, beside the same writes without any check."),
    "conflict": ("benchmarks.command.conflict", "Conflict fraction and tasks per second of real schedulers."),
    "blocked": ("benchmarks.command.queues:blocked", "Cost of jobs that fit nowhere for jobs that do."),
    "intake": ("benchmarks.command.queues:intake", "Server time for the best jobs of a long queue."),
    "durability": ("benchmarks.command.durability", "Cost of changes that replicas have, or that are synced."),
    "fair": ("benchmarks.command.fair", "Time in which pools of a full cell reach their fair shares."),
    "instructions": (
        "benchmarks.command.commit:instructions",
        "Instructions of the server for a job, counted with valgrind.",
    ),
    "latency": ("benchmarks.command.latency", "Time from a submission until its task runs, on an agent."),
    "lists": ("benchmarks.command.queues:lists", "Time of pages of jobs and machines, and of the state of a cell."),
    "questions": (
        "benchmarks.command.queues:questions",
        "Cost of commands in cells of a million running tasks and of 840,000 pending jobs.",
    ),
    "tasks": ("benchmarks.command.tasks", "Rate, processor time and memory of tasks on an agent."),
    "web": (
        "benchmarks.command.web",
        "Memory, time and cost to the store of the mirror behind the web console.",
    ),
    "web-submissions": ("benchmarks.command.web_submissions", "Submissions by HTTP, and what a job costs omega serve."),
    "place": ("benchmarks.command.place", "Time to place a job, cost of a sync, memory, fair shares."),
    "sync": ("benchmarks.command.place", "Alias of place."),
    "sim": (
        "benchmarks.command.sim",
        "Speed of the simulator; its figures beside those of the authors' simulator.",
    ),
    "all": ("benchmarks.command.everything", "Run all measurements and compare them with earlier ones."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Measure the store and the schedulers.

    Each measurement starts a server of its own without persistence and removes it afterwards.
    --store measures another server, in a cell created for the purpose; OMEGA_STORE is not used.
    """

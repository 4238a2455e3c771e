"""``omega job``: submit, follow, see, change and stop jobs."""

import click

from cli.lazy import Lazy

TABLE = {
    "submit": ("cli.job.submit", "Submit the jobs of files, and follow them."),
    "run": ("cli.job.run", "Submit one job from the command line, and follow it."),
    "plan": ("cli.job.plan", "What would become of the jobs of files; nothing is submitted."),
    "list": ("cli.job.list", "The jobs, their states and why they are so."),
    "status": ("cli.job.status", "One job: its tasks, where they run, its history."),
    "why": ("cli.job.why", "Why a job is pending, in counts, and what would help."),
    "logs": ("cli.job.logs", "What a task of a job said."),
    "wait": ("cli.job.wait", "Wait for a job's end; exits with its fate."),
    "hold": ("cli.job.hold", "Give jobs no new placements; what runs, runs on."),
    "release": ("cli.job.release", "Let held jobs be placed again."),
    "resize": ("cli.job.resize", "Give a job more tasks, or fewer."),
    "update": ("cli.job.update", "Make a running job what a file says, task by task."),
    "stop": ("cli.job.stop", "Stop jobs: nothing more is placed, what runs is ended."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Submit, follow, see, change and stop jobs. A job is given by its id, the beginning of its id, or its name."""

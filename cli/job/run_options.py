"""The options of a job of identical tasks: of `omega job run`, and of the scripts that `omega job submit` takes."""

import click

from omega.cli.options import amount_options, combined, pairs

run_options = combined(
    click.option("--name", metavar="NAME", help="Name of the job (default: from the command)."),
    click.option(
        "--kind",
        default="batch",
        show_default=True,
        metavar="KIND",
        help="Job type; schedulers of that type place the job. Failed tasks of a service restart.",
    ),
    click.option(
        "--count",
        default=1,
        show_default=True,
        type=click.IntRange(1, 10_000_000),
        metavar="N",
        help="Number of tasks.",
    ),
    amount_options("of each task"),
    click.option("--duration", metavar="TIME", help="Duration of a task on simulated machines, such as 30s."),
    click.option(
        "--env",
        "environment",
        metavar="NAME=VALUE",
        multiple=True,
        callback=pairs,
        help="Environment variable of the tasks; repeatable.",
    ),
    click.option(
        "--directory", metavar="DIR", help="Working directory (default: the current one, on machines that have it)."
    ),
    click.option("--runner", metavar="NAME", help="Task runner that starts CMD, such as podman."),
    click.option("--image", metavar="NAME", help="Container image for the runner, or what else it takes."),
    click.option(
        "--repeatable", is_flag=True, help="CMD may run twice, also at the same time: its tasks may get copies."
    ),
    click.option(
        "--speculation",
        metavar="RULES",
        help="Copy slow tasks to other machines: true, or fields as in job files, such as after=30m,factor=3.",
    ),
    click.option(
        "--output", metavar="PATTERN", help="File for stdout below the working directory, such as out/{index}.txt."
    ),
    click.option("--error", metavar="PATTERN", help="File for stderr, as --output."),
    click.option("--time-limit", metavar="TIME", help="Maximum run time of a task, such as 10m."),
    click.option(
        "--restart",
        default=0,
        show_default=True,
        type=click.IntRange(0, 1_000),
        metavar="N",
        help="Number of restarts of a failed task on its machine (service: 2 within 30 min).",
    ),
    click.option(
        "--precedence",
        default=0,
        show_default=True,
        type=click.IntRange(0, 1_000_000),
        metavar="N",
        help="Priority of the job: it may evict tasks of lower precedence.",
    ),
    click.option("--user", metavar="NAME", help="Owner of the job (default: OMEGA_USER, else the login name)."),
    click.option("--pool", metavar="PATH", help="Leaf pool of the job."),
    click.option(
        "--weight", type=click.FloatRange(0.001, 100_000), help="Part among the jobs of its pool (default: 1)."
    ),
    click.option(
        "--constraint",
        "constraints",
        multiple=True,
        metavar="TEXT",
        help="Condition on machine attributes, such as \"rack in ['r1', 'r2']\"; repeatable.",
    ),
    click.option(
        "--policy",
        "own",
        metavar="NAME=VALUE",
        multiple=True,
        callback=pairs,
        help="Field that a policy of the kind declares (omega scheduler policies); repeatable.",
    ),
    click.option("--gang", is_flag=True, help="Place all tasks in one transaction, or none."),
    click.option(
        "--gang-min",
        type=click.IntRange(1),
        metavar="N",
        help="As --gang, for N tasks at least; the others are placed as room becomes free.",
    ),
    click.option("--simulate", is_flag=True, help="Allow simulated machines; tasks do not run CMD."),
    click.option(
        "--strict-gang", is_flag=True, help="As --gang; evicting a task evicts all, or what --gang-min leaves."
    ),
    click.option(
        "--after",
        "waits",
        multiple=True,
        metavar="JOB[:any]",
        help="Start after JOB has finished, or with :any has ended in any state; repeatable.",
    ),
    click.option(
        "--array", metavar="A-B,…", help="Run one task per index, such as 0-99, 1-9:2 or 3,20,37; replaces --count."
    ),
)
"""All but those that say what happens after the submission."""
RUN_OPTIONS = frozenset(str(each.name) for each in run_options(click.Command("options", callback=None)).params)

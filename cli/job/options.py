"""Options that several commands of jobs take."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def follow_options(function: F) -> F:
    """Add --follow and --detach; the default depends on whether stdout is a terminal."""
    return click.option(
        "--follow/--detach",
        "follow",
        default=None,
        help="Follow the jobs to their end; the exit status reflects their results (default on a terminal).",
    )(function)


def hold_option(function: F) -> F:
    """Add --hold."""
    return click.option("--hold", is_flag=True, help="Place no task until omega job release.")(function)


def check_option(function: F) -> F:
    """Add --check-index: refuse the change if the job was changed since."""
    return click.option(
        "--check-index",
        "check",
        type=click.IntRange(0),
        metavar="N",
        help="Refuse the change unless this is the job's modify index (printed by submit, status and list --json).",
    )(function)


def force_option(function: F) -> F:
    """Add --force: change jobs of other users too."""
    return click.option("--force", is_flag=True, help="Change jobs of other users too.")(function)


def jobs_options(function: F) -> F:
    """Add the argument JOB…, --check-index and --force."""
    jobs = click.argument("jobs", nargs=-1, required=True, metavar="JOB…")
    return jobs(check_option(force_option(function)))


def one_only(jobs: Sequence[str], check: int | None) -> None:
    """Raise UsageError when --check-index is given with several jobs: an index belongs to one job."""
    if check is not None and len(jobs) > 1:
        raise click.UsageError("--check-index needs exactly one JOB")

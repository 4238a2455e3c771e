"""Options and input that several commands of jobs take."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omega.cli.options import combined

if TYPE_CHECKING:
    from omega.jobfile.reader import JobFile

follow_option = click.option(
    "--follow/--detach",
    "follow",
    default=None,
    help="Follow the jobs to their end; the exit status reflects their results (default on a terminal).",
)
hold_option = click.option("--hold", is_flag=True, help="Place no task until omega job release.")
check_option = click.option(
    "--check-index",
    "check",
    type=click.IntRange(0),
    metavar="N",
    help="Refuse the change unless this is the job's modify index (printed by submit, status and list --json).",
)
force_option = click.option("--force", is_flag=True, help="Change jobs of other users too.")
jobs_options = combined(click.argument("jobs", nargs=-1, required=True, metavar="JOB…"), check_option, force_option)


def one_only(jobs: Sequence[str], check: int | None) -> None:
    """Raise UsageError when --check-index is given with several jobs: an index belongs to one job."""
    if check is not None and len(jobs) > 1:
        raise click.UsageError("--check-index needs exactly one JOB")


def read_bytes(name: str) -> bytes:
    """Return what a file holds, - for stdin. Raises BadInput."""
    from omega import submission

    return sys.stdin.buffer.read() if name == "-" else submission.read_bytes(Path(name))


def job_file(name: str, data: bytes) -> "JobFile":
    """Return the job file of a name as typed. Raises BadInput."""
    from omega import submission

    return submission.job_file("stdin" if name == "-" else name, data)


def read_file(name: str) -> "JobFile":
    """Read a job file, - for stdin. Raises BadInput."""
    return job_file(name, read_bytes(name))

"""Reading of the job files that commands take."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from omega import submission

if TYPE_CHECKING:
    from omega.jobfile.reader import JobFile


def read_file(name: str) -> "JobFile":
    """Read a job file, - for stdin. Raises BadInput."""
    return submission.job_file("stdin", sys.stdin.buffer.read()) if name == "-" else submission.read_file(Path(name))

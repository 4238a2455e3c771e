"""Job files, read and turned into the jobs that they hold."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cellstate.errors import BadInput

if TYPE_CHECKING:
    from omega.jobfile import JobFile


def read_file(name: str) -> "JobFile":
    """A job file's text, - for stdin. Raises BadInput."""
    from omega.jobfile import JobFile

    try:
        if name == "-":
            return JobFile("stdin", sys.stdin.buffer.read().decode())
        return JobFile(name, Path(name).read_bytes().decode())
    except OSError as error:
        raise BadInput(f"job file {name}: {error.strerror}; give a file that can be read") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"job file {name}: not UTF-8 text at byte {error.start}; save it as such") from None

"""Job files, read and turned into the jobs that they hold."""

import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cellstate.errors import BadInput
from cli.app import App
from omega.queries.finding import find_job

if TYPE_CHECKING:
    from cellstate.model import JobSpec
    from cellstate.redis import RedisCell
    from omega.jobfile import JobFile


def new_id() -> str:
    """A random job id of 12 hexadecimal digits."""
    return secrets.token_hex(6)


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


def jobs_of(cell: "RedisCell", files: "Sequence[JobFile]") -> "list[JobSpec]":
    """The jobs of files, in the amounts of a cell; those without an id get a new one. Raises BadInput."""
    from omega.jobfile import load

    return load(files, cell.dimensions, new_id, lambda name: find_job(cell, name).id)


def stamped(app: App, spec: "JobSpec", account: str = "") -> "JobSpec":
    """A job with its user: that of the connection (`account`), else the one it names, else who runs the program."""
    if account:
        return replace(spec, extra={**spec.extra, "user": account, "verified": True})
    return replace(spec, extra={"user": app.user, **spec.extra})

"""Jobs of Facebook's clusters as the SWIM repository publishes them: tab-separated lines, plain or compressed.

Columns: name, submission (seconds), gap (seconds), bytes of the input, of the shuffle and of the output, and in some
files the paths of input and output. The files hold no tasks.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omega.cellstate.errors import BadInput

COLUMNS = 6
"""Columns that every file has; the path of the input follows."""


@dataclass(frozen=True, slots=True)
class SwimJob:
    """A job: submission in seconds, bytes of its input, and the path of it, ``""`` where the file names none."""

    name: str
    at: float
    input_bytes: int
    path: str = ""


def read_swim(path: Path) -> list[SwimJob]:
    """Return the jobs of a file. Raises BadInput with file and line."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            return list(_jobs(path, file))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error})") from None


def _jobs(path: Path, lines: Iterator[str]) -> Iterator[SwimJob]:
    for number, line in enumerate(lines, 1):
        columns = line.rstrip("\n").split("\t")
        try:
            at, size = float(columns[1]), int(columns[3])
            if len(columns) < COLUMNS or not 0 <= at < float("inf") or size < 0:
                raise ValueError
        except (ValueError, IndexError):
            raise BadInput(f"{path}:{number}: no job of SWIM; want name, submission, gap and three sizes") from None
        yield SwimJob(columns[0], at, size, columns[COLUMNS].strip() if len(columns) > COLUMNS else "")

"""The files of a directory with Google's 2011 trace (clusterdata-2011-2): tables in numbered parts."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.traces.csv_blocks import Block, blocks
from omega.traces.trace import Defects

WIDTHS = {"machine_events": 6, "job_events": 8, "task_events": 13, "machine_attributes": 5, "task_constraints": 6}
OPTIONAL = ("task_constraints", "machine_attributes")
NEEDED = ("machine_events", "job_events", "task_events")
MISSING_PART, PART_TWICE = "missing-part", "part-twice"
_PART = re.compile(r"part-(\d+)(?:-of-(\d+))?\.csv(\.gz)?")


def looks_like_google(path: Path) -> bool:
    """Return whether a directory has one of the tables that every trace needs."""
    return path.is_dir() and any((path / table).is_dir() for table in NEEDED)


def parts(directory: Path, table: str, defects: Defects, *, skip: bool) -> list[Path]:
    """Return the files of a table in order. Raises BadInput when there are none, or one between others is missing.

    With `skip` missing parts are counted. Of a part that is there twice, the compressed file counts.
    """
    numbered: dict[int, Path] = {}
    for path in sorted((directory / table).glob("part-*")):
        if (found := _PART.fullmatch(path.name)) is None:
            continue
        number = int(found[1])
        if number in numbered:
            defects.add(PART_TWICE, 1, [str(path)])
        if number not in numbered or found[3]:
            numbered[number] = path
    if not numbered:
        raise BadInput(f"trace {directory}: no {table}/part-*.csv.gz in it; fetch at least one part")
    missing = [number for number in range(min(numbered), max(numbered)) if number not in numbered]
    if missing:
        if not skip:
            raise BadInput(
                f"{directory / table}: part {missing[0]:05} is missing between others; fetch it, or add --skip-bad-rows"
            )
        defects.add(MISSING_PART, len(missing), (f"{directory / table}: part {number:05}" for number in missing))
    return [numbered[number] for number in sorted(numbered)]


def begins_the_trace(path: Path) -> bool:
    """Return whether a file is the first part of its table."""
    found = _PART.fullmatch(path.name)
    return found is not None and int(found[1]) == 0


def table_blocks(paths: Sequence[Path], table: str, defects: Defects, *, skip: bool) -> Iterator[Block]:
    """Yield the rows of a table, part after part."""
    for path in paths:
        yield from blocks(path, WIDTHS[table], defects, skip=skip)

"""Lines of small text files, plain or gzip, with their numbers."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.traces.csv_blocks import BAD_ROW, CUT_SHORT, opened
from omega.traces.trace import Defects

LONGEST = 1 << 20
"""Characters of the longest line: a longer one belongs to no trace."""


def lines(path: Path, defects: Defects, *, skip: bool) -> Iterator[tuple[int, str]]:
    """Yield number and text of every line, without its end.

    Raises BadInput (file, row) when the file cannot be read, unless `skip`: then what can be read is yielded.
    """
    number = 0
    try:
        with opened(path) as file:
            while line := file.readline(LONGEST):
                number += 1
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
    except (OSError, EOFError, zlib.error) as error:
        if not skip:
            raise BadInput(f"{path}:{number + 1}: cannot be read ({error}); fetch the file again") from None
        defects.add(CUT_SHORT, 1, [f"{path}:{number + 1}"])


def first_lines(path: Path, count: int = 100) -> Sequence[str]:
    """Return the first lines of a file; none when it cannot be read."""
    try:
        return [text for _, text in islice(lines(path, Defects({CUT_SHORT: ""}), skip=True), count)]
    except BadInput:
        return []


class RowError(Exception):
    """A row is wrong: why, and what is wanted."""


def refuse(place: str, error: RowError, defects: Defects, *, skip: bool) -> None:
    """Raise BadInput for a bad row, or count it with `skip`."""
    if not skip:
        raise BadInput(f"{place}: {error}") from None
    defects.add(BAD_ROW, 1, [place])

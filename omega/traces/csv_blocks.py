"""Columns of large comma-separated files without quotes, plain or gzip, a few MiB at a time.

numpy reads the digits of a whole block at once: 0.9 million rows take a second of processor time, and only one block is
in memory.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import shown
from omega.traces.trace import Defects

BLOCK = 4 << 20
"""Bytes that are read at a time."""
_COMMA, _END, _RETURN, _ZERO, _POINT = 44, 10, 13, 48, 46
_MOST_DIGITS = 18
"""Digits that always fit 64 bits; of 19 digits, numbers up to `_LARGEST` do."""
LONGEST_ROW = 8 << 20
"""Bytes of the longest row: a longer one belongs to no trace."""
_GZIP = b"\x1f\x8b"
"""First bytes of a compressed file."""
_EXACT_DIGITS = 15
"""Digits of whole numbers that float64 has exactly."""
_LARGEST = 2**63 - 1
_MARGIN = b"\0" * _MOST_DIGITS
"""Before the first byte of a block, so that a window of digits may begin before it."""
BAD_ROW, CUT_SHORT, NO_ROWS = "bad-row", "cut-short", "no-rows"
RULES = {
    BAD_ROW: "rows that cannot be read: left out",
    CUT_SHORT: "files that end early or are damaged: read up to there",
    NO_ROWS: "files without a row: read as they are",
}
"""Rules of every reader of rows, which apply with ``--skip-bad-rows`` alone."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Block:
    """Rows of a file; values of a column are read on demand, and rows with wrong ones are marked as bad."""

    path: Path
    rows: Ints
    """Number of each row in its file, from 1."""
    data: NDArray[np.uint8]
    starts: Ints
    """First byte of each field: an array of rows × columns."""
    ends: Ints
    bad: dict[int, str] = field(default_factory=dict)
    """By place in the block: what is wrong."""

    def __len__(self) -> int:
        return len(self.rows)

    def text(self, row: int, column: int) -> str:
        """Return a field."""
        return self.data[self.starts[row, column] : self.ends[row, column]].tobytes().decode("ascii", "replace")

    def mark(self, wrong: Bools, column: int, wanted: str) -> None:
        """Mark rows as bad."""
        for row in np.flatnonzero(wrong).tolist():
            self.bad.setdefault(row, f"{shown(self.text(row, column))} is not {wanted}")

    def naturals(self, column: int, wanted: str, *, most: int = _LARGEST, missing: int | None = None) -> Ints:
        """Return whole numbers from 0 to `most`; `missing` stands for empty fields, which are bad if it is None."""
        values, wrong = _digits(self.data, self.starts[:, column], self.ends[:, column])
        empty = self.starts[:, column] == self.ends[:, column]
        wrong |= values > most
        if missing is None:
            wrong |= empty
        else:
            values[empty] = missing
        self.mark(wrong, column, wanted)
        return values

    def shares(self, column: int, wanted: str, most: float = 1.0) -> Floats:
        """Return numbers from 0 to `most`; NaN for empty fields."""
        values, other = _decimals(self.data, self.starts[:, column], self.ends[:, column])
        known: dict[str, float] = {}
        for row in np.flatnonzero(other).tolist():  # with exponents, or no numbers
            text = self.text(row, column)
            if text not in known:
                known[text] = _number(text)
            values[row] = known[text]
        values[self.starts[:, column] == self.ends[:, column]] = 0.0
        self.mark(~((values >= 0) & (values <= most)), column, wanted)
        values[self.starts[:, column] == self.ends[:, column]] = np.nan
        return values

    def flags(self, column: int) -> Bools:
        """Return whether a field is ``1``; empty ones and all others are false."""
        starts, ends = self.starts[:, column], self.ends[:, column]
        one: Bools = self.data[np.minimum(starts, len(self.data) - 1)] == _ZERO + 1
        one &= ends - starts == 1
        return one


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _window(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[NDArray[np.uint8], Bools]:
    """Return the last bytes before `ends`, as many as the longest field has, and which of them belong to the field."""
    lengths = ends - starts
    width = max(1, min(int(lengths.max(initial=1)), _MOST_DIGITS))
    letters = np.lib.stride_tricks.sliding_window_view(data, width)[ends - width]
    return letters, np.arange(width, 0, -1) <= lengths[:, None]


def _whole(digits: NDArray[np.uint8]) -> Ints:
    """Return the numbers that rows of digits are."""
    width = digits.shape[1]
    if width <= _EXACT_DIGITS:  # float64 is exact and faster
        return (digits @ (10.0 ** np.arange(width - 1, -1, -1))).astype(np.int64)
    values: Ints = digits.astype(np.int64) @ (10 ** np.arange(width - 1, -1, -1, dtype=np.int64))
    return values


def _digits(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[Ints, Bools]:
    """Return the numbers that fields spell, and which fields have other characters or too many digits."""
    letters, inside = _window(data, starts, ends)
    digits = np.where(inside, letters - np.uint8(_ZERO), np.uint8(0))
    lengths = ends - starts
    wrong = (digits > 9).any(axis=1) | (lengths > _MOST_DIGITS)
    values = _whole(digits)
    for at in np.flatnonzero(lengths == _MOST_DIGITS + 1).tolist():
        text = data[starts[at] : ends[at]].tobytes()
        large = int(text) if text.isdigit() else _LARGEST + 1
        wrong[at] = large > _LARGEST
        values[at] = min(large, _LARGEST)
    return np.where(wrong, 0, values), wrong


def _decimals(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[Floats, Bools]:
    """Return the decimal numbers that fields spell, exactly rounded, and which fields need another reader."""
    letters, inside = _window(data, starts, ends)
    width, lengths = letters.shape[1], ends - starts
    point = inside & (letters == _POINT)
    digits = np.where(inside & ~point, letters - np.uint8(_ZERO), np.uint8(0))
    points = point.sum(axis=1)
    other = (digits > 9).any(axis=1) | (points > 1) | (lengths > _EXACT_DIGITS + 1) | (lengths <= points)
    values = _whole(np.where(other[:, None], np.uint8(0), digits))  # a point counts as the digit 0
    after = np.where(points > 0, width - 1 - point.argmax(axis=1), 0)
    unit = 10 ** np.minimum(after, _MOST_DIGITS - 1)
    whole, rest = np.divmod(values, np.where(points > 0, unit * 10, 1))
    return (whole * unit + rest) / unit, other


def opened(path: Path) -> gzip.GzipFile | BufferedReader:
    """Open a file, compressed with gzip by its name or its first bytes. Raises OSError."""
    file = path.open("rb")
    if path.suffix == ".gz" or file.peek(2)[:2] == _GZIP:
        file.close()
        return gzip.open(path, "rb")
    return file


def blocks(path: Path, width: int, defects: Defects, *, skip: bool) -> Iterator[Block]:
    """Yield the rows of a file in blocks, without those of another width.

    Raises BadInput (file, row) for such a row and where the file cannot be read, unless `skip`: then they are counted.
    """
    row = 1
    for lines, error in _pieces(path):
        block, count = _split(path, row, lines, width, defects, skip=skip)
        row += count
        if len(block):
            yield block
        if error is not None:
            if not skip:
                raise BadInput(f"{path}:{row}: cannot be read ({error}); fetch the file again")
            defects.add(CUT_SHORT, 1, [f"{path}:{row}"])
    if row == 1:
        defects.add(NO_ROWS, 1, [str(path)])


def settled(block: Block, defects: Defects, *, skip: bool) -> Bools | None:
    """Return which rows of a block are good, None for all, after its columns were read.

    Raises BadInput (file, row) for the first bad one, unless `skip`: then they are counted.
    """
    if not block.bad:
        return None
    places = [(int(block.rows[at]), block.bad[at]) for at in sorted(block.bad)]
    _refuse(block.path, places, defects, skip=skip)
    good = np.ones(len(block), dtype=bool)
    good[list(block.bad)] = False
    return good


def _refuse(path: Path, places: Sequence[tuple[int, str]], defects: Defects, *, skip: bool) -> None:
    if not skip:
        row, wrong = places[0]
        raise BadInput(f"{path}:{row}: {wrong}")
    defects.add(BAD_ROW, len(places), (f"{path}:{row}" for row, _ in places))


def _pieces(path: Path) -> Iterator[tuple[bytes, Exception | None]]:
    """Yield whole lines, about a block at a time; the last piece comes with the error that ended the file early."""
    held, size = list[bytes](), 0
    try:
        with opened(path) as file:
            while piece := file.read1(BLOCK):
                held.append(piece)
                size += len(piece)
                if size >= BLOCK:
                    joined = b"".join(held)
                    end = joined.rfind(b"\n") + 1
                    held, size = [joined[end:]], len(joined) - end
                    yield joined[:end], None
                    if not end and size > LONGEST_ROW:
                        raise EOFError(f"a row is longer than {LONGEST_ROW >> 20} MiB")
            if not path.stat().st_size:
                raise EOFError("it is empty")
    except (OSError, EOFError, zlib.error) as error:
        joined = b"".join(held)
        yield joined[: joined.rfind(b"\n") + 1], error
        return
    joined = b"".join(held)
    yield (joined if joined.endswith(b"\n") or not joined else joined + b"\n"), None


def _split(path: Path, first: int, lines: bytes, width: int, defects: Defects, *, skip: bool) -> tuple[Block, int]:
    """Return the rows of whole lines that have `width` fields, and the number of lines."""
    data = np.frombuffer(_MARGIN + lines, dtype=np.uint8)
    ends = np.flatnonzero((data == _COMMA) | (data == _END))
    last = np.flatnonzero(data[ends] == _END)  # by line: the place of its end among the ends of fields
    fields = np.diff(last, prepend=-1)
    wrong = fields != width
    if wrong.any():
        length = np.diff(ends[last], prepend=len(_MARGIN) - 1)
        empty = wrong & ((length == 1) | ((length == 2) & (data[ends[last] - 1] == _RETURN)))  # blank lines
        texts = ((first + at, f"{fields[at]} fields; want {width}") for at in np.flatnonzero(wrong & ~empty).tolist())
        if places := list(texts):
            _refuse(path, places, defects, skip=skip)
    kept = np.flatnonzero(~wrong)
    begins = np.concatenate(([len(_MARGIN)], ends[:-1] + 1))[: len(ends)]
    if len(kept) == len(last):
        starts, stops = begins.reshape(-1, width), ends.reshape(-1, width)
    else:
        of = last[kept][:, None] - np.arange(width - 1, -1, -1)
        starts, stops = begins[of], ends[of]
    returns = data[np.maximum(stops[:, -1] - 1, 0)] == _RETURN  # lines may end with CR LF
    stops[:, -1] -= returns & (stops[:, -1] > starts[:, -1])
    return Block(path, first + kept, data, starts, stops), len(last)

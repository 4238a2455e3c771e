"""The output of a task as its files are at one moment, read in pieces from open descriptors."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from omega.live.agent.output import cut_line, files

PIECE = 64 << 10
"""Bytes that are read at once."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
"""As `bytes.splitlines` has it."""


class _Part(NamedTuple):
    start: int
    """Byte of the whole text."""
    size: int
    file: BinaryIO


@dataclass(slots=True)
class OpenOutput:
    """A stream of a task: what its files have now, with a line for output that was dropped between them."""

    cut: int = 0
    """Bytes that were dropped."""
    size: int = 0
    """Bytes of the text."""
    _parts: list[_Part] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(cls, place: Path, stream: str) -> "OpenOutput":
        """Open the files of a stream; `close` closes them."""
        made, at = cls(), 0
        for start, path in files(place, stream):
            with suppress(FileNotFoundError):
                file = made._open.enter_context(path.open("rb"))
                if start > at:
                    made.cut += start - at
                    line = cut_line(start - at, at)
                    made._add(len(line), BytesIO(line))
                made._add(size := os.fstat(file.fileno()).st_size, file)
                at = start + size
        return made

    def _add(self, size: int, file: BinaryIO) -> None:
        self._parts.append(_Part(self.size, size, file))
        self.size += size

    def close(self) -> None:
        """Close the files."""
        self._open.close()

    def read(self, at: int, most: int = PIECE) -> bytes:
        """Return some of the text from a byte on; nothing at its end, and where a file was made shorter."""
        for part in self._parts:
            if part.start <= at < part.start + part.size:
                part.file.seek(at - part.start)
                return part.file.read(min(most, part.start + part.size - at))
        return b""

    def pieces(self, at: int = 0) -> Iterator[bytes]:
        """Yield the text from a byte on."""
        while data := self.read(at):
            yield data
            at += len(data)

    def last_lines(self, number: int, most: int | None = None) -> int:
        """Return the byte at which the last lines begin, found from the end; at most so many bytes before the end."""
        first = 0 if most is None else max(0, self.size - most)
        if not number:
            return self.size
        at, after = self.size, b""
        while at > first:
            begin = max(first, at - PIECE)
            block = b""
            while len(block) < at - begin and (data := self.read(begin + len(block), at - begin - len(block))):
                block += data
            ends = [begin + found.end() for found in _LINE_END.finditer(block)]
            if after.startswith(b"\n") and block.endswith(b"\r"):
                ends.pop()  # the end of this line is in the next block
            ends = [end for end in ends if end < self.size]  # that of the last line begins no line
            if len(ends) >= number:
                return ends[-number]
            number -= len(ends)
            at, after = begin, block
        return first

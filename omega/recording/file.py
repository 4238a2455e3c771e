"""The file of a recording: frames, each a JSON document in a gzip member of its own.

``zcat FILE`` prints a frame a line. A file that was cut in the middle is read up to the last whole frame. The first
frame has the number of the format (docs/decisions/0057).
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from omega.cellstate.errors import BadInput

FORMAT = 1
"""Number of the format; readers refuse higher ones."""
ENDING = ".rec.gz"
"""Usual end of the name of a recording."""
LEVEL = 1
"""Level of compression: 2 % larger than the default, at a third of its processor time."""
MOST_BYTES = 256 * 2**20
"""Largest frame (bytes, uncompressed): a damaged file cannot fill the memory."""
_READ = 1 << 20
_GZIP = 31
_MAGIC = b"\x1f\x8b"
Frame = Mapping[str, Any]
"""A frame: ``frame`` is its kind, the other fields depend on it."""


class Sink(Protocol):
    """Where frames are written."""

    def write(self, kind: str, /, **fields: Any) -> None:
        """Write a frame."""


class Writer:
    """Writes frames to a file; each is in the file when `write` returns."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to a file that is open for writing."""
        self._file = file
        self.bytes = 0

    def write(self, kind: str, /, **fields: Any) -> None:
        """Write a frame. Raises OSError."""
        text = json.dumps({"frame": kind, **fields}, separators=(",", ":"), default=list)
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
        data = packer.compress(text.encode() + b"\n") + packer.flush()
        self._file.write(data)
        self._file.flush()
        self.bytes += len(data)


@dataclass
class Reading:
    """The frames of a file, read one after another; `cut` is set when the file ends within a frame."""

    path: Path
    cut: bool = False
    frames: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[Frame]:
        """Yield the frames. Raises BadInput for a file that is no recording, or damaged before its end."""
        try:
            with self.path.open("rb") as file:
                yield from self._frames(file)
        except OSError as error:
            raise BadInput(
                f"recording {self.path}: {error.strerror or error}; name a file of omega cell record"
            ) from None

    def _frames(self, file: BinaryIO) -> Iterator[Frame]:
        rest = file.read(_READ)
        if not rest or not _MAGIC.startswith(rest[:2]):
            raise BadInput(f"recording {self.path}: is no recording; name a file of omega cell record")
        while rest:
            member, text = zlib.decompressobj(_GZIP), bytearray()
            while not member.eof:
                if not rest:
                    self.cut = True
                    return
                try:
                    text += member.decompress(rest, MOST_BYTES - len(text) + 1)
                except zlib.error:
                    raise self._damaged("is damaged") from None
                if len(text) > MOST_BYTES:
                    raise self._damaged(f"has more than {MOST_BYTES >> 20} MiB")
                rest = member.unused_data or member.unconsumed_tail or file.read(_READ)
            yield self._parsed(bytes(text))

    def _parsed(self, text: bytes) -> Frame:
        self.frames += 1
        try:
            frame = json.loads(text)
        except ValueError:
            raise self._damaged("is no JSON document") from None
        if not (isinstance(frame, dict) and isinstance(frame.get("frame"), str)):
            raise self._damaged("has no kind")
        if self.frames == 1:
            self._check(frame)
        return frame

    def _check(self, header: Frame) -> None:
        if header["frame"] != "header" or not isinstance(header.get("format"), int):
            raise BadInput(f"recording {self.path}: is no recording; name a file of omega cell record")
        if header["format"] > FORMAT:
            newer = f"has format {header['format']}, this Omega reads up to {FORMAT}"
            raise BadInput(f"recording {self.path}: {newer}; use the Omega that recorded it")

    def _damaged(self, what: str) -> BadInput:
        return BadInput(f"recording {self.path}: frame {self.frames + 1} {what}; record again, or use a copy")


def is_recording(path: Path) -> bool:
    """Return whether a file begins like a recording."""
    if not path.is_file():
        return False
    try:
        return next(iter(Reading(path)), None) is not None
    except BadInput:
        return False

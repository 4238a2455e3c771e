"""Reads the output of tasks: from local files, complete or growing, and the tails sent to the store."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from omega.live.agent.kept import Kept
from omega.live.agent.lease_file import now

STREAMS = ("stdout", "stderr")
TAIL_BYTES = 4 << 10
"""Bytes of each stream's tail sent to the store."""
TAIL_SECONDS = 2.0
MOST_TAILS = 40
"""Maximum number of tails sent at once; most are never read."""

Field = tuple[str, int, int, str]
"""Job, group, task, stream."""


def files(place: Path, stream: str) -> list[tuple[int, Path]]:
    """Return a stream's files, oldest first, each with the stream offset of its first byte."""
    paths = (path for path in place.glob(f"{stream}.*") if path.suffix[1:].isdigit())
    return sorted((int(path.suffix[1:]), path) for path in paths)


def said_bytes(place: Path) -> int:
    """Return the size of all streams of a task on disk."""
    size = 0
    for stream in STREAMS:
        for _, path in files(place, stream):
            with suppress(OSError):
                size += path.stat().st_size
    return size


def tail(place: Path, stream: str, most: int) -> bytes:
    """Return the last `most` bytes of a stream."""
    data = b""
    for _, path in files(place, stream):
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            data += file.read(most)
    return data[-most:]


def last_lines(data: bytes, number: int) -> bytes:
    """Return the last `number` lines."""
    return b"".join(data.splitlines(keepends=True)[-number:]) if number else b""


@dataclass(slots=True)
class StreamReader:
    """Reads a growing stream from byte `at`. `cut` counts bytes that were discarded before they were read."""

    place: Path
    stream: str
    at: int = 0
    cut: int = 0

    def more(self) -> Iterator[bytes]:
        """Yield the output since the last call."""
        for start, path in files(self.place, self.stream):
            if start > self.at:
                self.cut += start - self.at
                self.at = start
            with suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(self.at - start)
                while data := file.read(1 << 16):
                    self.at += len(data)
                    yield data


@dataclass(slots=True)
class Tails:
    """Detects changed tails."""

    _sent: dict[Field, int] = field(default_factory=dict)
    _looked: float = 0.0

    def due(self, kept: Iterable[Kept]) -> bool:
        """Return whether there are changed tails that may be sent now."""
        return now() - self._looked >= TAIL_SECONDS and any(True for _ in self._changed(kept))

    def changed(self, kept: Iterable[Kept]) -> dict[Field, bytes]:
        """Return changed tails of running tasks, limited in rate and number."""
        if now() - self._looked < TAIL_SECONDS:
            return {}
        self._looked = now()
        return dict(entry for entry, _ in zip(self._new(kept), range(MOST_TAILS), strict=False))

    def last(self, kept: Iterable[Kept]) -> dict[Field, bytes]:
        """Return the tails of ended tasks."""
        listed = list(kept)
        tails = dict(self._new(listed))
        for each in listed:
            for stream in STREAMS:
                self._sent.pop((*each.key[:3], stream), None)
        return tails

    def _new(self, kept: Iterable[Kept]) -> Iterator[tuple[Field, bytes]]:
        for place, name, length in self._changed(kept):
            with suppress(OSError):
                self._sent[name] = length
                yield name, tail(place, name[-1], TAIL_BYTES)

    def _changed(self, kept: Iterable[Kept]) -> Iterator[tuple[Path, Field, int]]:
        for each in kept:
            for stream in STREAMS:
                name = (*each.key[:3], stream)
                with suppress(OSError):
                    length = sum(start + path.stat().st_size for start, path in files(each.place, stream)[-1:])
                    if length and self._sent.get(name) != length:
                        yield each.place, name, length

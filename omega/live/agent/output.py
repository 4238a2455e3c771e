"""Reading what tasks said: from their files here, whole or as it grows, and the last words for everybody else."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from omega.live.agent.kept import Kept
from omega.live.agent.lease_file import now

STREAMS = ("stdout", "stderr")
TAIL_BYTES = 4 << 10
"""Last words of each stream that go to the store."""
TAIL_SECONDS = 2.0
MOST_TAILS = 40
"""Last words sent at once: what is said is many times more than what is read."""

Field = tuple[str, int, int, str]
"""Job, group, task, stream."""


def files(place: Path, stream: str) -> list[tuple[int, Path]]:
    """The files of a stream, the oldest first, each with the place of its first byte in the stream."""
    found = (path for path in place.glob(f"{stream}.*") if path.suffix[1:].isdigit())
    return sorted((int(path.suffix[1:]), path) for path in found)


def said_bytes(place: Path) -> int:
    """What all streams of a task take on the disk."""
    size = 0
    for stream in STREAMS:
        for _, path in files(place, stream):
            with suppress(OSError):
                size += path.stat().st_size
    return size


def tail(place: Path, stream: str, most: int) -> bytes:
    """The last `most` bytes of a stream."""
    data = b""
    for _, path in files(place, stream):
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            data += file.read(most)
    return data[-most:]


def last_lines(data: bytes, number: int) -> bytes:
    """The last lines of some text."""
    return b"".join(data.splitlines(keepends=True)[-number:]) if number else b""


@dataclass(slots=True)
class Reader:
    """Reads a stream from byte `at` on, and on as it grows. `cut` counts bytes that were gone before they were read."""

    place: Path
    stream: str
    at: int = 0
    cut: int = 0

    def more(self) -> Iterator[bytes]:
        """Yield what was said since the last time."""
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
    """Finds out whose last words are new."""

    _sent: dict[Field, int] = field(default_factory=dict)
    _looked: float = 0.0

    def changed(self, kept: Iterable[Kept]) -> dict[Field, bytes]:
        """Last words of running tasks that changed, now and then and not too many at once."""
        if now() - self._looked < TAIL_SECONDS:
            return {}
        self._looked = now()
        return dict(found for found, _ in zip(self._new(kept), range(MOST_TAILS), strict=False))

    def last(self, kept: Iterable[Kept]) -> dict[Field, bytes]:
        """Last words of tasks that ended."""
        listed = list(kept)
        found = dict(self._new(listed))
        for each in listed:
            for stream in STREAMS:
                self._sent.pop((*each.key[:3], stream), None)
        return found

    def _new(self, kept: Iterable[Kept]) -> Iterator[tuple[Field, bytes]]:
        for each in kept:
            for stream in STREAMS:
                name = (*each.key[:3], stream)
                with suppress(OSError):
                    length = sum(start + path.stat().st_size for start, path in files(each.place, stream)[-1:])
                    if length and self._sent.get(name) != length:
                        self._sent[name] = length
                        yield name, tail(each.place, stream, TAIL_BYTES)

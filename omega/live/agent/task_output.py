"""Output of one stream of a task, kept on disk within a limit. Standard library only."""

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

HEAD_BYTES = 1 << 20
"""Bytes at the beginning of a stream that are never dropped."""


class Output:
    """One stream of a task: its beginning, and its newest part in at most two files, the older of which is removed.

    Each file is named after the stream offset of its first byte, so a concurrent reader has its position
    and the number of discarded bytes.
    """

    def __init__(self, place: Path, stream: str, limit: int) -> None:
        """Keep at most `limit` bytes: the first MiB, or a quarter of a limit below four, and the newest part."""
        self.place, self.stream = place, stream
        self.head = max(1, min(HEAD_BYTES, limit // 4))
        self.half = max(1, (limit - self.head) // 2)
        self.starts = [0]
        self.at = 0
        self.file: BinaryIO | None = None
        """Opened at the first output."""

    def _open(self) -> BinaryIO:
        return (self.place / f"{self.stream}.{self.starts[-1]}").open("wb", buffering=0)

    def take(self, data: bytes) -> None:
        """Append output of the task; on a full disk it is lost and the task continues."""
        with suppress(OSError):
            self.file = self.file or self._open()
            while data:
                room = self.starts[-1] + (self.half if self.starts[-1] else self.head) - self.at
                if not room:
                    self._turn()
                    continue
                written = self.file.write(data[:room]) or 0
                self.at += written
                data = data[written:]

    def _turn(self) -> None:
        """Begin the next file. One that cannot be opened is tried again with the next output."""
        if len(self.starts) == 3:
            (self.place / f"{self.stream}.{self.starts.pop(1)}").unlink(missing_ok=True)
        self.starts.append(self.at)
        try:
            after = self._open()
        except OSError:
            self.starts.pop()
            raise
        self.close()
        self.file = after

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()

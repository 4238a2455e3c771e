"""What a task writes to one stream, kept on disk within a limit. Standard library only."""

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


class Output:
    """One stream of a task in two files at most, the older one removed when the newer is full.

    Each is named after the place of its first byte in the stream, so who reads while it is written knows
    where he is, and how much is gone.
    """

    def __init__(self, place: Path, stream: str, limit: int) -> None:
        """Keep at most `limit` bytes, the newest."""
        self.place, self.stream, self.half = place, stream, max(1, limit // 2)
        self.starts = [0]
        self.at = 0
        self.file = self._open()

    def _open(self) -> BinaryIO:
        return (self.place / f"{self.stream}.{self.starts[-1]}").open("wb", buffering=0)

    def take(self, data: bytes) -> None:
        """Keep what the task said; a disk that is full loses it and does not stop the task."""
        with suppress(OSError):
            while data:
                room = self.starts[-1] + self.half - self.at
                if not room:
                    self._turn()
                    continue
                written = self.file.write(data[:room]) or 0
                self.at += written
                data = data[written:]

    def _turn(self) -> None:
        self.file.close()
        if len(self.starts) == 2:
            (self.place / f"{self.stream}.{self.starts.pop(0)}").unlink()
        self.starts.append(self.at)
        self.file = self._open()

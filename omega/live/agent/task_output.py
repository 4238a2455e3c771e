"""Output of one stream of a task, kept on disk within a limit. Standard library only."""

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


class Output:
    """One stream of a task in at most two files; the older one is removed when the newer is full.

    Each file is named after the stream offset of its first byte, so a concurrent reader has its position
    and the number of discarded bytes.
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
        """Append output of the task; on a full disk it is lost and the task continues."""
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

"""The output of tasks on an agent's disk: how much is kept, its files as they grow, and the tails sent to the store."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import TAIL_BYTES, StoredTail
from omega.live.agent.kept import Kept
from omega.live.agent.lease_file import now
from omega.live.agent.places import AgentPlaces, PlacementKey
from omega.queries.job_state import ended

STREAMS = ("stdout", "stderr")
TAIL_SECONDS = 2.0
MOST_TAILS = 40
"""Maximum number of tails sent at once; most are never read."""
KEEP_BYTES = 2 << 30
"""Bytes of disk that the directories of an agent's tasks may take, unless the agent has another bound."""
FREE_SHARE = 0.1
"""Part of the disk that directories of ended tasks leave free."""
AT_ONCE = 64
"""Jobs read at once to learn whether they have ended, or are still stored."""
MOST_READ = 1_024
"""Jobs read at most before directories go by their age alone."""
SPARE = 0.9
"""Part of the bound down to which directories are removed, so that not each end of a task removes one."""
LOOK_SECONDS = 600.0
"""Time between looks for directories of jobs that the cell no longer stores."""

Field = tuple[str, int, int, str]
"""Job, group, task, stream."""


def files(place: Path, stream: str) -> list[tuple[int, Path]]:
    """Return a stream's files, oldest first, each with the stream offset of its first byte."""
    return _files(place)[stream]


def _files(place: Path) -> dict[str, list[tuple[int, Path]]]:
    """Return the files of each stream; a stream of which nothing came has none."""
    found: dict[str, list[tuple[int, Path]]] = {stream: [] for stream in STREAMS}
    with suppress(OSError):
        for name in os.listdir(place):  # noqa: PTH208 - an agent lists the directories of all its tasks every 2 s
            stream, _, start = name.partition(".")
            if stream in found and start.isdigit():
                found[stream].append((int(start), place / name))
    return {stream: sorted(each) for stream, each in found.items()}


def said_bytes(place: Path) -> int:
    """Return the size of all streams of a task on disk."""
    size = 0
    for each in _files(place).values():
        for _, path in each:
            with suppress(OSError):
                size += path.stat().st_size
    return size


def disk_bytes(place: Path) -> int:
    """Return the disk space of a directory with all below it; what disappears meanwhile counts as nothing."""
    size = 0
    with suppress(OSError):
        size = place.lstat().st_blocks * 512
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    size += disk_bytes(Path(entry.path))
                else:
                    with suppress(OSError):
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
    return size


@dataclass(slots=True)
class EndedTasks:
    """The directories of ended tasks. Each stays as long as the record of its job, within bytes and free disk.

    Those of ended jobs go first, then those of others, in each case the oldest first. `told` in a directory has its
    size, so that an agent that starts need not look at all files.
    """

    places: AgentPlaces
    most_bytes: int = KEEP_BYTES
    live_bytes: int = 0
    """Output of running tasks, as measured last."""
    _sizes: dict[PlacementKey, int] = field(default_factory=dict)
    """The oldest first."""
    _bytes: int = field(default=0, init=False)
    _looked: float = field(default=0.0, init=False)
    _asked: int = field(default=0, init=False)
    """Number of directories whose jobs were asked for in this round."""

    def find(self) -> list[PlacementKey]:
        """Take up what an earlier agent left; returns the tasks whose end was not reported."""
        told, open_ones = list[tuple[float, PlacementKey, int]](), list[PlacementKey]()
        for key in self.places.task_keys():
            place = self.places.task(key)
            try:
                at, text = (place / "told").stat().st_mtime, (place / "told").read_text()
            except OSError:
                open_ones.append(key)
            else:
                told.append((at, key, int(text) if text.isdigit() else disk_bytes(place)))
        for _, key, size in sorted(told):
            self._add(key, size)
        return open_ones

    def add(self, key: PlacementKey) -> None:
        """Take up a task whose end was reported."""
        place = self.places.task(key)
        size = disk_bytes(place)
        with suppress(OSError):  # full disk: the end is reported again, without effect
            (place / "told").write_text(str(size))
        self._add(key, size)

    def _add(self, key: PlacementKey, size: int) -> None:
        self.drop(key)
        self._sizes[key] = size
        self._bytes += size

    def drop(self, key: PlacementKey) -> None:
        """Give a directory up, without removing it."""
        self._bytes -= self._sizes.pop(key, 0)

    def has(self, key: PlacementKey) -> bool:
        """Return whether the end of a task was reported, and its directory is there."""
        return (self.places.task(key) / "told").exists()

    def bound(self, cell: RedisCell) -> None:
        """Remove directories while they, with the output of running tasks, exceed the bounds."""
        self._look(cell)
        if self._excess(1.0):
            for key in self._in_order(cell):
                if not self._excess(SPARE):
                    return
                self._remove(key)

    def _excess(self, part: float) -> bool:
        if not self._sizes:
            return False
        if self._bytes + self.live_bytes > part * self.most_bytes:
            return True
        disk = shutil.disk_usage(self.places.tasks)
        return disk.free < FREE_SHARE * disk.total

    def _in_order(self, cell: RedisCell) -> Iterator[PlacementKey]:
        keys, going = list(self._sizes), set[str]()
        jobs = list(dict.fromkeys(key.job for key in keys))
        for first in range(0, min(len(jobs), MOST_READ), AT_ONCE):
            part = jobs[first : first + AT_ONCE]
            found = cell.jobs.by_id(part)
            going |= {each for each in part if each in found and not ended(found[each])}
            over = set(part) - going
            yield from (key for key in keys if key.job in over)
        yield from (key for key in keys if key in self._sizes)

    def _look(self, cell: RedisCell) -> None:
        """Remove directories of jobs that the cell no longer stores: some of all at a time."""
        if self._looked and now() - self._looked < LOOK_SECONDS:
            return
        self._looked = now()
        jobs = list(dict.fromkeys(key.job for key in self._sizes))
        self._asked = self._asked if self._asked < len(jobs) else 0
        part = jobs[self._asked : self._asked + AT_ONCE]
        there = cell.jobs.by_id(part) if part else {}
        gone = set(part) - there.keys()
        self._asked += len(part) - len(gone)
        for key in [key for key in self._sizes if key.job in gone]:
            self._remove(key)

    def _remove(self, key: PlacementKey) -> None:
        self.drop(key)
        shutil.rmtree(self.places.task(key), ignore_errors=True)


def tail(place: Path, stream: str, most: int) -> bytes:
    """Return the last `most` bytes of a stream."""
    data, end = b"", 0
    for start, path in files(place, stream):
        data = data if start == end else b""
        with suppress(OSError), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            end = start + size
            file.seek(max(0, size - most))
            data += file.read(most)
    return data[-most:]


def cut_line(dropped: int, after: int) -> bytes:
    """Return the line that stands for dropped output, after so many bytes of the stream; an open line ends before."""
    first = f"{after >> 20} MiB" if after and not after % (1 << 20) else f"{after:,} bytes"
    return f"\ncut: {dropped:,} bytes after the first {first}\n".encode()


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
                yield cut_line(start - self.at, self.at)
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
                data = tail(place, name[-1], TAIL_BYTES)
                yield name, StoredTail(max(0, length - len(data)), data).pack()

    def _changed(self, kept: Iterable[Kept]) -> Iterator[tuple[Path, Field, int]]:
        for each in kept:
            for stream, its in _files(each.place).items():
                name = (*each.key[:3], stream)
                with suppress(OSError):
                    length = sum(start + path.stat().st_size for start, path in its[-1:])
                    if length and self._sent.get(name) != length:
                        yield each.place, name, length

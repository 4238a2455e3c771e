"""The plan of a MapReduce job, as stored in its spec, and the division of its input into shards."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from omega.cellstate import ranges
from omega.schedulers.constraints.locality import Place
from omega.schedulers.sizing import PLAN

BLOCK = 1 << 20


class Piece(NamedTuple):
    """The lines of a file that begin within [start, end)."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MapReducePlan:
    """Commands, input and places of a MapReduce job.

    Input is either `files` with their sizes when the job was submitted, cut every `shard` bytes as if those of a
    place were one, or `numbers`, ranges of integers of which a mapper gets `shard` at a time, one a line. `output`
    and `scratch` are directories that every worker reaches.
    """

    map: Sequence[str]
    reduce: Sequence[str]
    reduces: int
    shard: int
    output: str
    scratch: str
    files: Sequence[tuple[str, int]] = ()
    numbers: str = ranges.EMPTY
    roots: Sequence[tuple[str, bool]] = ()
    """Where the files come from: each file or directory, and whether what is below its directories belongs to it."""
    places: Sequence[Place] = ()
    """Locations of the first files, in their order; each place has shards of its own."""
    left_out: Sequence[tuple[str, int, int]] = ()
    """Directories whose files are read, with the number of their files and directories that are not."""
    near: Mapping[str, Any] = field(default_factory=dict)
    """Domains and waits of all places (schedulers/constraints/locality.py)."""

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> "MapReducePlan | None":
        """Return the plan in a job's spec; None for other jobs."""
        stored = spec.get(PLAN)
        if stored is None:
            return None
        fields = {name: value for name, value in stored.items() if name != "maps"}
        roots = tuple((path, below) for path, below in stored.get("roots", ()))
        places = tuple(Place(*place) for place in stored.get("places", ()))
        files = [(path, size) for path, size in stored["files"]]
        left_out = tuple((path, hidden, below) for path, hidden, below in stored.get("left_out", ()))
        return cls(**fields | {"files": files, "roots": roots, "places": places, "left_out": left_out})

    def write(self) -> dict[str, Any]:
        """Return the stored form, with the number of `maps` for schedulers."""
        return asdict(self) | {"maps": self.maps}

    def reads(self, output: str) -> str:
        """Return the root of the input that an output directory is part of, "" for none."""
        there = PurePath(output)
        around = [str(each) for each in (there, *there.parents)]
        return next((root for root, below in self.roots if root in (around if below else around[:1])), "")

    @property
    def maps(self) -> int:
        """Return the number of map shards: at least one, so that an empty input has a result."""
        near = sum(place.maps for place in self.places)
        others = self.files[sum(place.files for place in self.places) :]
        return max(1, near + shards_of(others, self.shard, ranges.count(self.numbers)))

    def input(self, shard: int) -> Iterator[bytes]:
        """Yield a shard's input in blocks of complete lines. Raises OSError."""
        for piece in self.pieces(shard):
            yield from read(piece)
        for first, last in self.spans(shard):
            for start in range(first, last + 1, BLOCK // 8):
                yield b"".join(b"%d\n" % number for number in range(start, min(start + BLOCK // 8, last + 1)))

    def pieces(self, shard: int) -> list[Piece]:
        """Return the pieces of files that make up a shard."""
        files, shard = self._of_place(shard)
        start, end = shard * self.shard, (shard + 1) * self.shard
        ends = list(accumulate(size for _, size in files))
        parts = []
        for i in range(bisect_right(ends, start), len(ends)):
            path, size = files[i]
            offset = ends[i] - size
            if offset >= end:
                break
            parts.append(Piece(path, max(0, start - offset), min(size, end - offset)))
        return parts

    def _of_place(self, shard: int) -> tuple[Sequence[tuple[str, int]], int]:
        """Return the files of the place of a shard, and its number among the shards of the place."""
        at = 0
        for place in self.places:
            if shard < place.maps:
                return self.files[at : at + place.files], shard
            at, shard = at + place.files, shard - place.maps
        return self.files[at:], shard

    def spans(self, shard: int) -> ranges.Spans:
        """Return the numbers of a shard, as ranges."""
        rest = ranges.take(self.numbers, shard * self.shard)[1]
        return ranges.spans(ranges.take(rest, self.shard)[0])


def shards_of(files: Sequence[tuple[str, int]], shard: int, numbers: int = 0) -> int:
    """Return the number of shards of some files, or numbers, without those of other places."""
    return -(-(sum(size for _, size in files) + numbers) // shard)


def read(piece: Piece) -> Iterator[bytes]:
    """Yield the lines of a piece, in blocks: a line belongs to the piece in which it begins."""
    with Path(piece.path).open("rb") as file:
        at = 0
        if piece.start:
            file.seek(piece.start - 1)
            at = piece.start - 1 + len(file.readline())
        while at < piece.end:
            block = file.read(min(BLOCK, piece.end - at))
            if not block:
                return
            block += b"" if block.endswith(b"\n") else file.readline()
            at += len(block)
            yield block if block.endswith(b"\n") else block + b"\n"

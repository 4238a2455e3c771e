"""Cuts of a cell's history: a store that went back to an earlier version, and what processes had seen of the lost ones.

A promoted replica, or a server that starts on older files, may lack the last versions (semantics 16). Versions have
random tags, so a process finds the last version that it and the store have in common by the pairs that it saw.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from omega.cellstate.transaction import Position

CUTS_KEPT = 16
"""Reports that a cell keeps; the oldest are dropped."""
REPORTERS = 8
"""Reporters that a report names."""
SPANS = 4
"""Rings of seen versions: each has `RING` of every sixteenth version of the one before."""
RING = 256
_SPARSE = 16
PLACEMENTS_AHEAD = 1_000_000
"""Increase of the counter of placements after a cut and after a restore: lost placements may still be reported, and no
other one may get their ids (semantics 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The report of a cut: the last version that is known to be left, and the first and last that are known to be lost.

    `at_ms` is the time of the first report on the server's clock, `version` that of the cell at it. `by` are the first
    processes that reported, in the order of their names.
    """

    number: int
    agreed: int
    first_lost: int
    seen: int
    at_ms: int
    version: int
    by: tuple[str, ...]

    @property
    def at_least(self) -> int:
        """Return the number of versions that are surely lost."""
        return self.seen - self.first_lost + 1

    @property
    def at_most(self) -> int:
        """Return the number of versions from the first that may be lost to the last that was seen."""
        return self.seen - self.agreed

    @property
    def text(self) -> str:
        """Return what was lost as a sentence without its end."""
        some, all_ = self.at_least, self.at_most
        number = f"{some:,}" if some == all_ else f"{some:,} to {all_:,}"
        versions = "version" if all_ == 1 else "versions"
        return f"the store lost {number} {versions} after version {self.agreed:,}, up to {self.seen:,}"

    def figures(self) -> dict[str, Any]:
        """Return what was lost as plain values."""
        lost = {"at_least": self.at_least, "at_most": self.at_most}
        return {
            "number": self.number,
            "agreed": self.agreed,
            "first_lost": self.first_lost,
            "seen": self.seen,
            "lost": lost,
        }

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return self.figures() | {"at_ms": self.at_ms, "version": self.version, "by": list(self.by)}


class Standing(NamedTuple):
    """What a store has of some positions: its present one, the number of its last cut, and where they part.

    `agreed` is the last of the positions that it has, `first_lost` the first that it has not; None where there is none.
    Positions before its change list are neither.
    """

    present: Position
    cuts: int
    agreed: int | None
    first_lost: int | None


class Cuts(NamedTuple):
    """The kept reports of a cell, oldest first; the number of all cuts, and of versions surely lost in them."""

    kept: Sequence[Cut]
    number: int
    lost: int

    @property
    def last(self) -> Cut | None:
        """Return the newest report."""
        return self.kept[-1] if self.kept else None


NO_CUTS = Cuts((), 0, 0)


def read_cuts(fields: Mapping[bytes, bytes]) -> Cuts:
    """Return the reports of the key ``cuts``. Raises ValueError for a record that is none."""
    kept = sorted(
        (read_cut(int(name), text.decode()) for name, text in fields.items() if name.isdigit()),
        key=lambda cut: cut.number,
    )
    return Cuts(kept, int(fields.get(b"last", b"0")), int(fields.get(b"lost", b"0")))


def read_cut(number: int, text: str) -> Cut:
    """Return a report by its record."""
    agreed, first_lost, seen, at_ms, version, by = text.split(" ")
    return Cut(
        number=number, agreed=int(agreed), first_lost=int(first_lost), seen=int(seen), at_ms=int(at_ms),
        version=int(version), by=tuple(by.split(",")),
    )  # fmt: skip


class Sightings:
    """Versions of a cell that a process saw, with their tags: all of the last ones, ever fewer of the older ones.

    The first one is kept for good: it tells a cell that went back from another cell of the same name.
    """

    __slots__ = ("_count", "_first", "_rings", "agreed", "known", "last", "partings")

    def __init__(self) -> None:
        """Begin with no version."""
        self._rings: list[deque[Position]] = [deque(maxlen=RING) for _ in range(SPANS)]
        self._first: Position | None = None
        self._count = 0
        self.last = Position()
        self.known = 0
        """The number of the last cut that the cell reported when this process last compared."""
        self.partings = 0
        """How often versions were found lost."""
        self.agreed = 0
        """The last version that was left, the last time; 0 before, and where no version is known to be left."""

    def add(self, position: Position) -> None:
        """Add a version that the store named with its tag; one that is not above the last is not new."""
        if position.version <= self.last.version:
            return
        self.last = position
        self._rings[0].append(position)
        self._count += 1
        if not self._count % _SPARSE or self._first is None:
            self._spread(position)

    def _spread(self, position: Position) -> None:
        self._first = self._first or position
        count = self._count
        for ring in self._rings[1:]:
            if count % _SPARSE:
                return
            ring.append(position)
            count //= _SPARSE

    def all(self) -> list[Position]:
        """Return the versions, the newest first."""
        first = () if self._first is None else (self._first,)
        return sorted({each for ring in self._rings for each in ring}.union(first), reverse=True)

    def cut_after(self, version: int) -> None:
        """Drop those above a version: the store has them no more."""
        left = [each for each in self.all() if each.version <= version]
        self.partings, self.agreed = self.partings + 1, max(version, 0)
        first = self._first if self._first and self._first.version <= version else None
        self._rings = [deque((each for each in ring if each.version <= version), maxlen=RING) for ring in self._rings]
        self._first, self.last = first, left[0] if left else Position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a process reports of a cut, as of `Cut`; `known` is the number of the last cut that it knew of before."""

    known: int = 0
    agreed: int
    first_lost: int
    seen: int
    by: str


class LooksBack(Protocol):
    """Comparison of what this process saw of a cell with the cell."""

    sightings: Sightings

    def cuts(self) -> Cuts:
        """Return the reports of what the cell lost."""

    def standing(self, positions: Sequence[Position]) -> Standing:
        """Return which of the positions, newest first, the cell has."""

    def report_cut(self, report: Report) -> Cut | None:
        """Add a report to that of its cut, or begin one; None where this user of the store may not write."""

    def look_back(self) -> Cut | None:
        """Compare the versions that this object saw with the cell; report versions that it lost, and return the report.

        None when the last one is still there, when nothing is known of it any more, and when the cell is another one of
        the same name: then no version agrees.
        """
        seen, found = self.sightings, None
        standing = self.standing([seen.last] if seen.last.version else [])
        if standing.first_lost is not None:
            standing = self.standing(seen.all())
            found = self._part(standing)
        seen.known = standing.cuts if found is None else found.number
        seen.add(standing.present)
        return found

    def _part(self, standing: Standing) -> Cut | None:
        """Report a cut, and forget what was lost."""
        seen, agreed, lost, found = self.sightings, standing.agreed, standing.first_lost, None
        if agreed is not None and lost is not None:
            report = Report(known=seen.known, agreed=agreed, first_lost=lost, seen=seen.last.version, by="")
            found = self.report_cut(report) or Cut(
                number=standing.cuts, agreed=agreed, first_lost=lost, seen=report.seen, at_ms=0,
                version=standing.present.version, by=(),
            )  # fmt: skip
        seen.cut_after(-1 if agreed is None else agreed)
        return found

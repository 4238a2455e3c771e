"""Cuts of a cell's history on a server: looked for after each new connection (cellstate/cuts.py)."""

from collections.abc import Sequence
from dataclasses import asdict

from omega.cellstate.cuts import (
    CUTS_KEPT,
    NO_CUTS,
    PLACEMENTS_AHEAD,
    REPORTERS,
    Cut,
    Cuts,
    Report,
    Standing,
    read_cut,
    read_cuts,
)
from omega.cellstate.errors import Forbidden, Refused, StoreError, Unreachable
from omega.cellstate.override import override
from omega.cellstate.redis.calls import RedisCalls
from omega.cellstate.transaction import Position

UNCOMPARED = -1
"""Number of opened connections of which none was compared."""
UNNAMED = "client"
"""The author of a report by a process that has changed nothing yet."""


class RedisCuts(RedisCalls):
    """Comparison of what a process saw of a cell with the cell, and the reports of what was lost."""

    _comparing = False
    """Whether a comparison is in progress, whose own calls may open further connections."""

    @override
    def _reopened(self) -> None:
        if self._comparing:
            return
        opened = self._pool.opened
        if not self.sightings.last.version:
            self._opened = opened
            return
        try:
            self.look_back()
        except Forbidden:
            self._opened = opened  # the next command meets the same
        except (Refused, StoreError) as error:
            self._opened = UNCOMPARED  # the next command compares again: perhaps this server becomes the primary first
            if isinstance(error, Unreachable):
                raise

    @override
    def look_back(self) -> Cut | None:
        if self._comparing:
            return None
        self._comparing, partings = True, self.sightings.partings
        try:
            return super().look_back()
        finally:
            self._comparing = False
            if partings != self.sightings.partings:
                self._forget_versions()

    def _forget_versions(self) -> None:
        """Drop what this object keeps by the versions of records: they may be of other records now."""

    @override
    def report_cut(self, report: Report) -> Cut | None:
        now = self._server_ms()
        values = asdict(report) | self._values(now, report.by or self._author or UNNAMED)
        values |= {"now": now, "kept": CUTS_KEPT, "reporters": REPORTERS, "ahead": PLACEMENTS_AHEAD}
        try:
            _, number, record = self._run("report_cut", values)
        except Forbidden:
            return None
        return read_cut(int(number), record.decode())

    @override
    def standing(self, positions: Sequence[Position]) -> Standing:
        words = [word for position in positions for word in position]
        _, version, tag, cuts, agreed, lost = self._run("agreed", {}, words)
        self._opened = self._pool.opened  # of connections that are opened later nothing is known
        present = Position(int(version), tag.decode())
        return Standing(present, int(cuts), int(agreed) if agreed else None, int(lost) if lost else None)

    @override
    def cuts(self) -> Cuts:
        return self._record("cuts", "", read_cuts, self._hash("cuts")) or NO_CUTS

    def _server_ms(self) -> int:
        seconds, micros = self._command(self.client.time)
        return int(seconds) * 1000 + int(micros) // 1000

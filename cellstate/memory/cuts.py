"""Cuts of the history of a twin that was taken back: ``lua/agreed.lua`` and ``report_cut.lua``."""

from collections.abc import Sequence
from dataclasses import replace

from omega.cellstate.cuts import CUTS_KEPT, PLACEMENTS_AHEAD, REPORTERS, Cut, Cuts, Report, Standing
from omega.cellstate.memory.delta import has_diverged, latest
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.publish import announce, catch_up
from omega.cellstate.transaction import Position


def standing(ledger: Ledger, positions: Sequence[Position]) -> Standing:
    """Return which of the positions, newest first, the cell has."""
    catch_up(ledger)
    lost = [position.version for position in positions if has_diverged(ledger, position)]
    rest = positions[len(lost) :]
    agreed = rest[0].version if rest and rest[0].version > ledger.floor else None
    return Standing(latest(ledger), ledger.cuts.number, agreed, lost[-1] if lost else None)


def report_cut(ledger: Ledger, report: Report) -> Cut:
    """Add a report to that of its cut, or begin one."""
    last, by = ledger.cuts.number, report.by or "client"
    kept = {cut.number: cut for cut in ledger.cuts.kept}
    same = [
        cut
        for cut in reversed(ledger.cuts.kept)
        if cut.number > report.known and max(report.agreed, cut.agreed) < min(report.first_lost, cut.first_lost)
    ]
    ledger.open()
    if same:
        old = same[0]
        cut = replace(
            old, agreed=max(old.agreed, report.agreed), first_lost=min(old.first_lost, report.first_lost),
            seen=max(old.seen, report.seen), by=tuple(sorted({*old.by, by}))[:REPORTERS],
        )  # fmt: skip
        kept[cut.number], more = cut, cut.at_least - old.at_least
    else:
        number = max(last, report.known) + 1
        cut = Cut(
            number=number, agreed=report.agreed, first_lost=report.first_lost, seen=report.seen, at_ms=ledger.now_ms,
            version=ledger.version + 1, by=(by,),
        )  # fmt: skip
        kept[number], last, more = cut, number, cut.at_least
        kept.pop(number - CUTS_KEPT, None)
        ledger.placements += PLACEMENTS_AHEAD
        ledger.fact("cut", number, cut.agreed, cut.first_lost, cut.seen, ledger.placements)
        announce(ledger, ledger.now_ms, by)
    ledger.cuts = Cuts([kept[each] for each in sorted(kept)], last, ledger.cuts.lost + more)
    return cut


def cuts(ledger: Ledger) -> Cuts:
    """Return the reports of the cell."""
    return ledger.cuts

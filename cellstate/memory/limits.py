"""Limits of kinds in the twin: ``lua/limit.lua``."""

from omega.cellstate.errors import BadInput
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.publish import announce, wake
from omega.cellstate.memory.records import limits_of
from omega.cellstate.model import MOST_PRECEDENCE, Limits, check_author, check_word


def set_limits(ledger: Ledger, kind: str, limits: Limits, at_ms: int, by: str) -> None:
    """Set the limits on all jobs of a kind together."""
    check_author(by)
    check_word("kind", kind)
    if len(limits.resources) != len(ledger.dimensions):
        names = ", ".join(ledger.dimensions.names)
        raise BadInput(f"kind {kind}: {len(limits.resources)} limits; want one for each of {names}")
    k = ledger.kind(kind)
    if limits_of(k) == limits:
        return
    ledger.open()
    k.max_jobs, k.limit = limits.jobs, tuple(limits.resources)
    k.lowest, k.highest = (None, None) if limits.precedence == (0, MOST_PRECEDENCE) else limits.precedence
    k.limited = any(amount is not None for amount in k.limit)
    k.unrestricted = not k.limited and k.max_jobs is None and k.lowest is None
    jobs, lowest, highest, *amounts = (
        "-" if each is None else str(each) for each in (k.max_jobs, k.lowest, k.highest, *k.limit)
    )
    ledger.fact("limit", kind, jobs, lowest, highest, ",".join(amounts))
    wake(ledger, kind)
    announce(ledger, at_ms, by)

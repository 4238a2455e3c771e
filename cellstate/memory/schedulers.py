"""Schedulers of the twin: ``lua/register_scheduler.lua``, ``renew_scheduler.lua`` and ``deregister_scheduler.lua``."""

from collections.abc import Mapping
from typing import Any

from omega.cellstate.errors import Duplicate, Fenced
from omega.cellstate.executors import check_member, check_nonce
from omega.cellstate.logged_settings import scheduler_text
from omega.cellstate.memory.jobs import as_stored
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.publish import announce
from omega.cellstate.memory.records import SchedulerRow
from omega.cellstate.replies import Membership


def register_scheduler(
    ledger: Ledger, member: str, nonce: str, lease_ms: int, at_ms: int, settings: Mapping[str, Any] | None = None
) -> Membership:
    """Register a scheduler's name; Duplicate when a live one has it. `settings`: of the scheduler, for the log."""
    del lease_ms  # leases do not expire by themselves
    check_nonce(nonce)
    known = ledger.schedulers.get(check_member(member))
    if known and known.nonce == nonce:
        known.lives = True
        return Membership(member, known.incarnation)
    if known and known.lives:
        raise Duplicate(f"scheduler {member}: another one runs under this name; choose another or stop it")
    ledger.open()
    ledger.incarnations += 1
    ledger.schedulers[member] = SchedulerRow(ledger.incarnations, nonce)
    ledger.fact("enlist", member, ledger.incarnations)
    announce(ledger, at_ms, member, settings=scheduler_text(settings or {}))
    return Membership(member, ledger.incarnations)


def renew_scheduler(ledger: Ledger, membership: Membership, lease_ms: int, figures: Mapping[str, Any]) -> list[str]:
    """Renew the lease and store `figures`; return the live members. Fenced when it expired."""
    del lease_ms
    known = ledger.schedulers.get(membership.member)
    if known is None or not known.lives or known.incarnation != membership.incarnation:
        raise Fenced(f"scheduler {membership.member}: its lease lapsed; register again")
    ledger.stats[membership.member] = as_stored(dict(figures))
    return sorted(name for name, member in ledger.schedulers.items() if member.lives)


def deregister_scheduler(ledger: Ledger, membership: Membership, at_ms: int, *, reaped: bool = False) -> bool:
    """Deregister, or remove a member with an expired lease."""
    name, incarnation = membership
    known = ledger.schedulers.get(name)
    if known is None or known.incarnation != incarnation or (reaped and known.lives):
        return False
    ledger.open()
    del ledger.schedulers[name]
    ledger.fact("lapse" if reaped else "leave", name, incarnation)
    announce(ledger, at_ms, name)
    return True

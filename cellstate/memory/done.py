"""Finished jobs of the twin, kept by number and age; ``lua/parts/done.lua`` and ``lua/retire.lua``."""

from itertools import islice, takewhile

from omega.cellstate.memory.digest import forget_records
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.port_values import job_of
from omega.cellstate.pages import head_of, totals_of


def retire_excess(ledger: Ledger) -> None:
    """Delete finished jobs beyond the number to keep, a few per call (semantics 21)."""
    if not ledger.retired:
        return
    for j in ledger.retired:
        ledger.done.append((j, ledger.version + 1))
    forget(ledger, min(len(ledger.done) - ledger.keep_jobs, len(ledger.retired) + 4))


def forget(ledger: Ledger, count: int) -> int:
    """Delete the oldest `count` finished jobs; return their number.

    A job with leaving tasks moves to the end: tasks placed in their room need its amounts (2). So does an awaited one.
    """
    gone = 0
    for _ in range(count):
        j, since = ledger.done.popleft()
        if j.awaited or any(g.leaving for g in j.groups):
            ledger.done.append((j, since))
        else:
            del ledger.J[j.id]
            forget_records(ledger, j.id)
            ledger.forgotten.update(totals_of([head_of(job_of(ledger, j, spec=False, runs=False))]))
            if ledger.names.get(j.name) == j.id:  # a newer job of that name keeps it
                del ledger.names[j.name]
            gone += 1
    return gone


def retire(ledger: Ledger, now_ms: int, most: int = 1_000) -> int:
    """Delete finished jobs older than the cell keeps them, at most `most`; returns their number."""
    marks, limit = ledger.times, -1
    last_version, last = marks[-1] if marks else (-1, 0)
    now = max(now_ms, last)
    if last_version < ledger.version and (not marks or (now - last) * 64 >= ledger.keep_ms):
        marks.append((ledger.version, now))
    for i, (version, ms) in enumerate(tuple(marks)):
        if ms <= now - ledger.keep_ms:
            limit = version
            ledger.times = marks[i:]
    old = list(takewhile(lambda entry: entry[1] <= limit, islice(ledger.done, most)))
    return forget(ledger, len(old))

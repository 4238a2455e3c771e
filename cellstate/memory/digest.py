"""The digest of the log in the twin: ``lua/digest.lua`` and the reads of ``redis/digest.py``."""

from collections.abc import Iterable, Mapping, Sequence

from omega.cellstate.digest.hours import Owner, Position, readable
from omega.cellstate.digest.values import MOST_BYTES, MOST_FACTS, MOST_VERSIONS, DigestStep, Undigested
from omega.cellstate.events import Fact, facts_in
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.log_entries import stored
from omega.cellstate.ranges import indices
from omega.cellstate.replies import NewestFacts


def undigested(ledger: Ledger, most: int) -> Undigested:
    """Return the position of the digest and the next entries of the log, at most `most`."""
    known = readable(Position.unpack, ledger.digested, None)
    at = ledger.version if known is None else known.version
    facts: list[Fact] = []
    first = taken = 0
    for entry in ledger.entries:
        if entry[0] <= at:
            continue
        if taken >= most or len(facts) >= MOST_FACTS:
            break
        first, at, taken = first or entry[0], entry[0], taken + 1
        facts += facts_in(stored(entry))
    if not first:
        at = ledger.version
    return Undigested(
        position=ledger.digested, first=first or at + 1, newest=ledger.version, submissions=ledger.submissions,
        facts=facts, to=at,
    )  # fmt: skip


def digest(ledger: Ledger, step: DigestStep) -> bool:
    """Write a step, unless another one was written since it was begun."""
    if ledger.digested != step.before:
        return False
    ledger.digested = step.after
    for records in step.jobs:
        if records.job in ledger.J:
            ledger.histories[records.job] = records.history
            if records.chunks:
                ledger.results |= {records.job: records.chunks.encode()} | records.results
    before = len(ledger.hours)
    ledger.hours |= step.hours
    if len(ledger.hours) > before:
        ledger.hours = {hour: record for hour, record in ledger.hours.items() if hour >= step.oldest}
    return True


def forget_records(ledger: Ledger, job_id: str) -> None:
    """Delete what the digest kept of a job."""
    if ledger.histories.pop(job_id, None) is None:
        return
    for piece in ledger.results.pop(job_id, b"").decode().split(";"):
        group, _, chunks = piece.partition(":")
        for chunk in indices(chunks) if chunks else ():
            ledger.results.pop(f"{job_id} {group} {chunk}", None)


def histories(ledger: Ledger, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the histories of those jobs that have one."""
    return {job_id: ledger.histories[job_id] for job_id in ids if job_id in ledger.histories}


def result_records(ledger: Ledger, fields: Sequence[str]) -> dict[str, bytes]:
    """Return those of some records of results that exist."""
    return {field: ledger.results[field] for field in fields if field in ledger.results}


def owners(ledger: Ledger, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return user and pool of jobs with a specification."""
    specs = ((job_id, ledger.J[job_id].spec) for job_id in ids if job_id in ledger.J)
    return {job_id: (str(spec.get("user") or ""), str(spec.get("pool") or "")) for job_id, spec in specs if spec}


def usage_hour(ledger: Ledger, hour: int) -> bytes:
    """Return the record of an hour; empty when there is none."""
    return ledger.hours.get(hour, b"")


def usage_hours(ledger: Ledger, hours: Iterable[int]) -> dict[int, bytes]:
    """Return the records of those of some hours that have one."""
    return {hour: ledger.hours[hour] for hour in hours if hour in ledger.hours}


def digest_position(ledger: Ledger) -> bytes:
    """Return the record of the position that the digest has reached."""
    return ledger.digested


def job_history(ledger: Ledger, job_id: str) -> tuple[bytes, bytes]:
    """Return the record of the position, and the history of a job at that position."""
    return ledger.digested, ledger.histories.get(job_id, b"")


def newest_facts(ledger: Ledger, since: int, text: str = "") -> NewestFacts:
    """Return the facts after a version in lines of the log that have a text, of a bounded number of newest entries."""
    first = ledger.entries[0][0] if ledger.entries else ledger.version + 1
    after, size = max(since, first - 1), 0
    at, facts = after, list[Fact]()
    for read, line in enumerate(reversed(ledger.entries)):
        if line[0] <= after:
            break
        if read >= MOST_VERSIONS or size >= MOST_BYTES:
            at = line[0]
            break
        entry = stored(line)
        facts[:0] = [fact for fact in facts_in(entry) if text in fact.event.line]
        size += len(entry.facts)
    return NewestFacts(first, at, ledger.version, facts)


def held(ledger: Ledger) -> tuple[int, Mapping[Owner, tuple[int, ...]]]:
    """Return the version of the cell, and what the placed tasks of each account hold then."""
    sums: dict[Owner, tuple[int, ...]] = {}
    for row in ledger.L.values():
        owner = Owner(row.lane.kind, row.lane.user, row.lane.pool)
        amounts = ledger.spread(row.held)
        known = sums.get(owner, (0,) * len(amounts))
        sums[owner] = tuple(map(sum, zip(known, amounts, strict=True)))
    return ledger.version, sums

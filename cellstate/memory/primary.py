"""The primary records of a cell in memory, for the audit; its indexes are those that its jobs are found by."""

from collections import Counter
from itertools import chain

from omega.cellstate.lanes import BUCKET_SPAN, LANE_SPAN
from omega.cellstate.memory.delta import rows_of
from omega.cellstate.memory.lanes import queued
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.port_values import described_of, job_of, runs_of
from omega.cellstate.memory.records import KindRow, limits_of
from omega.cellstate.model import bucket_of
from omega.cellstate.primary import Content, Primary, Reading, Runs, Value
from omega.cellstate.ranges import EMPTY


def read_records(ledger: Ledger) -> Reading:
    """Return the records of a cell, and those of its indexes that are not its records themselves."""
    jobs = [job_of(ledger, j) for j in ledger.J.values()]
    named = ((job.id, number, run) for job in jobs for number, group in enumerate(job.groups) for run in group.runs)
    limited = {k.name: k for k in ledger.K.values() if not k.unrestricted}
    primary = Primary(
        resources=ledger.dimensions.names, version=ledger.version, placements=ledger.placements,
        first=ledger.entries[0][0] if ledger.entries else ledger.version + 1, length=len(ledger.entries),
        now_ms=ledger.now_ms, ticks=ledger.ticks, counters=Counter(arrivals=ledger.arrivals),
        rows={row[0]: row for row in rows_of(ledger, ledger.M).tolist()},
        described={index: described_of(m) for index, m in ledger.M.items()},
        runs=Runs((r.placement, r.job, r.machine, r.group, r.tasks, r.leaving) for r in runs_of(ledger, [*ledger.M])),
        jobs={job.id: job for job in sorted(jobs, key=lambda job: job.order)},
        recorded=Runs((placement, job, at, group, EMPTY, leaving) for job, group, (placement, at, leaving) in named),
        arrivals={j.id: j.arrival for j in ledger.J.values() if j.arrival},
        limits={name: limits_of(k) for name, k in limited.items()},
        updates=dict(ledger.rolling),
    )  # fmt: skip
    queues: dict[str, dict[bytes, Value]] = {}
    for j in chain.from_iterable(map(queued, ledger.L.values())):
        bucket = bucket_of(j.id)
        score = j.lane.number * LANE_SPAN + bucket * BUCKET_SPAN + j.arrival
        queues.setdefault(f"pending:{j.kind.name}", {})[f"{bucket:02x}{j.id}".encode()] = score
    names = {name.encode(): b"" if job == name else job.encode() for name, job in ledger.names.items() if job}
    kinds = {name.encode(): _kind(ledger, k) for name, k in limited.items()}
    indexes: dict[str, Content] = {"jobnames": names, "kinds": kinds, **queues}
    return Reading(primary, indexes, frozenset({"jobnames", "kinds", "pending"}))


def _kind(ledger: Ledger, k: KindRow) -> bytes:
    """Return the record of a kind, as a server has it."""
    limits = [k.max_jobs, k.lowest, k.highest, *k.limit]
    words = ["-" if limit is None else limit for limit in limits]
    return " ".join(map(str, (*words, k.jobs, *ledger.spread(k.used)))).encode()

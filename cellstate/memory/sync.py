"""Changes for a snapshot and jobs for its queue, from the twin: ``lua/sync.lua``."""

from omega.cellstate.memory.delta import delta, latest
from omega.cellstate.memory.lanes import lanes_since, next_jobs
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.port_values import job_of
from omega.cellstate.replies import PendingJob, Reply
from omega.cellstate.transaction import Intake, Position


def sync(ledger: Ledger, since: Position, intake: Intake | None = None) -> Reply:
    """Return the machines changed since a position; with `intake` also the next jobs of a scheduler."""
    full, rows = delta(ledger, since)
    reply = Reply(latest(ledger), full, rows, lanes=lanes_since(ledger, since.version, full=full))
    if intake is not None and intake.most:
        reply.arrivals = ledger.arrivals
        reply.counts, pending = next_jobs(ledger, intake)
        jobs = [PendingJob(j.arrival, job_of(ledger, j, runs=False)) for j in pending]
        reply.read_jobs = jobs.copy
    return reply

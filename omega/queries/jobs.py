"""One job by what commands call it, and lists of jobs in pages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import NotFound, Refused
from omega.cellstate.pages import JobPage, Keep
from omega.queries.delays import delay_json
from omega.queries.job_state import STATES, head_state, job_counts, restarts, state
from omega.queries.job_times import JobTimes, job_times
from omega.queries.wording import listing
from omega.users import source_of

__all__ = ["STATES", "find_job", "job_json", "keep", "list_jobs", "names_and_ids"]

MOST_NAMED = 1_000
"""Newest jobs whose names and ids are completed."""
DAY_MS = 24 * 3600 * 1000
MOST_BEGUN = 10_000
"""Newest jobs among which the beginning of an id is looked for: 2 ms of the server's time in a cell of any size."""

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job
    from omega.queries.room import Room

ID_SHOWN = 12
"""Letters of an id that lists print."""
EXACT = f"a change takes the exact name, or the id or its first {ID_SHOWN} letters"


def find_job(cell: "Cell", asked: str) -> "Job":
    """Return a job by its id, its name (of several jobs the newest), or a prefix of its id, in this order.

    A prefix is looked for among the ids of the `MOST_BEGUN` newest jobs.

    Raises NotFound when there is none, Refused when several ids begin like this.
    """
    job = cell.jobs.get(asked)
    if job is None and (named := cell.jobs.ids_by_name([asked])):
        job = cell.jobs.get(named[asked])
    if job is None and asked:
        near = sorted(job_id for job_id in cell.jobs.newest_ids(MOST_BEGUN) if job_id.startswith(asked))
        if len(near) > 1:
            begin = f"{len(near):,} jobs of cell {cell.name} begin so ({listing(near)})"
            raise Refused(f"job {asked!r}: {begin}; write more of the id")
        job = cell.jobs.get(near[0]) if near else None
    if job is None:
        raise NotFound(f"job {asked!r}: not in cell {cell.name}; see omega job list{_lately_lost(cell)}")
    return job


def job_to_change(cell: "Cell", asked: str) -> "Job":
    """Return a job by its name (of several jobs the newest), its id, or the `ID_SHOWN` letters of it that lists print.

    Reading may guess (`find_job`); a change of the wrong job cannot be taken back. Raises NotFound, and names the job
    that a word would have found.
    """
    job = cell.jobs.get(asked)
    if job is None and (named := cell.jobs.ids_by_name([asked])):
        job = cell.jobs.get(named[asked])
    if job is None and len(asked) == ID_SHOWN:
        return find_job(cell, asked)
    if job is None:
        try:
            near = find_job(cell, asked)
        except NotFound:
            raise
        except Refused as error:
            raise NotFound(f"{str(error).removesuffix('; write more of the id')}; {EXACT}") from None
        raise NotFound(f"job {asked!r}: no job has this name or id ({near.id} {near.name} begins so); {EXACT}")
    return job


def _lately_lost(cell: "Cell") -> str:
    """Return what the store lost in the last day, which a job that is not found may be part of; else nothing."""
    cut = cell.cuts().last
    if cut is None or cell.store_ms() - cut.at_ms > DAY_MS:
        return ""
    return f" ({cut.text}; a job that was submitted in one of these must be submitted again)"


def keep(kind: str | None = None, wanted: str | None = None) -> Keep | None:
    """Return the filter of jobs of a kind that are in a state; None when every job passes."""
    if kind is None and wanted is None:
        return None
    return lambda head: kind in (None, head.kind) and wanted in (None, head_state(head))


def names_and_ids(cell: "Cell") -> Iterator[tuple[str, str]]:
    """Yield the names and ids of jobs, each with its state or name, for completion: of the newest jobs."""
    for job in cell.jobs.page(MOST_NAMED).jobs:
        yield job.name, f"{state(job)} job"
        yield job.id, job.name


def list_jobs(cell: "Cell", page: JobPage, now_ms: int) -> dict[str, Any]:
    """Return a page of jobs as plain values, in order of submission.

    ``total`` counts the jobs of the whole list, None when a filter filled the page; ``next`` is the `before` of the
    next page, which has older jobs.
    """
    from omega.queries.room import Room

    room = Room(cell)
    times = job_times(cell, page.jobs)
    rows = [job_json(job, room, now_ms, times[job.id]) for job in page.jobs]
    return {"cell": cell.name, "total": page.total, "next": page.before, "jobs": rows}


def user_source(job: "Job") -> str | None:
    """Return where the submitter's client says that it took the name of the user from, None without a user.

    ``login``: the user of its connection to the store; ``vouched``: the user of a token or session of ``omega serve``;
    ``stated``: a job file, OMEGA_USER or the account. The store does not check it: a program that bypasses Omega can
    write each of them.
    """
    return source_of(job.spec) if job.spec.get("user") else None


def job_json(job: "Job", room: "Room | None", now_ms: int, times: JobTimes) -> dict[str, Any]:
    """Return a job as plain values, without room without its reason; `now_ms` in milliseconds since 1970."""
    reason = (str(room.reason(job)) or None) if room else None
    return {
        "id": job.id,
        "name": job.name,
        "kind": job.kind,
        "precedence": job.precedence,
        "gang": job.gang.name.lower(),
        "gang_min": job.gang_min or None,
        "state": state(job),
        "reason": reason,
        "delay": delay_json(room.delay(job), now_ms) if room and reason == "LOCALITY" else None,
        "user": job.spec.get("user"),
        "user_source": user_source(job),
        "modify_index": job.modified,
        "held": job.held,
        "gate": job.gate or None,
        "after": [wait._asdict() for wait in job.after],
        "submitted_ms": job.submitted_ms,
        "submitted_by": job.submitter or None,
        "age_seconds": max(0, now_ms - job.submitted_ms) / 1000,
        "counts": job_counts(job),
        "restarts": restarts(job),
        **times.as_json(job, now_ms),
    }

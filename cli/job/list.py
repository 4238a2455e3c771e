"""``omega job list``."""

import time
from typing import TYPE_CHECKING, Any

import click

from cli import render, words
from cli.app import App
from cli.columns import Columns, answered, columns_option
from cli.mapreduce import progress
from omega.queries.job_state import STATES, Room, counts, state

if TYPE_CHECKING:
    from cellstate.model import Job

MOST_ROWS = 50
SPARE = ("user", "kind", "prec", "stopped", "failed", "placed")
"""What a narrow terminal is not shown, the first of it first."""


@click.command()
@click.option("--kind", metavar="KIND", help="Only those of a kind.")
@click.option("--state", "wanted", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--user", metavar="NAME", help="Only those that this user submitted.")
@click.option("--limit", type=click.IntRange(1), metavar="N",
              help=f"Only the N newest (default: {MOST_ROWS}; with --json all).")  # fmt: skip
@columns_option
@click.pass_obj
def command(
    app: App, kind: str | None, wanted: str | None, user: str | None, limit: int | None, columns: Columns
) -> None:
    """The jobs in order of submission, with their state and its reason.

    States: pending (something of it is unplaced), running, held, finished, failed, stopped, abandoned.
    Reasons: WAITING, NO_SCHEDULER, NO_MACHINE, TOO_LARGE, CONSTRAINT, SPREAD, RESOURCES, LIMIT, HELD, DEPENDENCY,
    CONFLICTS, STOPPING. A question mark marks a user that the store did not verify. Why in full: omega job why JOB.
    """
    cell = app.open()
    jobs = [job for job in cell.jobs() if kind in (None, job.kind) and wanted in (None, state(job))]
    jobs = [job for job in jobs if user in (None, job.spec.get("user"))]
    most = limit or (len(jobs) if app.as_json else MOST_ROWS)
    shown, room, now = jobs[-most:] if most else [], Room(cell), time.time()
    if app.as_json or columns:
        plain = [as_json(job, room, now) for job in shown]
        answered(app, {"cell": cell.name, "total": len(jobs), "jobs": plain}, "jobs", columns)
        return
    if not jobs:
        render.note(
            "no jobs"
            + (" of this kind, state and user" if kind or wanted or user else "; submit one with omega job run")
        )
        return
    if len(shown) < len(jobs):
        render.note(f"… {words.count(len(jobs) - len(shown), 'older job')} (--limit)")
    some = [name for name in ("finished", "failed", "stopped") if any(counts(job.groups)[name] for job in shown)]
    with_precedence, with_user = any(job.precedence for job in shown), any("user" in job.spec for job in shown)
    briefs = {job.id: brief for job in shown if (brief := progress.brief(cell, job))}
    rows = []
    for job in shown:
        found = counts(job.groups)
        kind_and_rank = (job.kind, job.precedence) if with_precedence else (job.kind,)
        numbers = (found["total"], found["placed"], *(found[name] for name in some))
        age = words.age(now - job.submitted_ms / 1000)
        who = (shown_user(job),) if with_user else ()
        far = (briefs.get(job.id, ""),) if briefs else ()
        rows.append((job.id, job.name, *who, *kind_and_rank, state(job), room.reason(job), *far, *numbers, age))
    headings = ("kind", ">prec") if with_precedence else ("kind",)
    numbered = (f">{name}" for name in ("tasks", "placed", *some))
    headings = ("user", *headings) if with_user else headings
    states = ("state", "reason", "progress") if briefs else ("state", "reason")
    render.table(("id", "name", *headings, *states, *numbered, ">age"), rows, SPARE)


def shown_user(job: "Job") -> str:
    """The user of a job; a question mark after it when only the submitter says so."""
    user = str(job.spec.get("user", ""))
    return user if job.spec.get("verified") or not user else f"{user}?"


def as_json(job: "Job", room: Room, now: float) -> dict[str, Any]:
    """A job as plain values; `now` in seconds since 1970."""
    return {
        "id": job.id, "name": job.name, "kind": job.kind, "precedence": job.precedence,
        "gang": job.gang.name.lower(), "state": state(job), "reason": room.reason(job) or None,
        "user": job.spec.get("user"), "user_verified": bool(job.spec.get("verified")),
        "modify_index": job.modified, "held": job.held,
        "after": [wait._asdict() for wait in job.after], "submitted_ms": job.submitted_ms,
        "age_seconds": max(0.0, now - job.submitted_ms / 1000), "counts": counts(job.groups),
    }  # fmt: skip

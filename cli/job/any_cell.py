"""Submission of jobs to the best of several cells: ``--cell any`` and ``--cell a,b``."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.queries import units
from omega.queries.job_warnings import unserved, warnings
from omega.submission import CHUNK

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell
    from omega.jobfile.reader import JobFile
    from omega.many_cells.opened import OpenCells
    from omega.many_cells.policy import CellPolicy
    from omega.many_cells.submission import Read, Sending

MOST_TOLD = 20
"""Jobs whose cells are explained in text."""

policy_option = click.option(
    "--cells-policy",
    metavar="NAME",
    help="Policy that chooses among several cells: an installed name or MODULE:ATTRIBUTE (default: fits-first).",
)


def check_policy(name: str | None, names: Sequence[str] | None) -> None:
    """Raise UsageError for a policy where one cell is named."""
    if name is not None and names is None:
        raise click.UsageError("--cells-policy goes with --cell any, or --cell A,B")


def policy(name: str | None) -> "CellPolicy":
    """Return the policy that an option names. Raises BadInput."""
    from omega.many_cells.policy import cell_policy

    if name is not None and ":" in name and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as for schedulers
    return cell_policy(name)


class Several:
    """Open cells among which the jobs of one command are divided."""

    def __init__(self, ctx: click.Context, names: Sequence[str], chosen: str | None) -> None:
        """Open the cells; `chosen`: the name of the policy."""
        self.ctx, self.app = ctx, ctx.obj
        self.policy = policy(chosen)
        self.found: OpenCells = self.app.open_cells(names)

    def submit(self, read: "Read", follow: bool | None, *, hold: bool = False, of_tasks: bool = False) -> None:
        """Submit jobs, print the answers, and follow them if asked."""
        from omega.many_cells.submission import AnyCell

        any_cell = AnyCell(self.found, self.policy, self.app.now_ms, self.app.by)
        with render.busy("planning", quiet=self.app.as_json):
            jobs = any_cell.prepare(read)
        cells: dict[str, RedisCell] = {}

        def reopen(name: str) -> "RedisCell":
            cells[name] = self.app.open(name, to_change=True)
            return cells[name]

        with render.progress(quiet=self.app.as_json) as bars:
            bar = bars.add_task("submitting", total=len(jobs), more="jobs", visible=len(jobs) > CHUNK)
            for _ in any_cell.send(jobs, reopen, hold=hold):
                bars.advance(bar)
        doubtful = [*any_cell.warnings, *_doubts(cells, jobs)]
        for text in doubtful:
            render.warning(text)
        for name, why in sorted(self.found.skipped.items()):
            render.warning(f"{name} was not asked: {why}")
        self._answer(jobs, cells, follow, doubtful, of_tasks=of_tasks)

    def plan(self, read: "Read") -> bool:
        """Print to which cells jobs would go; return whether all tasks would be placed now. Nothing is submitted."""
        from omega.many_cells.submission import AnyCell

        any_cell = AnyCell(self.found, self.policy, self.app.now_ms, self.app.by, dry=True)
        with render.busy("planning", quiet=self.app.as_json):
            jobs = any_cell.prepare(read)
        for name, why in sorted(self.found.skipped.items()):
            render.warning(f"{name} was not asked: {why}")
        if self.app.as_json:
            rows = [job.as_json() for job in jobs]
            render.document({"cells": sorted(self.found.cells), "skipped": self.found.skipped, "jobs": rows})
        else:
            _say(jobs, "nothing was submitted")
        return all(job.fits for job in jobs)

    def _answer(
        self,
        jobs: "Sequence[Sending]",
        cells: "dict[str, RedisCell]",
        follow: bool | None,
        doubtful: Sequence[str],
        *,
        of_tasks: bool,
    ) -> None:
        app: App = self.app
        following = follow if follow is not None else sys.stdout.isatty() and not app.as_json
        if app.as_json:
            rows = [job.as_json() for job in jobs]
            skipped = self.found.skipped
            render.document({"cells": sorted(self.found.cells), "skipped": skipped, "jobs": rows, "warnings": doubtful})
        else:
            _say(jobs, "following (Ctrl-C detaches)" if following else "see omega job status JOB --all-cells")
        if following and not app.as_json:
            from omega.cli.job.follow import follow_all
            from omega.client.lost_jobs import Submissions

            codes = []
            for name, cell in cells.items():
                ids = [job.id for job in jobs if job.cell == name]
                codes.append(follow_all(app, cell, ids, doubtful, Submissions(), of_tasks=of_tasks))
            self.ctx.exit(next((code for code in codes if code), 0))


def _doubts(cells: "dict[str, RedisCell]", jobs: "Sequence[Sending]") -> list[str]:
    """Return warnings about new jobs, cell by cell."""
    found = []
    for name, cell in cells.items():
        fresh = [job.specs[name] for job in jobs if job.cell == name and job.answer and job.answer.status == "new"]
        found += warnings(cell, fresh) + unserved(cell, fresh)
    return list(dict.fromkeys(found))


def _say(jobs: "Sequence[Sending]", next_step: str) -> None:
    rows = [job.as_json() for job in jobs]
    for job, row in zip(jobs[:MOST_TOLD], rows, strict=False):
        how = "was there before" if row["found"] else row.get("status", "would be submitted")
        render.line(f"job  {row['id']}  {row['name']}  {how} · cell {row['cell']}")
        for offer in job.choice.offers.values() if job.choice else ():
            chosen = "chosen" if offer.cell == job.cell else "not chosen"
            render.line(f"  {offer.cell}: {chosen}: {offer.as_text()}")
        for name, why in job.choice.unfit.items() if job.choice else ():
            render.line(f"  {name}: not possible: {why}")
    if len(jobs) > MOST_TOLD:
        render.note(f"… {units.count(len(jobs) - MOST_TOLD, 'more job')} (--json)")
    by_cell = [f"{sum(job.cell == name for job in jobs):,} in {name}" for name in sorted({job.cell for job in jobs})]
    render.line(f"{units.count(len(jobs), 'job')}: {', '.join(by_cell)} · {next_step}")


def reader(user: str, jobs: "Callable[[RedisCell, Callable[[], str]], Sequence[JobSpec]]") -> "Read":
    """Return a function that prepares jobs for a cell (`AnyCell.prepare`)."""
    from omega.submission import prepared

    def read(cell: "RedisCell", next_id: Callable[[], str]) -> "list[JobSpec]":
        return prepared(cell, jobs(cell, next_id), user)

    return read


def files_reader(user: str, files: "Sequence[JobFile]", *, new: bool = False) -> "Read":
    """Return a function that prepares the jobs of files for a cell; `new`: they must not be there."""
    from omega.queries.job_fields import KindFields
    from omega.submission import check_new, jobs_of, prepared

    def read(cell: "RedisCell", next_id: Callable[[], str]) -> "list[JobSpec]":
        fields = KindFields(cell)
        specs = jobs_of(cell, files, fields, next_id)
        if new:
            check_new(cell.jobs, specs)
        return prepared(cell, specs, user, fields)

    return read


def unique(warn: Callable[[str], Any]) -> Callable[[str], None]:
    """Return a function that passes each text on once: several cells cause the same warnings."""
    said = set[str]()

    def once(text: str) -> None:
        if text not in said:
            said.add(text)
            warn(text)

    return once

"""``omega job plan``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.job.any_cell import Several, check_policy, files_reader, policy_option
from omega.cli.job.options import job_file, read_bytes, read_file
from omega.cli.job.preview import FITS, LACKS, MOST_ROWS, exit_code, show_update
from omega.cli.job.run_options import run_options
from omega.cli.job.script import plan_script, refuse_options
from omega.client.dry_runs import planned_update
from omega.jobfile.script import STDIN, Script, is_script
from omega.queries import units
from omega.queries.job_fields import KindFields
from omega.queries.plans import PlannedJob, plan_jobs
from omega.submission import check_pools, jobs_of, names_taken, prepared

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE… | SCRIPT [ARG…]")
@click.option("--verbose", "-v", is_flag=True, help="Print every machine with its score and the parts of the score.")
@policy_option
@run_options
@click.pass_context
def command(ctx: click.Context, /, files: Sequence[str], verbose: bool, cells_policy: str | None, **_: Any) -> None:
    """Plan the jobs in FILEs (- for stdin), or a script, as if they were submitted now; nothing is submitted.

    The schedulers' own policies decide on a working copy of the cell, job after job in the files' order. In a cell with
    pools, tasks that would be placed by evictions after the starvation timeout count as placed. The exit status
    is 0 when every task fits or the job exists unchanged, 3 when tasks would be pending, 1 on an error.

    Of a job whose name a live job has it shows what omega job update would replace, keep and add.

    With --cell any, or --cell A,B, it shows to which cell each job would go, and what each cell offers.
    """
    app: App = ctx.obj
    names = app.several()
    check_policy(cells_policy, names)
    data = read_bytes(files[0])
    if names is not None:
        if is_script(data):
            raise click.UsageError("name one cell with --cell to plan a script")
        refuse_options(ctx, files[0])
        read = [job_file(files[0], data), *(read_file(name) for name in files[1:])]
        ctx.exit(FITS if Several(ctx, names, cells_policy).plan(files_reader(app.user, read)) else LACKS)
    if is_script(data):
        cell = app.open()
        updates = list[dict[str, Any]]()
        specs = plan_script(ctx, cell, Script.read(STDIN if files[0] == "-" else files[0], data, files[1:]))
    else:
        refuse_options(ctx, files[0])
        read = [job_file(files[0], data), *(read_file(name) for name in files[1:])]
        cell = app.open()
        fields = KindFields(cell)
        read_specs = jobs_of(cell, read, fields)
        live = {spec.id for spec, _ in names_taken(cell, read_specs)}
        specs = prepared(cell, [spec for spec in read_specs if spec.id not in live], app.user, fields)
        updating = prepared(cell, [spec for spec in read_specs if spec.id in live], None, fields)
        updates = [planned_update(cell, spec) for spec in updating]
    ctx.exit(_plan(app, cell, specs, updates, verbose=verbose))


def _plan(
    app: App, cell: "RedisCell", specs: "Sequence[JobSpec]", updates: Sequence[dict[str, Any]], *, verbose: bool
) -> int:
    check_pools(cell, specs)
    with render.busy("planning", quiet=app.as_json):
        plans, document = plan_jobs(cell, specs, scored=verbose)
    if app.as_json:
        render.document(document | ({"updates": updates} if updates else {}))
    else:
        for text in document["warnings"]:
            render.warning(text)
        for plan in plans:
            _show(plan, most=None if verbose else MOST_ROWS)
        for update in updates:
            show_update(update)
        render.note("nothing was submitted")
    lacks = any(plan.unplaced for plan in plans) or any(map(exit_code, updates))
    return LACKS if lacks else FITS


def _show(plan: PlannedJob, most: int | None) -> None:
    """Print the plan; at most `most` machines, with None all and their scores."""
    if plan.unchanged:
        render.line(f"{plan.spec.name}: an identical job exists; nothing would change")
        return
    placements, evictions = plan.placements(), plan.evictions()
    told = f"{plan.spec.name}: {plan.placed:,} of {units.count(plan.spec.total, 'task')} would be placed"
    machines = len({each["machine"] for each in placements})
    told += f" on {units.count(machines, 'machine')}" if placements else ""
    if plan.unplaced:
        told += f", {plan.unplaced:,} would be pending: {plan.reason}"
    render.line(told)
    several, kinds = len(plan.spec.groups) > 1, sorted({name for each in placements for name in each["scores"]})
    detailed = most is None and bool(kinds)
    rows = [
        (
            *([plan.spec.groups[each["group"]].spec.get("name", each["group"])] if several else []),
            each["machine"],
            each["tasks"],
            *([f"{each['score']:.3f}", *(f"{each['scores'][kind]:.3f}" for kind in kinds)] if detailed else []),
        )
        for each in placements[:most]
    ]
    headings = ["group"] * several + [
        "machine",
        ">tasks",
        *([">score", *(f">{kind}" for kind in kinds)] * detailed),
    ]
    if rows:
        render.table(headings, rows)
    if most is not None and len(placements) > most:
        render.note(f"… {units.count(len(placements) - most, 'more machine')} (--verbose)")
    if evictions and plan.planned.after:
        render.line(f"  after {units.age(plan.planned.after)} below the fair share of its pool or its own:")
    for each in evictions:
        who = f"{units.count(each['tasks'], 'task')} of {each['name']} (precedence {each['precedence']})"
        render.line(f"  evicts {who} on {each['machine']}")

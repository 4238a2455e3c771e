"""Previews of changes of live jobs: ``omega job update --dry-run``, ``job resize --dry-run`` and ``job plan``."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.client.dry_runs import planned_resize, planned_update
from omega.queries import units

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell

MOST_ROWS = 20
FITS, LACKS = 0, 3
"""Exit codes, as those of ``omega job plan``."""

dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would change; nothing is changed.")


def preview_update(cell: "RedisCell", spec: "JobSpec", *, as_json: bool) -> int:
    """Print what an update by a job would change; returns the exit code."""
    planned = planned_update(cell, spec)
    if as_json:
        render.document(planned)
    else:
        show_update(planned)
        render.note("nothing was changed")
    return exit_code(planned)


def preview_resize(cell: "RedisCell", job: str, group: str | None, count: int, *, as_json: bool) -> int:
    """Print what a resize would change; returns the exit code."""
    planned = planned_resize(cell, job, group, count)
    if as_json:
        render.document(planned)
    else:
        before = planned["before"]
        fewer = f"; {units.count(before - count, 'task')} would be removed, pending ones first" * (count < before)
        render.line(f"{planned['name']}: from {before:,} to {units.count(count, 'task')}{fewer}")
        _show_plan(planned["plan"], "added")
        render.note("nothing was changed")
    return exit_code(planned)


def exit_code(planned: Mapping[str, Any]) -> int:
    """Return 3 when added or new tasks would be pending, as `omega job plan` does."""
    return LACKS if planned["plan"] and planned["plan"]["unplaced"] else FITS


def show_update(planned: Mapping[str, Any]) -> None:
    """Print what an update would replace, keep and add."""
    name = planned["name"]
    if planned["restarts"]:
        render.line(f"{name}: ended; would restart with {units.count(planned['starts'], 'task')}")
    elif not planned["changes"] and not planned["replaces"]:
        render.line(f"{name}: an identical job exists; nothing would change")
    else:
        render.line(f"{name}: a live job; omega job update would replace {units.count(planned['replaces'], 'task')}")
    for each in planned["group_changes"]:
        render.line(f"  {_group(each)}")
    for each in planned["changes"]:
        render.line(f"  {each['field']}: {_text(each['before'])} → {_text(each['after'])}")
    replaced = planned["replaced_tasks"]
    for each in replaced[:MOST_ROWS]:
        render.line(f"  replaces {each['task_name']} on {each['machine']}")
    if len(replaced) > MOST_ROWS:
        render.note(f"… {units.count(len(replaced) - MOST_ROWS, 'more placement')} (--json)")
    _show_plan(planned["plan"], "new" if planned["replaces"] else "added")


def _group(change: Mapping[str, Any]) -> str:
    why = f" ({', '.join(change['fields'])})" if change["replaced"] and change["fields"] else ""
    lost = f", the work of {units.count(change['running'], 'running task')} is lost" if change["running"] else ""
    said = [f"{change['replaced']:,} replaced{why}{lost}", f"{change['kept']:,} kept"]
    more = change["after"] - change["before"]
    said += [f"{more:,} added"] if more > 0 else [f"{-more:,} removed"] if more < 0 else []
    return f"{change['name']}: {', '.join(said)}"


def _text(value: object) -> str:
    return "–" if value is None else str(value)


def _show_plan(plan: Mapping[str, Any], word: str) -> None:
    if not plan or not plan["placed"] + plan["unplaced"]:
        return
    lacks = f", {plan['unplaced']:,} would be pending: {plan['reason']}" if plan["unplaced"] else ""
    tasks = Counter[str]()
    for each in plan["placements"]:
        tasks[each["machine"]] += each["tasks"]
    machines = units.listing([f"{count:,} on {machine}" for machine, count in tasks.items()])
    where = f" ({machines})" if machines else ""
    render.line(f"  {units.count(plan['placed'], f'{word} task')} would be placed{where}{lacks}")

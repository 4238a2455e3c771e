"""``omega pool compute``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App

METHODS = ("pool-tree", "drf", "naive-hdrf", "min-satisfaction-hdrf")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=METHODS[0],
    show_default=True,
    help="Algorithm: pool tree as in YTsaurus, flat dominant resource fairness, or one of its hierarchical forms.",
)
@click.pass_obj
def command(app: App, *, file: Path, method: str) -> None:
    """Compute the fair share of every pool and job in FILE.

    FILE is JSON or YAML: total_resources, tree (a list of pools and jobs), options and
    seconds_since_previous_update; docs/fair-share-calculator.md lists the fields. No store is used.
    """
    from omega import pools

    tree, seconds = pools.read(file)
    shares = pools.computed(tree, seconds, method)
    for error in shares["errors"]:
        render.warning(error)
    if app.as_json:
        render.document(shares)
        return
    depths = {name: len(tree.path(number)) - 1 for name, number in tree.numbers.items()}
    depths |= {job.name: depths[job.parent] + 1 for job in tree.jobs}
    below: dict[str, list[str]] = {}
    for pool in tree.pools:
        below.setdefault(pool.parent, []).append(pool.name)
    for job in tree.jobs:
        below.setdefault(job.parent, []).append(job.name)
    rows = []
    waiting = [pools.ROOT]
    while waiting:
        name = waiting.pop()
        waiting.extend(reversed(below.get(name, [])))
        rows.append(_row("  " * depths[name] + name, shares["elements"][name], tree.resources))
    columns = ("element", ">weight", *(f">{name}" for name in tree.resources), "dominant", ">demand", ">satisfaction")
    shown = columns if method == METHODS[0] else columns[: 2 + len(tree.resources)]
    render.table(shown, [row[: len(shown)] for row in rows])


def _row(name: str, element: Mapping[str, Any], resources: tuple[str, ...]) -> tuple[object, ...]:
    shares = (f"{element['fair_share'][resource]:.4f}" for resource in resources)
    satisfaction = element.get("satisfaction", "")
    return (
        name,
        f"{element['weight']:g}",
        *shares,
        element.get("dominant_resource", ""),
        f"{max(element.get('demand_share', {'': 0.0}).values()):.4f}",
        f"{satisfaction:.4f}" if isinstance(satisfaction, float) else satisfaction,
    )

"""``omega cell list``."""

from typing import Any

import click

from cellstate.errors import OmegaError
from cli import render
from cli.app import App
from cli.columns import Columns, answered, columns_option


@click.command()
@columns_option
@click.pass_obj
def command(app: App, columns: Columns) -> None:
    """The cells on the store: their resources, machines, live jobs and schedulers."""
    found = [_described(app, name) for name in app.cells()]
    if answered(app, {"store": app.shown_url, "cells": found}, "cells", columns):
        return
    if not found:
        render.note("no cells; make one with omega cell create NAME")
        return
    plain = ("machines", "jobs", "schedulers")
    rows = [
        (each["name"], ", ".join(each["resources"]), *(each[word] for word in plain), each["note"] or "")
        for each in found
    ]
    render.table(("cell", "resources", ">machines", ">live jobs", ">schedulers", ""), rows)


def _described(app: App, name: str) -> dict[str, Any]:
    """What is known of a cell; one that this version cannot read says so in its note."""
    try:
        cell = app.open(name)
    except OmegaError as error:
        return {"name": name, "resources": [], "machines": 0, "jobs": 0, "schedulers": 0, "note": str(error)}
    live = sum(alive for _, alive, _ in cell.members().values())
    return {
        "name": name, "resources": list(cell.dimensions.names), "machines": len(cell.machines()),
        "jobs": len(cell.job_names()), "schedulers": live, "note": None,
    }  # fmt: skip

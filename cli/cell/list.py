"""``omega cell list``."""

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.queries.cells import list_cells

UNREADABLE = 3
"""Exit status when a cell cannot be read."""


@click.command()
@columns_option
@click.pass_obj
def command(app: App, columns: Columns) -> None:
    """List the cells of the store: resources, machines, live jobs and schedulers.

    The line of a cell that cannot be read shows the error; the exit status is then 3.
    """
    found = list_cells(app.cells(), app.open)
    code = UNREADABLE if any(each["note"] for each in found) else 0
    if answered(app, {"store": app.shown_url, "cells": found}, "cells", columns):
        click.get_current_context().exit(code)
    if not found:
        render.note("no cells; create one with omega cell create NAME")
        return
    copied = ("machines", "jobs", "schedulers")
    rows = [
        (each["name"], ", ".join(each["resources"]), *(each[word] for word in copied), each["note"] or "")
        for each in found
    ]
    render.table(("cell", "resources", ">machines", ">live jobs", ">schedulers", ""), rows)
    click.get_current_context().exit(code)

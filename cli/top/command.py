"""``omega top``: the command."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import BadInput, OmegaError
from omega.cli import render
from omega.cli.app import IN_PART, App
from omega.cli.options import all_cells_option

if TYPE_CHECKING:
    from omega.cli.top.cells import AnyMirror


def at_a_terminal() -> bool:
    """Return whether stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _mirror(app: App, names: Sequence[str] | None) -> "AnyMirror":
    """Return the mirror of the cell, or of several."""
    from omega.queries.mirror import TopMirror

    if names is None:
        return TopMirror(app.open(), app.shown_url)
    from omega.cli.top.cells import CellsMirror

    found = app.open_cells(names)
    mirrors = [TopMirror(each, app.shown_url) for each in found.cells.values()]
    return CellsMirror(mirrors, app.shown_url, found.skipped)


@click.command("top")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--every",
    type=click.FloatRange(1, 60),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Refresh interval in seconds.",
)
@all_cells_option
@click.pass_obj
def command(app: App, once: bool, every: float, all_cells: bool) -> None:
    """Show the cell live: resource use, pending jobs with reasons, running jobs, schedulers, machines, events, pools.

    Keys: 1 to 5 and Tab choose a table, arrows a line, Enter opens it; / filters, s sorts, r reverses; Space
    pauses, ? shows help, q quits.
    """
    mirror = _mirror(app, app.several(all_cells=all_cells))
    if once or app.as_json:
        from omega.cli.top.once import document, show

        overview = mirror.look(app.now_ms())
        if app.as_json:
            render.document(document(overview))
        else:
            show(overview)
        if getattr(overview, "skipped", None):
            click.get_current_context().exit(IN_PART)
        return
    if not at_a_terminal():
        raise BadInput("omega top: needs a terminal; use omega top --once for one frame")
    try:
        from omega.cli.top.screen import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise OmegaError(
            "omega top: textual is not installed; pip install 'omega-scheduler[top]', or use omega top --once"
        ) from None
    failure = Top(mirror, app.now_ms, every).run()
    if failure:
        raise OmegaError(failure)

"""The option --over of commands that set limits, and what they print when the use exceeds one."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.redis import RedisCell

over_option = click.option(
    "--over",
    type=click.Choice(("keep", "evict")),
    default="keep",
    show_default=True,
    help="Keep tasks above a lowered limit until they end, or evict the least important ones.",
)


def settle(
    app: App,
    cell: "RedisCell",
    what: str,
    mode: str,
    excess: Callable[[], Mapping[str, int]],
    belongs: "Callable[[Job], bool]",
) -> tuple[dict[str, int], int]:
    """Evict what is over a limit, or report it; return by how much the use is over now, and the evicted tasks."""
    from omega.limits import settle as settled

    found = settled(cell, what, excess, belongs if mode == "evict" else None, app.now_ms, app.by)
    if found.evicted:
        render.note(f"{what}: {units.count(found.evicted, 'task')} evicted; they are pending again")
    if found.warning:
        render.warning(found.warning)
    return found.over, found.evicted

"""``omega machine set``."""

from collections.abc import Mapping, Sequence

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.attributes import NAME
from omega.queries.machines import find_machines


@click.command()
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE…")
@click.pass_obj
def command(app: App, name: str, changes: Sequence[str]) -> None:
    """Change attributes of the machine NAME: KEY=VALUE sets one, KEY= removes one. Running tasks stay.

    Blocked jobs with constraints that the change may satisfy are retried.
    """
    asked = _read(changes)
    cell = app.open(to_change=True)
    machine = find_machines(cell, [name])[0]
    cell.set_machine_attributes(machine.index, asked, app.now_ms(), app.by)
    has = dict(cell.described([machine.index])[0][1])
    if app.as_json:
        render.document({"cell": cell.name, "name": machine.name, "index": machine.index, "attributes": has})
        return
    said = ", ".join(f"{key}={value}" for key, value in has.items()) or "no attributes"
    render.line(f"machine {machine.name} has {said}")


def _read(changes: Sequence[str]) -> Mapping[str, str | None]:
    """Return ``{KEY: VALUE}``, None for attributes to remove. Raises UsageError for a malformed change."""
    found: dict[str, str | None] = {}
    for text in changes:
        key, equals, value = text.partition("=")
        if not (equals and NAME.fullmatch(key)) or key in found:
            raise click.UsageError(
                f"{text!r} is not KEY=VALUE, or KEY is given twice; write for example rack=r7, or rack="
            )
        found[key] = value or None
    return found

"""``omega pool import``."""

from pathlib import Path

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.pool import settings


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@settings.version_option
@click.pass_obj
def command(app: App, *, file: Path, version: int | None) -> None:
    """Replace all pools and trees by those of FILE (YAML or JSON; docs/pool-settings.md lists the fields).

    If FILE names a version, or --check does, the import is refused when the pools have another one.
    """
    from dataclasses import replace

    from omega.pools.changes import change
    from omega.pools.file import read

    cell = app.open(to_change=True)
    wanted, named = read(file, cell.dimensions)
    before, after = change(
        cell, lambda pools: replace(wanted, version=pools.version), app.now_ms(), app.by,
        named if version is None else version,
    )  # fmt: skip
    old, new = before.by_name, after.by_name
    counts = {
        "added": len(new.keys() - old.keys()),
        "changed": sum(name in old and replace(old[name], number=pool.number) != pool for name, pool in new.items()),
        "removed": len(old.keys() - new.keys()),
    }
    if app.as_json:
        render.document({"cell": cell.name, "version": after.version, **counts})
        return
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    render.note(f"{said}; the pools have version {after.version}")

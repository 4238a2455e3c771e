"""``omega store backup`` and ``omega store restore``: cells as a file, independent of the server."""

import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from omega.cellstate.errors import BadInput, OmegaError, Refused
from omega.cli import render
from omega.cli.app import App
from omega.queries import units

if TYPE_CHECKING:
    from rich.progress import Progress

    from omega.cellstate.backup import Image, Told

STDOUT = "-"
MOST_NAMED = 5
"""Machines that a warning names."""


@click.command("backup", short_help="Write cells to a file, or check a file.")
@click.argument("file")
@click.option("--force", is_flag=True, help="Overwrite an existing FILE.")
@click.option(
    "--check", is_flag=True, help="Read FILE without a store and print what it holds; exit 1 if it is damaged."
)
@click.pass_obj
def backup(app: App, file: str, force: bool, check: bool) -> None:
    """Write all cells of the store, or the one given by --cell, to FILE (- for stdout), and read it back.

    Schedulers may keep running: each cell is written as of one version. FILE appears only when it is complete and was
    read back as the cells that were written.
    """
    if check:
        _show(app, file, _check(app, file))
        return
    names = [app.cell_name] if app.cell_name is not None else app.cells()
    if not names:
        raise Refused(f"the store at {app.shown_url} has no cells; there is nothing to back up")
    if file == STDOUT:
        with tempfile.TemporaryFile() as draft:
            written = _write(app, names, draft, "on stdout")
            draft.seek(0)
            shutil.copyfileobj(draft, sys.stdout.buffer)
        render.note(f"{units.count(len(written), 'cell')} written")
        return
    path = Path(file)
    if not path.name:
        raise BadInput(f"backup {file!r}: is not a file name; give the path of a file")
    if os.path.exists(path) and not force:  # noqa: PTH110 - False for a name that is too long, not an error
        raise Refused(f"backup {file}: exists; --force overwrites it")
    _show(app, file, _write_file(app, names, path))


def _show(app: App, file: str, cells: Sequence[dict[str, Any]]) -> None:
    if app.as_json:
        render.document({"file": file, "bytes": Path(file).stat().st_size, "cells": cells})
        return
    names = [name for name in cells[0] if name != "at_ms"]
    render.table(
        [name if name == "cell" else f">{name.removesuffix('_seconds')}" for name in names],
        [[units.age(each[name]) if name == "age_seconds" else each[name] for name in names] for each in cells],
    )


def _held(content: "Image") -> dict[str, Any]:
    """Return what a backup holds: the numbers of machines, jobs, entries of the log, and of all records."""
    return {
        "cell": content.cell,
        "version": content.version,
        "schema": content.schema,
        "at_ms": content.at_ms,
        "machines": len(content.hashes["machines"]),
        "jobs": len(content.hashes["jobs"]),
        "entries": len(content.log),
        "records": content.records,
    }


def _check(app: App, file: str) -> list[dict[str, Any]]:
    from omega.cellstate.backup import check_schema

    found = [each for each in _read(file) if app.cell_name in (None, each.cell)]
    if not found:
        raise Refused(f"backup {file}: has no cell {app.cell_name!r}")
    for each in found:
        check_schema(each)
    return [_held(each) | {"age_seconds": max(0, app.now_ms() - each.at_ms) / 1000} for each in found]


def _write_file(app: App, names: Sequence[str], path: Path) -> list[dict[str, Any]]:
    """Write cells to a file. Jobs may carry secrets: only the owner may read it. It is complete or absent."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.unlink(missing_ok=True)  # another user's file would be readable by that user
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as stream:  # noqa: PTH123 - a descriptor
            written = _write(app, names, stream, str(path))
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        raise BadInput(f"backup {path}: {error.strerror}; choose another place") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return written


def _write(app: App, names: Sequence[str], stream: BinaryIO, what: str) -> list[dict[str, Any]]:
    """Write cells to an empty file that can be read, and read each of them back. Raises BadInput if one differs."""
    from omega.cellstate import backup as backup_file
    from omega.cellstate.backup import read_backup
    from omega.cli.version import number
    from omega.queries.cells import contents

    written = []
    with render.progress(quiet=app.as_json) as bars:
        for name in names:
            cell = app.open(name)
            held = contents(cell)
            about = 3 * held.machines + 2 * held.jobs + held.versions  # the number of records, for the progress bar
            content = read_backup(cell, app.now_ms(), _bar(bars, f"reading {name}", about))
            start = stream.tell()
            size = backup_file.write(content, stream, f"omega {number()}")
            stream.seek(start)
            backup_file.check_written(content, stream, what)
            written.append(_held(content) | {"bytes": size})
    return written


def _bar(bars: "Progress", text: str, total: int) -> "Told":
    return partial(bars.advance, bars.add_task(text, total=total, more="records"))


@click.command("restore", short_help="Write the cells of a backup to the store, and verify them.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--as", "name", metavar="NAME", help="Name of the restored cell; needs --cell if FILE has several.")
@click.option("--force", is_flag=True, help="Overwrite existing cells; each is first written to a file beside FILE.")
@click.option("--no-backup", is_flag=True, help="With --force: overwrite without that file.")
@click.pass_context
def restore(ctx: click.Context, file: str, name: str | None, force: bool, no_backup: bool) -> None:
    """Write the cells of a backup FILE, or the one given by --cell, to the store, and verify them.

    FILE is read and checked completely before anything changes. Running schedulers, agents and machines of a
    restored cell resume from the restored state.
    """
    from omega.cellstate.backup import check_schema
    from omega.cellstate.store import check_name

    app: App = ctx.obj
    chosen = [each for each in _read(file) if app.cell_name in (None, each.cell)]
    if not chosen:
        raise Refused(f"backup {file}: has no cell {app.cell_name!r}")
    if name is not None and len(chosen) > 1:
        raise BadInput(f"backup {file}: has {len(chosen)} cells; choose the one to restore as {name} with --cell")
    wanted = [(each, check_name(name or each.cell)) for each in chosen]
    for each, _ in wanted:
        check_schema(each)
    there = app.cells()
    for _, into in wanted:
        if into in there and not force:
            raise Refused(
                f"cell {into}: {_about(app, into)}; --force overwrites it, --as NAME restores under another name"
            )
    for each, into in wanted:
        _announce_missing(app, each, into, there)
    kept = {into: _keep(app, into, Path(file)) for _, into in wanted if into in there and not no_backup}
    restored = [_restore(app, each, into) for each, into in wanted]
    ok = all(each["ok"] for each in restored)
    if app.as_json:
        render.document({"file": file, "ok": ok, "cells": restored, "overwritten": kept})
    else:
        render.table(
            ("cell", ">version", ">machines", ">tasks", ">jobs", "verify"),
            [
                (each["cell"], each["version"], *each["checked"].values(), "ok" if each["ok"] else "violations")
                for each in restored
            ],
        )
    ctx.exit(0 if ok else 1)


def _keep(app: App, name: str, file: Path) -> str:
    """Write a cell that a restore overwrites to a file beside that of the backup; return its path."""
    paths = (file.with_name(f"{name}.overwritten{number or ''}.omega") for number in range(1_000_000))
    path = next(each for each in paths if not each.exists())
    try:
        _write_file(app, [name], path)
    except OmegaError as error:
        raise type(error)(
            f"{error}; nothing was restored: with --no-backup the cell is overwritten without it"
        ) from error
    render.note(f"cell {name} as it was: {path}")
    return str(path)


def _read(file: str) -> "list[Image]":
    from omega.cellstate import backup as backup_file

    try:
        with Path(file).open("rb") as stream:
            return backup_file.read(stream, file)
    except OSError as error:
        raise BadInput(f"backup {file}: {error.strerror}; name a file that omega store backup wrote") from error


def _about(app: App, name: str) -> str:
    """Return a description of the cell that a restore would overwrite."""
    from omega.queries.cells import contents

    held = contents(app.open(name))
    text = f"exists, with {units.count(held.machines, 'machine')} and {units.count(held.live_jobs, 'live job')}"
    return text + (f"; running: {units.listing(held.schedulers)}" if held.schedulers else "")


def _announce_missing(app: App, each: "Image", into: str, there: Collection[str]) -> None:
    """Print which machines of a backup have no live agent now, before anything is changed."""
    from omega.cellstate.backup import without_agent

    agents = app.open(into).executors.agents() if into in there else {}
    missing = without_agent(each, {name for name, agent in agents.items() if agent.lives})
    if missing:
        tasks = units.count(sum(missing.values()), "running task")
        names = units.listing(sorted(missing)[:MOST_NAMED]) + (", …" if len(missing) > MOST_NAMED else "")
        render.warning(
            f"cell {into}: {units.count(len(missing), 'machine')} of the backup ({tasks}) without a live agent in this"
            f" store: {names}; if no agent of that name has registered one lease after the restore, a machine is down"
            " and its tasks are queued again"
        )


def _restore(app: App, each: "Image", into: str) -> dict[str, Any]:
    from omega.cellstate import backup as writing
    from omega.cellstate.server import connect
    from omega.cellstate.verify import verify

    with render.progress(quiet=app.as_json) as bars:
        told = _bar(bars, f"writing {into}", each.records)
        cell = app.closing(writing.restore(connect(app.url), each, into, app.now_ms(), app.by, url=app.url, told=told))
    with render.busy(f"verifying {into}", quiet=app.as_json):
        report = verify(cell)
    audited = report.as_json()
    return {
        "cell": into,
        "version": each.version,
        "checked": audited["checked"],
        "ok": report.ok,
        "violations": audited["violations"],
    }

"""``omega store``: manage the embedded store, and inspect any other."""

from typing import Any

import click

from omega.cellstate.errors import BadInput
from omega.cli import render, units
from omega.cli.app import App
from omega.cli.store.acl import acl
from omega.cli.store.backup import backup, restore
from omega.cli.store.migrate import migrate

SNAPSHOTS, NOWHERE = "snapshots", "none"
LOSSES = {
    NOWHERE: "keeps its data in memory only and loses every cell when it ends",
    SNAPSHOTS: "writes snapshots only and loses all changes since the last one when it ends",
}
REMEDY = "set appendonly yes there, or back it up with omega store backup"


@click.group()
def command() -> None:
    """Manage the store: show, start and stop the embedded one; back up and restore cells; print ACL users."""


def _own(app: App) -> None:
    if app.store is not None:
        raise BadInput(
            f"the store at {app.shown_url} is not embedded; start and stop it where it runs, "
            "or leave out --store and OMEGA_STORE"
        )


@command.command()
@click.pass_obj
def status(app: App) -> None:
    """Show whether the store runs, its data directory, and its cells."""
    found = _other(app) if app.store is not None else _embedded()
    found["cells"] = app.cells() if found["running"] else []
    loss = LOSSES.get(found["persistence"]) if found["running"] else None
    found["warnings"] = [f"the store at {found['url']} {loss}; {REMEDY}"] if loss else []
    if app.as_json:
        render.document(found)
        return
    if found["advice"]:
        render.note(found["advice"])
    for text in found["warnings"]:
        render.warning(text)
    up = found["uptime_seconds"]
    used = found["memory_bytes"]
    render.facts(
        {
            "store": f"{found['version'] or 'stopped'} ({'embedded' if found['embedded'] else 'given'})",
            "url": found["url"],
            "directory": found["directory"],
            "persistence": found["persistence"],
            "process": found["pid"] and f"{found['pid']}, up {units.age(up or 0)}",
            "memory": used and units.memory(used / 2**20),
            "allocator": found["allocator"],
            "program": found["server"],
            "cells": ", ".join(found["cells"]) or ("none" if found["running"] else ""),
        }
    )


def _embedded() -> dict[str, Any]:
    from omega.embedded import server as embedded
    from omega.embedded.program import allocator_advice

    found = embedded.status()
    return {
        "embedded": True,
        "running": found.running,
        "url": found.url,
        "directory": str(found.directory),
        "persistence": found.persistence,
        "server": found.server and str(found.server),
        "pid": found.pid,
        "version": found.version,
        "uptime_seconds": found.uptime_seconds,
        "memory_bytes": found.memory_bytes,
        "loading": found.loading,
        "allocator": found.allocator,
        "advice": allocator_advice(found.allocator, restart=True),
    }


def _other(app: App) -> dict[str, Any]:
    from omega.cellstate.server import server_info, takes_snapshots
    from omega.embedded.program import allocator_of

    found = server_info(app.url)
    here = found.url.startswith("unix:")
    files = "append-only files" if found.append_only else SNAPSHOTS if takes_snapshots(app.url) else NOWHERE
    return {
        "embedded": False,
        "running": True,
        "url": found.url,
        "directory": None,
        "persistence": files,
        "server": found.executable or None,
        "pid": found.pid,
        "version": f"{found.product} {found.version}",
        "uptime_seconds": found.uptime_seconds,
        "memory_bytes": found.used_memory_bytes,
        "loading": found.loading,
        "allocator": allocator_of(found.pid if here else 0, found.allocator),
        "advice": None,
    }


@command.command()
@click.pass_obj
def start(app: App) -> None:
    """Start the embedded store unless it runs. Commands that need it start it automatically."""
    from omega.embedded import server as embedded

    _own(app)
    found = embedded.ensure()
    if app.as_json:
        render.document(
            {
                "url": found.url,
                "directory": str(found.directory),
                "pid": found.pid,
                "version": found.version,
                "started": found.started,
            }
        )
        return
    render.line(
        f"{found.version} {'started' if found.started else 'is already running'} as process {found.pid}, {found.url}"
    )


@command.command()
@click.pass_obj
def stop(app: App) -> None:
    """Stop the embedded store. Its data stays; the next command that needs it starts it again."""
    from omega.embedded import server as embedded

    _own(app)
    stopped = embedded.stop()
    if app.as_json:
        render.document({"url": embedded.default_url(), "stopped": stopped})
        return
    render.line("stopped; its data stays" if stopped else "was not running")


command.add_command(acl)
command.add_command(backup)
command.add_command(restore)
command.add_command(migrate)

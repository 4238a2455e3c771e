"""``omega store``: manage the embedded store, and inspect any other."""

from dataclasses import asdict
from typing import Any

import click

from omega.cellstate.errors import BadInput, Forbidden
from omega.cellstate.refused_writes import said
from omega.cli import render
from omega.cli.app import App
from omega.cli.store.acl import acl
from omega.cli.store.backup import backup, restore
from omega.queries import units

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
    server = _other(app) if app.store is not None else _embedded()
    server["cells"] = _cells(app) if server["running"] else []
    loss = LOSSES.get(server["persistence"]) if server["running"] else None
    server["warnings"] = [f"the store at {server['url']} {loss}; {REMEDY}"] if loss else []
    server["warnings"] += [text for text in (said(server["refuses_writes"] or ""), server.pop("scripts_fill")) if text]
    if app.as_json:
        render.document(server)
        return
    if server["advice"]:
        render.note(server["advice"])
    for text in server["warnings"]:
        render.warning(text)
    up = server["uptime_seconds"]
    used = server["memory_bytes"]
    render.facts(
        {
            "store": f"{server['version'] or 'stopped'} ({'embedded' if server['embedded'] else 'given'})",
            "url": server["url"],
            "primary": server["primary"],
            "replicas": f"{server['replicas']} in sync" if server["primary"] or server["replicas"] else "",
            "directory": server["directory"],
            "persistence": server["persistence"],
            "process": server["pid"] and f"{server['pid']}, up {units.age(up or 0)}",
            "memory": used and f"{units.memory(used / 2**20)} ({units.memory(server['script_bytes'] / 2**20)} scripts)",
            "writes": "refused" if server["refuses_writes"] else "",
            "allocator": server["allocator"],
            "program": server["server"],
            "cells": "not listed for this user"
            if server["cells"] is None
            else ", ".join(server["cells"]) or ("none" if server["running"] else ""),
        }
    )


def _cells(app: App) -> list[str] | None:
    """Return the names of the cells; None for a user who may not list them."""
    try:
        return app.cells()
    except Forbidden:
        return None


def _embedded() -> dict[str, Any]:
    from omega.embedded import server as embedded
    from omega.embedded.program import allocator_advice

    own = embedded.status()
    return (
        {"embedded": True, "primary": None, "replicas": 0}
        | asdict(own)
        | {
            "directory": str(own.directory),
            "server": own.server and str(own.server),
            "advice": allocator_advice(own.allocator, restart=True),
        }
    )


def _other(app: App) -> dict[str, Any]:
    from omega.cellstate.server import server_info, takes_snapshots
    from omega.embedded.program import allocator_of

    info = server_info(app.url)
    here = info.url.startswith("unix:")
    files = "append-only files" if info.append_only else SNAPSHOTS if takes_snapshots(app.url) else NOWHERE
    return {
        "embedded": False,
        "running": True,
        "url": info.url,
        "primary": info.primary or None,
        "replicas": info.replicas,
        "directory": None,
        "persistence": files,
        "server": info.executable or None,
        "pid": info.pid,
        "version": f"{info.product} {info.version}",
        "uptime_seconds": info.uptime_seconds,
        "memory_bytes": info.used_memory_bytes,
        "script_bytes": info.script_bytes,
        "refuses_writes": info.refuses or None,
        "scripts_fill": info.scripts_fill,
        "loading": info.loading,
        "allocator": allocator_of(info.pid if here else 0, info.allocator),
        "advice": None,
    }


@command.command()
@click.pass_obj
def start(app: App) -> None:
    """Start the embedded store unless it runs. Commands that need it start it automatically."""
    from omega.embedded import server as embedded

    _own(app)
    server = embedded.ensure()
    if server.repaired:
        render.warning(server.repaired)
    if app.as_json:
        render.document(
            {
                "url": server.url,
                "directory": str(server.directory),
                "pid": server.pid,
                "version": server.version,
                "started": server.started,
                "repaired": server.repaired or None,
            }
        )
        return
    how = "started" if server.started else "is already running"
    render.line(f"{server.version} {how} as process {server.pid}, {server.url}")


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


for each in (acl, backup, restore):
    command.add_command(each)

"""``omega version``."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from omega.cli import render
from omega.cli.app import App


def number() -> str:
    """Return the installed version."""
    try:
        return version("omega-scheduler")
    except PackageNotFoundError:
        return "(not installed)"


@click.command()
@click.pass_obj
def command(app: App) -> None:
    """Print the versions of Omega, of Python, of the store's schema and of its rules."""
    from omega.cellstate.keys import RULES, SCHEMA

    numbers = {"omega": number(), "python": platform.python_version(), "schema": SCHEMA, "rules": RULES}
    if app.as_json:
        render.document(numbers)
    else:
        store = f"store schema {SCHEMA}, rules {RULES}"
        render.line(f"omega {numbers['omega']} (Python {numbers['python']}, {store})")

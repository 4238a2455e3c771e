"""``omega store acl``."""

import re
import stat
from pathlib import Path

import click

from omega.cellstate.errors import BadInput
from omega.cellstate.keys import ROLES
from omega.cli import render
from omega.cli.app import App


@click.command()
@click.argument("role", type=click.Choice(ROLES))
@click.option(
    "--server-version",
    "wanted",
    metavar="VERSION",
    help="Redis version that reads the line, such as 6.2 (default: the store's).",
)
@click.option("--name", metavar="USER", help="Name of the ACL user (default: omega-ROLE).")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the user's password (default: none; the user is then disabled).",
)
@click.pass_obj
def acl(app: App, role: str, wanted: str | None, password_file: Path | None, name: str | None) -> None:
    """Print the aclfile line of a user with ROLE on the cell.

    The line permits the scripts of this Omega version by their hashes; print it again after an upgrade.
    """
    from omega.cellstate.acl import line
    from omega.cellstate.server import server_info
    from omega.cellstate.store import check_name

    if wanted is not None and not re.fullmatch(r"\d+(\.\d+)*", wanted):
        raise BadInput(f"--server-version: {wanted!r} is not a version; use for example 7.0")
    known = tuple(map(int, wanted.split("."))) if wanted else server_info(app.url).redis_compatible_version
    cell = check_name(app.cell_name if app.cell_name is not None else app.which())
    password = _password(password_file) if password_file else ""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise BadInput(f"--name: {name!r} is not a name; use 1 to 64 letters, digits, . _ -")
    text = line(role, cell, known, password=password, name=name or "")
    if app.as_json:
        render.document({"role": role, "cell": cell, "server_version": list(known), "line": text})
        return
    render.line(text)
    if not password:
        render.note(f"the user is off; give it a password: ACL SETUSER {name or f'omega-{role}'} on '>PASSWORD'")


def _password(path: Path) -> str:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        password = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); name a file that holds the password") from None
    if mode & 0o077:
        raise BadInput(f"{path}: is open to other users (mode {mode:03o}); run chmod 600 {path}")
    if not password:
        raise BadInput(f"{path}: is empty; write the password into it")
    return password

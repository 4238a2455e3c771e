"""``omega token``: an access token for ``omega serve``."""

from pathlib import Path

import click

from omega.cli import render
from omega.cli.app import App
from omega.web.access.roles import ROLES


@click.command("token")
@click.argument("user")
@click.option(
    "--role",
    default="reader",
    show_default=True,
    type=click.Choice(ROLES),
    help="reader: sees everything; submitter: also submits and changes jobs; operator: all changes.",
)
@click.option("--tokens", type=click.Path(path_type=Path), help="File of tokens to which the line is appended.")
@click.pass_obj
def command(app: App, user: str, role: str, tokens: Path | None) -> None:
    """Make a token for a USER of omega serve, and the line for the file of tokens, which has only its hash.

    The token is printed once and stored nowhere. To revoke it, remove the line; omega serve reads the file again.
    """
    from omega.web.access.tokens import append_line, new_token, token_line

    token = new_token()
    line = token_line(token, user, next(each for each in ROLES if each == role))
    if tokens is not None:
        append_line(tokens, line)
    if app.as_json:
        render.document({"user": user, "role": role, "token": token, "line": line, "file": tokens and str(tokens)})
        return
    render.line(f"token  {token}")
    render.line(f"line   {line}" if tokens is None else f"line   appended to {tokens}")

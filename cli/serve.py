"""``omega serve``: the HTTP API and the web console of the cells of a store."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from omega.cellstate.errors import OmegaError
from omega.cli import render
from omega.cli.app import App
from omega.cli.options import listen_option, log_options

if TYPE_CHECKING:
    from omega.live.processes.supervisor import ProcessSupervisor
    from omega.web.server import Serving, Settings, WebServer

FILE = click.Path(path_type=str)


@click.command("serve")
@listen_option
@click.option("--user", metavar="NAME", help="User of the start token (default: OMEGA_USER, else the account).")
@click.option("--tokens", type=FILE, help="File with a line for each token, which omega token makes.")
@click.option(
    "--token-file", type=FILE, help="File for the start token (default: web/PORT.token in the state directory)."
)
@click.option("--no-start-token", "start_token", flag_value=False, default=True, help="Make no start token.")
@click.option(
    "--public-url",
    "public",
    multiple=True,
    metavar="URL",
    help="Address under which browsers reach the server, such as that of a proxy with TLS; repeatable.",
)
@click.option(
    "--allow-origin",
    "allow_origins",
    multiple=True,
    metavar="ORIGIN",
    help="Site whose scripts may use the API with a token (CORS); repeatable.",
)
@click.option(
    "--trusted-proxy-header", "proxy_header", metavar="HEADER", help="Header in which a proxy sends the user."
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of that proxy, or unix for connections to the unix socket; repeatable.",
)
@click.option("--certificate", type=FILE, help="File with the TLS certificate and its chain (PEM).")
@click.option("--key", type=FILE, help="File with the key of the certificate (PEM).")
@click.option("--insecure", is_flag=True, help="Listen to other computers without TLS.")
@click.option("--read-only", is_flag=True, help="Give all tokens the rights of a reader.")
@click.option(
    "--connections",
    "most_connections",
    default=1024,
    show_default=True,
    type=click.IntRange(1),
    help="Connections at once.",
)
@click.option(
    "--streams",
    "most_streams",
    default=256,
    show_default=True,
    type=click.IntRange(1),
    help="Event streams and long polls of one token at once.",
)
@log_options
@click.pass_obj
def command(app: App, /, **options: Any) -> None:
    """Serve the HTTP API and the web console of all cells of the store, until Ctrl-C.

    Prints the address with a start token, which has all rights, and writes the token to a file.
    """
    server = web_server(app, app.cell_name, options)
    server.run(lambda serving: announce(app, serving))


def web_server(app: App, cell: str | None, options: Mapping[str, Any]) -> "WebServer":
    """Return a server with the options of `omega serve`. Raises BadInput, OmegaError without the extra `web`."""
    with needing_extra():
        from omega.web.server import Settings, WebServer
    from omega.schedulers.process.log import configure

    configure(os.environ)
    settings = Settings(**options)
    settings.check()
    return WebServer(app.store or app.url, cell, settings)  # it starts while a named store is away


def console_settings(*, web: bool, listen: str, tokens: str | None) -> "Settings | None":
    """Return the settings of a console beside a cell; None without --web.

    Call it before processes start. Raises BadInput for a file of tokens with a mistake.
    """
    if not web:
        if tokens is not None:
            raise click.UsageError("--tokens goes with --web")
        return None
    with needing_extra():
        from omega.web.member import settings_of
    return settings_of(listen, tokens)


def check_free(settings: "Settings | None") -> None:
    """Raise Refused when the address of a console is in use: call it before processes start."""
    if settings is not None:
        from omega.web.listening import Listen

        Listen.of(settings.listen).check_free()


def console_of(group: "ProcessSupervisor", settings: "Settings") -> "Serving":
    """Start the console of a cell on this computer as a process of a group. Raises OmegaError."""
    from omega.web.member import start

    return start(group, settings)


@contextmanager
def needing_extra() -> Iterator[None]:
    """Name the extra when one of its packages is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "omega":
            raise
        remedy = "pip install 'omega-scheduler[web]'"
        raise OmegaError(f"the web server: {error.name} is not installed; {remedy}") from None


def announce(app: App, serving: "Serving") -> None:
    """Print where the server is."""
    if _is_readable_file(sys.stdout):
        serving = serving._replace(login=serving.url)
    if app.as_json:
        render.json_line({"store": app.shown_url} | serving.as_json())
        return
    file = serving.token_file
    about = f"{file} (an operator's; valid until this process ends)" if file else ""
    render.facts({"store": app.shown_url, "API": f"{serving.url}v1", "token": about})
    render.line(f"console: {serving.login}")  # on a line of its own, which a terminal does not break
    render.line("ready: open the address of the console   (Ctrl-C here stops it)")
    sys.stdout.flush()


def _is_readable_file(stream: TextIO) -> bool:
    """Return whether output goes to a file that others can read: the token is not written there."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o077)

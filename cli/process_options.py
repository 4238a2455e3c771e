"""Options of commands that run or start long-lived processes: logging and metrics."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _into(variable: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a callback that keeps an option's value in the environment for this process and its children."""

    def remember(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value is not None:
            os.environ[variable] = value
        return value

    return remember


def process_options(command: Command) -> Command:
    """Add --log-level, --log-format and --metrics to a command; their values are kept in the environment."""
    for option in (
        click.option(
            "--metrics",
            metavar="PORT",
            callback=_into("OMEGA_METRICS"),
            expose_value=False,
            help="Serve Prometheus metrics on 127.0.0.1:PORT, or at ADDRESS:PORT; further processes use the next "
            "ports; 0 picks a free port and prints it (default: OMEGA_METRICS).",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            callback=_into("OMEGA_LOG_FORMAT"),
            expose_value=False,
            help="Log format: text lines, or JSON lines (default: OMEGA_LOG_FORMAT, else text).",
        ),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            callback=_into("OMEGA_LOG"),
            expose_value=False,
            help="Minimum log level on stderr (default: OMEGA_LOG, else warning).",
        ),
    ):
        command = option(command)
    return command

"""Options of the commands that are, or start, long processes: what these tell of themselves."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _into(variable: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Keep what was said in the environment, where this process and those it starts look for it."""

    def remember(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value is not None:
            os.environ[variable] = value
        return value

    return remember


def process_options(command: Command) -> Command:
    """Add --log-level, --log-format and --metrics; what is said ends in the environment."""
    for option in (
        click.option(
            "--metrics", metavar="PORT", callback=_into("OMEGA_METRICS"), expose_value=False,
            help="Show metrics for Prometheus on 127.0.0.1:PORT, or at ADDRESS:PORT; several processes take the next "
                 "ports; 0 takes any and says which [OMEGA_METRICS].",
        ),
        click.option("--log-format", type=click.Choice(["text", "json"]), callback=_into("OMEGA_LOG_FORMAT"),
                     expose_value=False, help="Lines for people, or a JSON document a line [text; OMEGA_LOG_FORMAT]."),
        click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]),
                     callback=_into("OMEGA_LOG"), expose_value=False,
                     help="The least that is told on stderr [warning; OMEGA_LOG]."),
    ):  # fmt: skip
        command = option(command)
    return command

"""Options that several commands take: amounts of resources, attributes of machines, logs and metrics of processes."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from omega.cellstate.resources import Dimensions, Resources

F = TypeVar("F", bound=Callable[..., Any])
AttributeValues = Mapping[str, Sequence[str]]
"""Values by attribute: machine i gets the value at i modulo the number of values."""
NAME = re.compile(r"[A-Za-z_][\w./-]*")


def combined(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds several options to a command, in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


all_cells_option = click.option(
    "--all-cells",
    is_flag=True,
    help="Read all cells of the store; the exit status is 3 when one cannot be read.",
)


def amount_options(what: str, more: str = "") -> Callable[[F], F]:
    """Add --cpu, --memory and --resource to a command; `what` follows the nouns of their help, `more` the examples."""
    return combined(
        click.option("--cpu", metavar="AMOUNT", help=f"Cores {what}, such as 2 or 500m{more}."),
        click.option("--memory", metavar="AMOUNT", help=f"Memory {what}, such as 256Mi or 1Gi{more}."),
        click.option(
            "--resource",
            "others",
            metavar="NAME=AMOUNT",
            multiple=True,
            callback=pairs,
            help=f"Amount of another resource {what}; repeatable.",
        ),
    )


def pairs(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` options. A duplicate or malformed one is a usage error."""
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", ctx, parameter)
        if name in values:
            raise click.BadParameter(f"{name} is given twice", ctx, parameter)
        values[name] = value
    return values


def named(cpu: str | None, memory: str | None, others: Mapping[str, str]) -> dict[str, str]:
    """Return the amounts given by the options, by resource name."""
    known = {"cpu": cpu, "memory": memory}
    return {**others, **{name: text for name, text in known.items() if text is not None}}


def vector(dimensions: Dimensions, given: Mapping[str, str], otherwise: Resources) -> Resources:
    """Return the amounts in the cell's order; missing ones come from `otherwise`. Raises BadInput."""
    asked = dimensions.parse(given)
    return tuple(a if name in given else o for name, a, o in zip(dimensions.names, asked, otherwise, strict=True))


def _attribute_values(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, list[str]]:
    """Parse ``rack=r1,r2``. A duplicate or malformed one is a usage error."""
    attributes: dict[str, list[str]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if name in attributes:
            raise click.BadParameter(f"{name} is given twice; write {name}=A,B for several values", ctx, parameter)
        if not (equals and NAME.fullmatch(name) and all(values.split(","))):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE,…; write rack=r1,r2", ctx, parameter)
        attributes[name] = values.split(",")
    return attributes


def _of_one_machine(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    attributes = _attribute_values(ctx, parameter, given)
    for name, values in attributes.items():
        if len(values) > 1:
            raise click.BadParameter(f"{name} has {len(values)} values for one machine; give one value", ctx, parameter)
    return {name: values[0] for name, values in attributes.items()}


def attribute_option(parameter: str, *, single: bool = False) -> Callable[[F], F]:
    """Add --attribute to a command: for several machines, which get the values in turn, or for a `single` one."""
    text = "Attribute for constraints" if single else "Attribute for constraints; machines get its values in turn"
    return click.option(
        "--attribute",
        parameter,
        metavar="NAME=VALUE" if single else "NAME=VALUE,…",
        multiple=True,
        callback=_of_one_machine if single else _attribute_values,
        help=f"{text}; repeatable.",
    )


def attributes_of(values: AttributeValues, number: int) -> dict[str, str]:
    """Return the attributes of machine number `number`, counted from 0."""
    return {name: each[number % len(each)] for name, each in values.items()}


def _into(variable: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a callback that keeps an option's value in the environment for this process and its children."""

    def keep(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value is not None:
            os.environ[variable] = value
        return value

    return keep


listen_option = click.option(
    "--listen",
    default="127.0.0.1:7070",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Address of the HTTP API and the console; port 0 picks a free one. unix:PATH: a unix socket.",
)
web_option = combined(
    click.option("--web", is_flag=True, help="Serve the web console of the cell too, as omega serve does."),
    click.option(
        "--tokens", type=click.Path(path_type=str), help="With --web: file with a line for each token (omega token)."
    ),
)
log_options = combined(
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        callback=_into("OMEGA_LOG"),
        expose_value=False,
        help="Minimum log level on stderr (default: OMEGA_LOG, else warning).",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        callback=_into("OMEGA_LOG_FORMAT"),
        expose_value=False,
        help="Log format: text lines, or JSON lines (default: OMEGA_LOG_FORMAT, else text).",
    ),
)
"""Logging of long-lived processes; the values are kept in the environment."""
process_options = combined(
    log_options,
    click.option(
        "--metrics",
        metavar="PORT",
        callback=_into("OMEGA_METRICS"),
        expose_value=False,
        help="Serve Prometheus metrics on 127.0.0.1:PORT, or at ADDRESS:PORT; further processes use the next "
        "ports; 0 picks a free port and prints it (default: OMEGA_METRICS).",
    ),
)
"""Logging and metrics of long-lived processes; the values are kept in the environment."""

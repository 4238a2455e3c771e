"""Options for amounts of resources: ``--cpu 500m --memory 1Gi --resource gpu=2``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from omega.cellstate.resources import Dimensions, Resources

F = TypeVar("F", bound=Callable[..., Any])


def amount_options(what: str, more: str = "") -> Callable[[F], F]:
    """Add --cpu, --memory and --resource to a command; `what` follows the nouns of their help, `more` the examples."""

    def add(function: F) -> F:
        for option in (
            click.option(
                "--resource",
                "others",
                metavar="NAME=AMOUNT",
                multiple=True,
                callback=pairs,
                help=f"Amount of another resource {what}; repeatable.",
            ),
            click.option("--memory", metavar="AMOUNT", help=f"Memory {what}, such as 256Mi or 1Gi{more}."),
            click.option("--cpu", metavar="AMOUNT", help=f"Cores {what}, such as 2 or 500m{more}."),
        ):
            function = option(function)
        return function

    return add


def pairs(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` options. A duplicate or malformed one is a usage error."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", ctx, parameter)
        if name in found:
            raise click.BadParameter(f"{name} is given twice", ctx, parameter)
        found[name] = value
    return found


def named(cpu: str | None, memory: str | None, others: Mapping[str, str]) -> dict[str, str]:
    """Return the amounts given by the options, by resource name."""
    known = {"cpu": cpu, "memory": memory}
    return {**others, **{name: text for name, text in known.items() if text is not None}}


def vector(dimensions: Dimensions, given: Mapping[str, str], otherwise: Resources) -> Resources:
    """Return the amounts in the cell's order; missing ones come from `otherwise`. Raises BadInput."""
    asked = dimensions.parse(given)
    return tuple(a if name in given else o for name, a, o in zip(dimensions.names, asked, otherwise, strict=True))

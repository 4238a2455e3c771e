"""The option ``--attribute``: attribute values distributed over several machines."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Dealt = Mapping[str, Sequence[str]]
"""Values by attribute: machine i gets the value at i modulo the number of values."""
NAME = re.compile(r"[A-Za-z_][\w./-]*")


def _dealt(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, list[str]]:
    """Parse ``rack=r1,r2``. A duplicate or malformed one is a usage error."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if name in found:
            raise click.BadParameter(f"{name} is given twice; write {name}=A,B for several values", ctx, parameter)
        if not (equals and NAME.fullmatch(name) and all(values.split(","))):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE,…; write rack=r1,r2", ctx, parameter)
        found[name] = values.split(",")
    return found


def _one(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Parse the attributes of a single machine: one value each."""
    found = _dealt(ctx, parameter, given)
    for name, values in found.items():
        if len(values) > 1:
            raise click.BadParameter(f"{name} has {len(values)} values for one machine; give one value", ctx, parameter)
    return {name: values[0] for name, values in found.items()}


def attribute_option(parameter: str, *, single: bool = False) -> Callable[[F], F]:
    """Add --attribute to a command: for several machines, which get the values in turn, or for a `single` one."""
    text = "Attribute for constraints" if single else "Attribute for constraints; machines get its values in turn"
    return click.option(
        "--attribute",
        parameter,
        metavar="NAME=VALUE" if single else "NAME=VALUE,…",
        multiple=True,
        callback=_one if single else _dealt,
        help=f"{text}; repeatable.",
    )


def of_machine(dealt: Dealt, number: int) -> dict[str, str]:
    """Return the attributes of machine number `number`, counted from 0."""
    return {name: values[number % len(values)] for name, values in dealt.items()}

"""The option ``--attribute``: values that several machines are given in turn."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Dealt = Mapping[str, Sequence[str]]
"""Values by attribute: machine number i is given the value i modulo their number."""
NAME = re.compile(r"[A-Za-z_][\w./-]*")


def _dealt(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, list[str]]:
    """Read ``rack=r1,r2``. A name twice, or none, is wrong usage."""
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
    """Read attributes of a single machine: one value each."""
    found = _dealt(ctx, parameter, given)
    for name, values in found.items():
        if len(values) > 1:
            raise click.BadParameter(
                f"{name} has {len(values)} values, and this is one machine; give one", ctx, parameter
            )
    return {name: values[0] for name, values in found.items()}


def attribute_option(parameter: str, *, single: bool = False) -> Callable[[F], F]:
    """Add --attribute to a command: for several machines, whose values it gives in turn, or for a `single` one."""
    text = "An attribute for constraints" if single else "An attribute for constraints, its values in turn"
    return click.option(
        "--attribute", parameter, metavar="NAME=VALUE" if single else "NAME=VALUE,…", multiple=True,
        callback=_one if single else _dealt, help=f"{text}; may be given several times.",
    )  # fmt: skip


def of_machine(dealt: Dealt, number: int) -> dict[str, str]:
    """Return the attributes of the `number`-th machine, from 0."""
    return {name: values[number % len(values)] for name, values in dealt.items()}

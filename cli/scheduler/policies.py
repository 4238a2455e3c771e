"""``omega scheduler policies``."""

import inspect
from collections.abc import Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option

if TYPE_CHECKING:
    from omega.schedulers.composition import Parameter
    from omega.schedulers.job_fields import JobField
    from omega.schedulers.registry import RegistryEntry


@click.command()
@click.argument("axis", required=False)
@columns_option
@click.pass_obj
def command(app: App, axis: str | None, columns: Columns) -> None:
    """List the installed schedulers and policies: package, purpose and parameters.

    AXIS is schedulers, ordering, placement and so on (default: all). The names are valid for omega scheduler run
    and in files for --file.
    """
    from omega.schedulers.registry import AXES, OWN, offers

    if axis not in (None, *AXES):
        raise BadInput(f"axis {axis!r}: unknown; known axes: {', '.join(AXES)}")
    listed = [_described(each) for one in AXES if axis in (None, one) for each in offers(one).values()]
    if answered(app, {"policies": listed}, "policies", columns):
        return
    render.table(("axis", "name", "about"), [(each["axis"], each["name"], _told(each, OWN)) for each in listed])
    for each in listed:
        if each["error"]:
            render.warning(each["error"])


def _described(offer: "RegistryEntry") -> dict[str, Any]:
    from omega.schedulers.composition import parameters

    about, known, own, error = "", list[dict[str, Any]](), list[dict[str, Any]](), None
    try:
        loaded = offer.load()
        about = _about(loaded)
        known = [_parameter(each) for each in parameters(loaded)] if inspect.isclass(loaded) else []
        own = [each.as_json() for each in _job_fields(loaded, offer)]
    except BadInput as broken:
        error = str(broken)
    return {
        "axis": offer.axis,
        "name": offer.name,
        "package": offer.package,
        "version": offer.version,
        "target": offer.target,
        "about": about,
        "parameters": known,
        "job_fields": own,
        "error": error,
    }


def _job_fields(loaded: object, offer: "RegistryEntry") -> "Sequence[JobField]":
    """Return the fields of jobs that a policy declares itself, or a scheduler with all its policies."""
    from omega.schedulers import registry
    from omega.schedulers.job_fields import declared

    return registry.made(loaded, offer.name, "0").job_fields if offer.axis == registry.SCHEDULERS else declared(loaded)


def _about(policy: object) -> str:
    """Return the first sentence of its docstring; for a scheduler object, its policies."""
    from omega.schedulers.scheduler import Scheduler

    if isinstance(policy, Scheduler):
        parts = [type(each).__name__ for each in (policy.ordering, policy.placement, policy.preemption)]
        return f"Takes jobs of kind {policy.kind}: {', '.join(parts)}."
    paragraph = " ".join((inspect.getdoc(policy) or "").partition("\n\n")[0].split())
    end = paragraph.find(". ")
    return paragraph if end < 0 else paragraph[: end + 1]


def _parameter(parameter: "Parameter") -> dict[str, Any]:
    """Return a parameter as plain values; a default that is a policy is given as its Python expression."""
    default = parameter.default
    is_value = default is None or isinstance(default, bool | int | float | str)
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": default is MISSING,
        "default": None if default is MISSING else default if is_value else repr(default),
    }


def _told(each: dict[str, Any], own: str) -> tuple[str, ...]:
    """Return the lines of a policy's description: purpose, parameters, fields, and its package unless it is Omega."""
    from omega.schedulers.job_fields import JobField

    settable = " ".join(
        f"{one['name']}=…" if one["required"] or "(" in str(one["default"]) else f"{one['name']}={one['default']}"
        for one in each["parameters"]
    )
    fields = (f"job field {JobField.from_json(one).about()}" for one in each["job_fields"])
    about = "cannot be used" if each["error"] else each["about"]
    package = "" if each["package"] == own else f"from {each['package']} {each['version']}"
    return tuple(line for line in (about, settable, *fields, package) if line)

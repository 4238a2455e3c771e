"""Registry of schedulers and policies: entry points of the installed packages, including Omega.

A package registers them in its ``pyproject.toml``, under ``omega.schedulers``, ``omega.ordering`` and so on, as Omega
does. An entry is imported when it is requested, so that one that fails affects no other. OMEGA_PLUGINS restricts the
packages: their names with commas between, or nothing for Omega's own entries alone.
"""

import os
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import BadInput
from omega.schedulers.foreign_errors import RAISED, said_at

if TYPE_CHECKING:
    from omega.schedulers.scheduler import Scheduler

SCHEDULERS = "schedulers"
AXES = (SCHEDULERS, "ordering", "placement", "preemption", "sizing", "gate", "admission", "cell_choice")
OWN = "omega-scheduler"
RESTRICT = "OMEGA_PLUGINS"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """An entry of a package under a name: `target` is ``module:attribute``."""

    axis: str
    name: str
    target: str
    package: str
    version: str

    def load(self) -> Any:
        """Import the target. Raises BadInput in one line on any error."""
        return imported(self.target, f"{self.axis} {self.name!r} of package {self.package}")


def offers(axis: str) -> dict[str, RegistryEntry]:
    """Return the entries of an axis by name. Of equal names Omega's own counts, else the first package's."""
    only = os.environ.get(RESTRICT)
    wanted = None if only is None else {OWN, *(_normalized(word) for word in only.split(","))}
    entries = [_offer(axis, point) for point in entry_points(group=f"omega.{axis}")]
    seen = [each for each in entries if wanted is None or _normalized(each.package) in wanted]
    seen.sort(key=lambda each: (each.package != OWN, each.name, each.package))
    named: dict[str, RegistryEntry] = {}
    for each in seen:
        named.setdefault(each.name, each)
    return named


def _offer(axis: str, point: EntryPoint) -> RegistryEntry:
    package, version = ("", "") if point.dist is None else (_normalized(point.dist.name), point.dist.version)
    return RegistryEntry(axis=axis, name=point.name, target=point.value, package=package, version=version)


def _normalized(package: str) -> str:
    """Return a package's name in the form for comparison: ``my-plugin`` for ``My_Plugin``."""
    return package.strip().lower().replace("_", "-").replace(".", "-")


def offer(axis: str, name: str) -> RegistryEntry:
    """Return the entry of a name. Raises BadInput with similar names, or with all."""
    known = offers(axis)
    if name in known:
        return known[name]
    if not known:
        raise BadInput(f"{axis} {name!r}: none is installed, not even Omega's own; reinstall it (make venv)")
    near = get_close_matches(name, known, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
    raise BadInput(f"unknown {axis.removesuffix('s')} {name!r}; {hint}")


def imported(target: str, what: str) -> Any:
    """Return the object that ``module:attribute`` names. Raises BadInput in one line when it fails."""
    module, _, attribute = target.partition(":")
    try:
        target_object: Any = import_module(module)
        for part in attribute.split("."):
            target_object = getattr(target_object, part)
    except RAISED as error:
        raise BadInput(f"{what}: {target} cannot be used: {said_at(error)}; fix or remove it") from None
    return target_object


def scheduler(name: str, seed: str = "0") -> "Scheduler":
    """Return an idle scheduler by its registered name or by ``module:attribute``.

    The target is an `omega.Scheduler`, or a function of a seed that returns one. Raises BadInput.
    """
    if ":" in name:
        return made(imported(name, f"scheduler {name!r}"), name, seed)
    return made(offer(SCHEDULERS, name).load(), name, seed)


def made(target: Any, name: str, seed: str) -> "Scheduler":
    """Return a target as an idle scheduler with random numbers from `seed`. Raises BadInput."""
    from omega.schedulers.scheduler import Scheduler  # noqa: PLC0415 - numpy; agents and completion only list names

    want = "want an omega.Scheduler, or a function of a seed that returns one"
    if not isinstance(target, Scheduler) and not callable(target):
        raise BadInput(f"scheduler {name!r}: is a {type(target).__name__}; {want}")
    try:
        result = target.fresh(seed) if isinstance(target, Scheduler) else target(seed)
    except BadInput:
        raise
    except RAISED as error:
        raise BadInput(f"scheduler {name!r}: {said_at(error)}; {want}") from None
    if not isinstance(result, Scheduler):
        raise BadInput(f"scheduler {name!r}: made a {type(result).__name__}; {want}")
    return result

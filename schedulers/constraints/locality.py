"""Locality of a task group, as job files have it and `TaskGroup.spec` stores it (field ``locality``).

==============  ==========================================================================================
``machines``    names of the machines with the group's data (replicas)
``where``       a constraint; the machines that satisfy it have the data too
``domains``     attributes that name domains around these machines, the smallest first: ``[rack]``
``wait_ms``     how long the group waits for the machines, then for each domain around them, in milliseconds
==============  ==========================================================================================

A *level* is a set of machines: those with the data, then those of each domain around them. The last level, which has no
number in `Locality.waits`, is any machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from json import dumps, loads
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.model import MACHINE, Job
from omega.schedulers.constraints.demands import asks_anything

FIELD = "locality"
DOMAINS = ("rack",)
"""The domains of a locality that names none."""
WAIT_MS = (5_000, 10_000)
"""Waits of a locality that states none: for the machines, and for each domain around them."""
ANYWHERE = "anywhere"
"""The name of the last level."""


@dataclass(frozen=True, slots=True)
class Locality:
    """Where the data of a group are, and how long (seconds) it waits at each level but the last."""

    machines: tuple[str, ...]
    where: str
    domains: tuple[str, ...]
    waits: tuple[float, ...]

    def name(self, level: int) -> str:
        """Return the name of a level: ``machine``, the attribute of a domain, or ``anywhere``."""
        names = (MACHINE, *self.domains)
        return names[level] if level < len(names) else ANYWHERE


def is_local(job: Job) -> bool:
    """Return whether some group of a job has a locality."""
    return asks_anything(job) and any(own_field(job, group) is not None for group in range(len(job.groups)))


def locality(job: Job, group: int) -> Locality | None:
    """Return the locality of a group; None for a group without a valid one. Never raises."""
    own = own_field(job, group)
    try:
        return None if own is None else _kept(dumps(own))
    except (TypeError, ValueError):
        return None


def own_field(job: Job, group: int) -> Any:
    """Return the stored field of a group, or None."""
    groups = job.spec.get("groups") if job.spec else None
    own = groups[group] if isinstance(groups, list) and group < len(groups) else None
    return own.get(FIELD) if isinstance(own, dict) else None


@lru_cache(maxsize=4096)
def _kept(text: str) -> Locality | None:
    try:
        return read_locality(loads(text))
    except BadInput:
        return None  # data that nobody finds: the group has no preference


def read_locality(said: Any) -> Locality:
    """Read the stored field. Raises BadInput in one line."""
    if not isinstance(said, Mapping):
        raise BadInput(f"{said!r} is no locality; write {{machines: [m1, m7], wait: [5s, 10s]}}")
    machines, where = _texts("machines", said.get("machines", ())), said.get("where", "")
    domains = _texts("domains", said.get("domains", DOMAINS))
    if not isinstance(where, str):
        raise BadInput(f"where: {where!r} is no constraint; write for example has dataset.logs")
    if where:
        from omega.cellstate.constraints.grammar import parse  # noqa: PLC0415 - most processes parse no constraint

        parse(where)
    if not (machines or where):
        raise BadInput("names no machine; write machines: [m1, m7], or where: a constraint")
    first, further = WAIT_MS
    wait = said.get("wait_ms", [first, *[further] * len(domains)])
    whole = isinstance(wait, list | tuple) and all(type(each) in (int, float) and each >= 0 for each in wait)
    if not whole:
        raise BadInput(f"wait: {wait!r} is not a list of times of at least 0")
    if len(wait) > 1 + len(domains):
        known = ", ".join((MACHINE, *domains))
        raise BadInput(f"wait: {len(wait)} times for {1 + len(domains)} levels ({known}); name further ones in domains")
    padded = [*wait, *[0] * (1 + len(domains) - len(wait))]
    return Locality(machines, where, domains, tuple(each / 1000 for each in padded))


def _texts(field: str, said: Any) -> tuple[str, ...]:
    if not isinstance(said, list | tuple) or not all(isinstance(each, str) and each for each in said):
        raise BadInput(f"{field}: {said!r} is not a list of names")
    return tuple(said)

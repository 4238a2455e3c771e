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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json import dumps, loads
from typing import Any

import numpy as np

from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints.evaluation import Mask, holds
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MACHINE, Job, MachineState
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import asks_anything

FIELD = "locality"
DOMAINS = ("rack",)
"""The domains of a locality that names none."""
WAIT_MS = (5_000, 10_000)
"""Waits of a locality that states none: for the machines, and for each domain around them."""
ANYWHERE = "anywhere"
"""The name of the last level."""
MOST_NAMED = 8
"""Maximum number of machines in a note."""


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
    return asks_anything(job) and any(_own(job, group) is not None for group in range(len(job.groups)))


def locality(job: Job, group: int) -> Locality | None:
    """Return the locality of a group; None for a group without a valid one. Never raises."""
    own = _own(job, group)
    try:
        return None if own is None else _kept(dumps(own))
    except (TypeError, ValueError):
        return None


def _own(job: Job, group: int) -> Any:
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


def levels(wants: Locality, snapshot: Snapshot) -> list[Mask]:
    """Return the machines of each level but the last, each with those of the levels before it.

    Machines that are not up count at no level: neither they nor their domains are preferred.
    """
    here = _with_data(wants, snapshot.attributes) & snapshot.up
    masks, at = [here], np.flatnonzero(here)
    for domain in wants.domains:
        codes = snapshot.attributes.codes(domain)
        table = np.zeros(len(snapshot.attributes.values(domain)), dtype=np.bool_)
        table[codes[at]] = True
        table[0] = False  # machines without the attribute are in no domain
        masks.append(masks[-1] | table[codes])
    return masks


def _with_data(wants: Locality, attributes: Attributes) -> Mask:
    mask = np.zeros(attributes.size, dtype=np.bool_)
    mask[[machine for name in wants.machines for machine in attributes.named(name)]] = True
    return mask | holds(wants.where, attributes) if wants.where else mask


def notes(job: Job, group: int, snapshot: Snapshot) -> list[str]:
    """Return a line for each part of a group's locality that has no effect now; attributes must have been fetched."""
    own = _own(job, group)
    if own is None:
        return []
    wants = locality(job, group)
    return _fault(own) if wants is None else list(_notes(wants, snapshot))


def _fault(own: Any) -> list[str]:
    try:
        read_locality(own)
    except BadInput as error:
        return [f"locality: {error}; it is ignored"]
    return ["locality: has values that are not plain; it is ignored"]


def _notes(wants: Locality, snapshot: Snapshot) -> Iterator[str]:
    attributes, states = snapshot.attributes, snapshot.rows[2]
    found = {name: [m for m in attributes.named(name) if states[m] != MachineState.GONE] for name in wants.machines}
    unknown = [name for name, machines in found.items() if not machines]
    idle = [name for name, machines in found.items() if machines and not snapshot.up[machines].any()]
    for names, what in ((unknown, "not in the cell"), (idle, "drained or down")):
        if names:
            yield f"locality: {_listed(names)} {'is' if len(names) == 1 else 'are'} {what}, and ignored"
    if wants.where and not holds(wants.where, attributes).any():
        yield f"locality: no machine satisfies {wants.where}"
    here = np.flatnonzero(_with_data(wants, attributes) & snapshot.up)
    if not len(here):
        seconds = f"{sum(wants.waits):g}"
        yield f"locality: no machine with the data is up; the tasks may run anywhere after {seconds} s"
        return
    for domain in wants.domains:
        if not attributes.codes(domain)[here].any():
            yield f"locality: no machine with the data has the attribute {domain}, so no other one is near it"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")

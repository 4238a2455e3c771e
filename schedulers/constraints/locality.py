"""Locality of a task group, as job files have it and `TaskGroup.spec` stores it (field ``locality``).

==============  ==========================================================================================
``machines``    names of the machines with the group's data (replicas)
``where``       a constraint; the machines that satisfy it have the data too
``domains``     attributes that name domains around these machines, the smallest first: ``[rack]``
``wait_ms``     how long the group waits for the machines, then for each domain around them, in milliseconds
==============  ==========================================================================================

A *level* is a set of machines: those with the data, then those of each domain around them. The last level, which has no
number in `Locality.waits`, is any machine.

The input of a MapReduce job has a locality for each place of its files: its plan (`PLAN` of the spec) has

==========  ==========================================================================================
``places``  ``[files, maps, machines, where]`` for each location: the numbers of its files and maps, the
            names of its machines and a constraint, as in `Locality`
``near``    ``domains`` and ``wait_ms`` of all places, as in `Locality`
==========  ==========================================================================================

The maps of the first place have the lowest numbers, then come those of the second one, and at last the maps without a
location. So a set of places is a short list of ranges of maps, whatever their number.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json import dumps, loads
from math import inf
from typing import Any, NamedTuple

import numpy as np

from omega.cellstate import ranges
from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints.evaluation import Mask, holds
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MACHINE, Job, MachineState
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import asks_anything
from omega.schedulers.sizing import PLAN

FIELD = "locality"
DOMAINS = ("rack",)
"""The domains of a locality that names none."""
WAIT_MS = (5_000, 10_000)
"""Waits of a locality that states none: for the machines, and for each domain around them."""
ANYWHERE = "anywhere"
"""The name of the last level."""
MOST_NAMED = 8
"""Maximum number of machines in a note."""
MOST_PLACES = 1_000
"""Maximum number of places of a job: a claim of a shard reads the ranges of unclaimed ones."""


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


def levels(wants: Locality, snapshot: Snapshot) -> list[Mask]:
    """Return the machines of each level but the last, each with those of the levels before it."""
    return levels_of(wants, snapshot.attributes, snapshot.up)


def levels_of(wants: Locality, attributes: Attributes, up: Mask) -> list[Mask]:
    """Return the machines of each level as `levels`, of some machines and whether each is up.

    Machines that are not up count at no level: neither they nor their domains are preferred.
    """
    here = _with_data(wants, attributes) & up
    masks, at = [here], np.flatnonzero(here)
    for domain in wants.domains:
        codes = attributes.codes(domain)
        table = np.zeros(len(attributes.values(domain)), dtype=np.bool_)
        table[codes[at]] = True
        table[0] = False  # machines without the attribute are in no domain
        masks.append(masks[-1] | table[codes])
    return masks


def without_data(wants: Sequence[Locality], snapshot: Snapshot) -> list[int]:
    """Return the positions of the localities of which no machine is up; attributes must have been fetched."""
    return [at for at, each in enumerate(wants) if not (_with_data(each, snapshot.attributes) & snapshot.up).any()]


def _with_data(wants: Locality, attributes: Attributes) -> Mask:
    mask = np.zeros(attributes.size, dtype=np.bool_)
    mask[[machine for name in wants.machines for machine in attributes.named(name)]] = True
    return mask | holds(wants.where, attributes) if wants.where else mask


def notes(job: Job, group: int, snapshot: Snapshot) -> list[str]:
    """Return a line for each part of a group's locality that has no effect now; attributes must have been fetched."""
    own = own_field(job, group)
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
    for names, what in ((unknown, "not in the cell"), (idle, "not up")):
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


class Place(NamedTuple):
    """A location and the numbers of files and maps there."""

    files: int
    maps: int
    machines: Sequence[str]
    where: str


def places(plan: Mapping[str, Any]) -> list[Place]:
    """Return the places of a plan."""
    return [Place(*place) for place in plan.get("places", ())]


def spans(found: Iterable[Place]) -> list[tuple[int, int]]:
    """Return the first map of each place, and the first one after it."""
    pairs, at = list[tuple[int, int]](), 0
    for place in found:
        pairs.append((at, at + place.maps))
        at += place.maps
    return pairs


def locality_of(place: Place, near: Mapping[str, Any]) -> Locality:
    """Return where the data of a place are. Raises BadInput as `read_locality` does."""
    return read_locality({"machines": place.machines, "where": place.where, **near})


def field_of_all(found: Iterable[Place], near: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the field ``locality`` of workers that process the maps of some places; None when there are none."""
    machines, wheres = dict[str, None](), dict[str, None]()
    for place in found:
        machines |= dict.fromkeys(place.machines)
        wheres |= dict.fromkeys([place.where] if place.where else [])
    if not (machines or wheres):
        return None
    where = next(iter(wheres)) if len(wheres) == 1 else " or ".join(f"({each})" for each in wheres)
    return {"machines": list(machines), "where": where, **near}


def groups_near(spec: Mapping[str, Any], unclaimed: str) -> list[dict[str, Any]]:
    """Return the fields of a job's groups with the locality of the maps that are left, `unclaimed` (ranges).

    Workers that need not be placed, the surplus, never wait for a place.
    """
    plan, groups = spec[PLAN], spec["groups"]
    found, left = places(plan), ranges.spans(unclaimed)
    starts, lasts = [*(first for first, _ in left), inf], [last for _, last in left]
    pairs = zip(found, spans(found), strict=True)
    some = [place for place, (first, end) in pairs if starts[bisect_left(lasts, first)] < end]
    field = field_of_all(some, plan.get("near", {}))
    return [with_locality(group, field, waits=not number) for number, group in enumerate(groups)]


def with_locality(group: Mapping[str, Any], field: Mapping[str, Any] | None, *, waits: bool) -> dict[str, Any]:
    """Return the fields of a group of workers with a locality, in place of the present one."""
    others = {name: value for name, value in group.items() if name != FIELD}
    if field is None:
        return others
    return others | {FIELD: dict(field) if waits else {**field, "wait_ms": []}}


def has_places(job: Job) -> bool:
    """Return whether parts of a job's input have a location."""
    return bool(job.spec and job.spec.get(PLAN, {}).get("places"))

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json import dumps, loads
from math import inf
from typing import Any, NamedTuple

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MACHINE, Job
from omega.schedulers.constraints.demands import asks_anything
from omega.schedulers.sizing import PLAN

FIELD = "locality"
DOMAINS = ("rack",)
"""The domains of a locality that names none."""
WAIT_MS = (5_000, 10_000)
"""Waits of a locality that states none: for the machines, and for each domain around them."""
ANYWHERE = "anywhere"
"""The name of the last level."""
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

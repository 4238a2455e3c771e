"""Locality of the input of a MapReduce job: machines with the data of its maps.

The plan of a job (`PLAN` of its spec) has, for files with a location:

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
from math import inf
from typing import Any, NamedTuple

from omega.cellstate import ranges
from omega.cellstate.model import Job
from omega.schedulers.constraints.locality import FIELD, Locality, read_locality
from omega.schedulers.sizing.model import PLAN

MOST_PLACES = 1_000
"""Maximum number of places of a job: a claim of a shard reads the ranges of unclaimed ones."""


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

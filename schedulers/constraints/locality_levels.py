"""The machines of each level of a locality, and the parts of it that have no effect now; apart, as it needs numpy."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints.evaluation import Mask, holds
from omega.cellstate.errors import BadInput
from omega.cellstate.model import Job, MachineState
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.locality import Locality, locality, own_field, read_locality

MOST_NAMED = 8
"""Maximum number of machines in a note."""


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

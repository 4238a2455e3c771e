"""The cell of a run: machines, limits and pools of the recording, with changes."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.model import Limits
from omega.cellstate.pools import Pools
from omega.pools import file as pool_file
from omega.what_if.schedulers import Change
from omega.workload.workload import Arrival, LimitEvent, MachineEvent, Workload, WorkloadEvent

_MACHINES, _PART = re.compile(r"(-?)([0-9]{1,9})(%?)"), re.compile(r"([0-9]{1,4})%")


def other_cell(workload: Workload, change: Change) -> Workload:
    """Return the workload of a recording in the changed cell. Raises BadInput."""
    words = change.words
    if "pools" in words:
        workload = replace(workload, pools=_pools(words["pools"], workload))
    if "machines" in words:
        workload = _with_machines(workload, _number(words["machines"], len(workload.machines)))
    if "limits" in words:
        workload = replace(workload, events=list(_limited(workload.events, words["limits"])))
    return workload


def _pools(word: str, workload: Workload) -> Pools:
    return Pools() if word == "none" else pool_file.read(Path(word), workload.dimensions)[0]


def _number(word: str, recorded: int) -> int:
    """Return the number of machines that `word` leaves."""
    found = _MACHINES.fullmatch(word)
    if found is None or (found[3] and not found[1]):
        raise BadInput(f"vary machines={word}: write for example 8, -2 or -20%")
    value = int(found[2])
    number = recorded - (recorded * value // 100 if found[3] else value) if found[1] else value
    if not 1 <= number <= recorded:
        raise BadInput(f"vary machines={word}: {number:,} machines; want 1 to {recorded:,}, which the recording has")
    return number


def _with_machines(workload: Workload, number: int) -> Workload:
    """Return the workload with its first machines only; tasks that ran on others at the beginning are pending."""
    gone = {each.name for each in workload.machines[number:]}

    def moved(each: Arrival) -> Arrival:
        return replace(each, machines=tuple(np.where(where < number, where, -1) for where in each.machines))

    events = [each for each in workload.events if not (isinstance(each, MachineEvent) and each.machine.name in gone)]
    residents = [moved(each) for each in workload.residents]
    return replace(workload, machines=workload.machines[:number], residents=residents, events=events)


def _limited(events: Iterable[WorkloadEvent], word: str) -> Iterator[WorkloadEvent]:
    """Yield the events with that part of each limit on resources and jobs."""
    found = _PART.fullmatch(word)
    if found is None:
        raise BadInput(f"vary limits={word}: want a part of the limits, for example 50%")
    part = int(found[1])

    def of(limit: int | None) -> int | None:
        return None if limit is None else limit * part // 100

    for each in events:
        if isinstance(each, LimitEvent):
            limits: Limits = each.limits
            limits = replace(limits, resources=tuple(map(of, limits.resources)), jobs=of(limits.jobs))
            yield each._replace(limits=limits)
        else:
            yield each

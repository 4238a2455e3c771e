"""The machines of Google's 2011 trace: those up when the window begins, and what happens to machines in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import MachineSpec
from omega.cellstate.resources import Resources
from omega.traces.csv_blocks import Floats
from omega.traces.google_constraints import AttributeChange
from omega.traces.google_events import ADD, REMOVE, MachineEvents
from omega.traces.google_tasks import Window
from omega.traces.trace import Defects
from omega.workload.workload import MachineEvent, capacity

NO_CAPACITY, UNKNOWN_MACHINE, UP_TWICE = "no-capacity", "unknown-machine", "up-twice"
MACHINE_RULES = {
    NO_CAPACITY: "events of machines without a capacity: their last known one, else 0",
    UNKNOWN_MACHINE: "removals and updates of machines that are not up: ignored, and an addition",
    UP_TWICE: "additions of machines that are up: an update",
}


@dataclass(frozen=True, slots=True)
class GoogleMachine:
    """A machine; cpu and memory as shares of the largest."""

    name: str
    platform: str
    cpu: float
    memory: float


@dataclass(slots=True)
class GoogleCell:
    """The machines up when the window begins, by number, and their later changes (time in µs; None: it goes)."""

    machines: dict[int, GoogleMachine]
    changes: list[tuple[int, int, GoogleMachine | None]]


def cell_of(rows: MachineEvents, window: Window, defects: Defects) -> GoogleCell:
    """Return the cell of a window. Rows at its beginning count as before it, but not in the first part."""
    begin = window.begin_us - window.snapshot
    cell = GoogleCell({}, [])
    there: dict[int, GoogleMachine] = {}
    last: dict[int, GoogleMachine] = {}
    for time, number, event, platform, cpu, memory in _tuples(rows):
        if time > window.end_us:
            break
        if event == REMOVE:
            if there.pop(number, None) is None:
                defects.add(UNKNOWN_MACHINE, 1, [f"machine {number} at {time} µs"])
                continue
            machine: GoogleMachine | None = None
        else:
            if (event == ADD) == (number in there):
                defects.add(UP_TWICE if event == ADD else UNKNOWN_MACHINE, 1, [f"machine {number} at {time} µs"])
            machine = GoogleMachine(str(number), platform, cpu, memory)
            if isnan(cpu) or isnan(memory):
                defects.add(NO_CAPACITY, 1, [f"machine {number} at {time} µs"])
                machine = _completed(machine, last.get(number))
            there[number] = last[number] = machine
        if time > begin:
            cell.changes.append((time, number, machine))
        elif machine is None:
            cell.machines.pop(number)
        else:
            cell.machines[number] = machine
    return cell


def _completed(machine: GoogleMachine, before: GoogleMachine | None) -> GoogleMachine:
    """Return a machine whose row lacks a capacity with its last known one."""
    cpu, memory = (before.cpu, before.memory) if before else (0.0, 0.0)
    return replace(
        machine,
        cpu=cpu if isnan(machine.cpu) else machine.cpu,
        memory=memory if isnan(machine.memory) else machine.memory,
    )


def _tuples(rows: MachineEvents) -> Iterator[tuple[int, int, int, str, float, float]]:
    columns = (rows.time, rows.machine, rows.event, rows.platform, rows.cpu, rows.memory)
    return zip(*(column.tolist() for column in columns), strict=True)


@dataclass(frozen=True, slots=True)
class Translation:
    """Translates machines to the cell: `largest` is the trace's 1.0, `factor` the over-commit."""

    largest: Resources
    factor: float
    attributes: dict[int, dict[str, str]]
    """Of machines that have more than their platform, by number; `events` changes them."""

    def machine(self, number: int, machine: GoogleMachine) -> MachineSpec:
        """Return a machine's specification; its platform is an attribute."""
        has = (
            capacity(machine.cpu * self.factor, self.largest[0]),
            capacity(machine.memory * self.factor, self.largest[1]),
        )
        attributes = {"platform": machine.platform} if machine.platform else {}
        if more := self.attributes.get(number):
            attributes.update(more)
        return MachineSpec(machine.name, has, attributes)

    def events(
        self, cell: GoogleCell, specs: Sequence[MachineSpec], changes: Iterable[AttributeChange], window: Window
    ) -> list[MachineEvent]:
        """Return what happens to machines in the window; `specs` are those of the machines of the cell."""
        known = dict(zip(cell.machines, specs, strict=True))
        there: dict[int, GoogleMachine | None] = dict(cell.machines)
        events = []
        marked = [(change.time, change.machine, change) for change in changes]
        for time, number, what in sorted([*cell.changes, *marked], key=lambda each: each[0]):
            if isinstance(what, AttributeChange):
                what.apply(self.attributes)
                machine = there.get(number)
                if machine is None:
                    continue
            else:
                machine = there[number] = what
            if machine is not None:
                known[number] = self.machine(number, machine)
            events.append(MachineEvent((time - window.begin_us) / 1e6, known[number], machine is not None))
        return events


def overload(cell: GoogleCell, machine: NDArray[np.int32], cpu: Floats, memory: Floats) -> Floats:
    """Return requests ÷ capacity of each machine, of the fuller dimension; `machine` are places in the cell."""
    has = np.array([(each.cpu, each.memory) for each in cell.machines.values()]).reshape(-1, 2)
    wants = np.column_stack([np.bincount(machine, share, len(has)) for share in (cpu, memory)])
    parts: Floats = np.divide(wants, has, out=np.where(wants > 0, np.inf, 0.0), where=has > 0)
    most: Floats = parts.max(axis=1, initial=0.0)
    return most

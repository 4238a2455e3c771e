"""Machines: one by its name, pages of them, sums over all of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.cellstate.errors import NotFound, Refused
from omega.cellstate.model import MachineState
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Position
from omega.queries.fleet import HOLDING, Fleet, shares
from omega.queries.recent import Recently, states_since
from omega.queries.wording import listing

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Executors
    from omega.cellstate.model import Machine, Run
    from omega.cellstate.replies import Rows

MOST_DIGITS = 16
MOST_COMPLETED = 1_000
"""Machines whose names are read for completion, and of those whose names begin with a text."""


def state_word(machine: "Machine") -> str:
    """Return ``up``, ``drained``, ``down``, ``offline`` or ``unfit``; with ``over`` when it holds more than it has."""
    return machine.state.name.lower() + (", over" if machine.over else "")


def find_machines(cell: "Cell", asked: Sequence[str]) -> "list[Machine]":
    """Return machines by name, index or unique prefix of a name, in the given order.

    Raises NotFound for the first that is unknown, Refused for one that is ambiguous.
    """
    machines: dict[int, Machine] = {}
    for text in asked:
        index = cell.machines.index_of(text)
        if index is None and text.isdecimal() and len(text) < MOST_DIGITS:
            index = int(text)
        machine = next(iter(cell.machines.at([index])), None) if index is not None else None
        if machine is None:
            near = cell.machines.at(cell.machines.indices_of_prefix(text, MOST_COMPLETED))
            if len(near) != 1:
                raise _unknown(cell.name, text, [each.name for each in near])
            machine = near[0]
        machines[machine.index] = machine
    return list(machines.values())


def machines_to_change(cell: "Cell", asked: Sequence[str]) -> "list[Machine]":
    """Return machines by their exact names, each once, in the given order.

    Reading may guess (`find_machines`); a drain of the wrong machine cannot be taken back. Raises NotFound, and names
    the machine that a word would have found.
    """
    machines: dict[int, Machine] = {}
    for text in asked:
        index = cell.machines.index_of(text)
        machine = next(iter(cell.machines.at([index])), None) if index is not None else None
        if machine is None:
            near = next(iter(find_machines(cell, [text])))
            raise NotFound(f"machine {text!r}: no machine has this name ({near.name} is near); write the exact name")
        machines[machine.index] = machine
    return list(machines.values())


def _unknown(cell: str, text: str, near: Sequence[str]) -> Refused:
    if near:
        begin = f"{len(near):,} machines of cell {cell} begin so ({listing(near)})"
        return Refused(f"machine {text!r}: {begin}; write more of the name")
    return NotFound(f"machine {text!r}: not in cell {cell}; see omega machine list")


def names_and_states(cell: "Cell") -> "Iterator[tuple[str, str]]":
    """Yield the names of machines with their states, for completion."""
    machines = cell.machines.at(range(min(MOST_COMPLETED, cell.machines.count())))
    return ((machine.name, state_word(machine)) for machine in machines)


class MachinePage(NamedTuple):
    """A page of a list of machines, by index; `total` is the length of the list.

    The next page begins after index `after`, None on the last page; `left` counts the machines after this one, on a
    later page with those that are gone.
    """

    total: int
    machines: "list[Machine]"
    after: int | None
    left: int


def rows_of(cell: "Cell") -> "Rows":
    """Return the records of all machines that are not gone, by index: 80 ms for 100,000 machines."""
    import numpy as np

    rows: Rows = cell.schedulers.sync(Position()).rows
    if len(rows):
        _, last = np.unique(rows[::-1, 0], return_index=True)  # of one that comes twice the later is newer
        rows = rows[len(rows) - 1 - last]
    there: Rows = rows[rows[:, 2] != MachineState.GONE]
    return there


def page(cell: "Cell", state: str | None = None, most: int | None = None, after: int | None = None) -> MachinePage:
    """Return the first `most` machines (None: all) in a state, or all, whose index is above `after`."""
    if state is None and most is not None:
        return _first_machines(cell, most, after)
    rows = rows_of(cell)
    if state == "over":
        rows = rows[_over(rows, len(cell.dimensions))]
    elif state is not None:
        rows = rows[rows[:, 2] == MachineState[state.upper()]]
    indices = rows[:, 0] if after is None else rows[rows[:, 0] > after, 0]
    shown = [int(index) for index in indices[:most]]
    left = len(indices) - len(shown)
    return MachinePage(len(rows), cell.machines.at(shown), shown[-1] if shown and left else None, left)


def _first_machines(cell: "Cell", most: int, after: int | None) -> MachinePage:
    """Return a page of all machines by index, which reads as many as it shows; gone ones in between are read too."""
    total, end = Fleet(cell.sums()).total, cell.machines.count()
    shown: list[Machine] = []
    at = 0 if after is None else after + 1
    while at < end and len(shown) <= most:
        width = min(end - at, 2 * most)
        shown += cell.machines.at(range(at, at + width))
        at += width
    more, shown = len(shown) > most, shown[:most]
    last = shown[-1].index if shown and more else None
    left = 0 if last is None else min(total - len(shown), end - last - 1)  # with those that are gone
    return MachinePage(total, shown, last, left)


def _over(rows: "Rows", size: int) -> Any:
    return (rows[:, 4 + size : 4 + 2 * size] > rows[:, 4 : 4 + size]).any(axis=1)


def list_machines(cell: "Cell", page: MachinePage, recent: Recently | None = None) -> dict[str, Any]:
    """Return a page of machines as plain values; with `recent` errors on each, and since when it is not up."""
    tasks = tasks_on(cell.machines.runs([machine.index for machine in page.machines]))
    why = unfit_reasons(cell.executors, some=any(machine.state is MachineState.UNFIT for machine in page.machines))
    rows = [
        machine_json(cell.dimensions, machine, tasks.get(machine.index, 0), why.get(machine.name, ""))
        for machine in page.machines
    ]
    if recent is not None:
        since = states_since(cell, page.machines)
        for row in rows:
            row.update(recent=recent.as_json(row["index"]), state_since_ms=since.get(row["index"]))
    return {"cell": cell.name, "total": page.total, "next": page.after, "machines": rows}


def utilisation(names: Sequence[str], machines: "Sequence[Machine]") -> dict[str, dict[str, float]]:
    """Return the share in use of machines that hold tasks, by resource; others offer nothing."""
    there = [machine for machine in machines if machine.state in HOLDING]
    capacity = [sum(machine.capacity[i] for machine in there) for i in range(len(names))]
    allocated = [sum(machine.allocated[i] for machine in there) for i in range(len(names))]
    return shares(names, capacity, allocated)


def tasks_on(runs: "Sequence[Run]") -> Mapping[int, int]:
    """Return the number of running tasks by machine index; leaving tasks do not count."""
    from omega.cellstate.ranges import count

    tasks = Counter[int]()
    for run in runs:
        if not run.leaving:
            tasks[run.machine] += count(run.tasks)
    return tasks


def unfit_reasons(executors: "Executors", *, some: bool) -> Mapping[str, str]:
    """Return why machines cannot start tasks, by name; read only where `some` are unfit."""
    return {name: record.unfit for name, record in executors.agents().items() if record.unfit} if some else {}


def machine_json(dimensions: Dimensions, machine: "Machine", tasks: int, unfit: str = "") -> dict[str, Any]:
    """Return a machine as plain values; amounts in the smallest units. `unfit`: why it cannot start tasks."""
    return {
        "name": machine.name,
        "index": machine.index,
        "state": machine.state.name.lower(),
        "over": machine.over,
        "unfit": unfit or None,
        "capacity": dimensions.numbers(machine.capacity),
        "allocated": dimensions.numbers(machine.allocated),
        "tasks": tasks,
        "number": machine.number,
        "executor": machine.executor,
        "attributes": dict(machine.attributes),
    }

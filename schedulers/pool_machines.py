"""The machines of each pool tree: those that its formula over machine attributes selects."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.constraints.evaluation import holds
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MachineState
from omega.cellstate.pools import Pools
from omega.cellstate.resources import SLOTS, UNBOUNDED, Resources
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.enforcing import tree_machines

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

Machines = NDArray[np.intp]


def fetch_attributes(pools: Pools, snapshot: Snapshot, cell: "Cell", *, also: bool = False) -> None:
    """Fetch the attributes of new and changed machines if a formula needs any, or something else does (`also`)."""
    if also or any(tree.machines for tree in pools.trees):
        machines = snapshot.attributes.wanting(snapshot.rows[2])
        snapshot.describe(machines, cell.machines.described(machines.tolist()))


def totals_of(pools: Pools, snapshot: Snapshot, names: Sequence[str]) -> dict[str, Resources]:
    """Return the capacity of the machines of each tree that are up, by its name; `names` are the cell's resources.

    Slots count only where all of these machines state theirs: elsewhere they are unbounded, and have no share.
    """
    totals: dict[str, Resources] = {}
    for tree in pools.trees:
        capacity = snapshot.capacity[:, tree_machines(pools, tree.name, snapshot) & snapshot.up]
        bounded = [name != SLOTS or bool((row < UNBOUNDED).all()) for name, row in zip(names, capacity, strict=True)]
        sums = zip(capacity.sum(axis=1), bounded, strict=True)
        totals[tree.name] = tuple(int(amount) if counts else 0 for amount, counts in sums)
    return totals


def check_machines(pools: Pools, snapshot: Snapshot) -> None:
    """Raise BadInput when a formula cannot be read, or a machine belongs to two trees or to none."""
    for twice, what in _misplaced(pools, snapshot):
        if twice:
            raise BadInput(f"{what}; a machine is in one tree")
        raise BadInput(f"{what}; leave out the formula of one tree, which then has the machines of no other")


def machine_warnings(pools: Pools, snapshot: Snapshot) -> list[str]:
    """Return what is wrong with machines that joined, or changed, since the formulas were checked (`tree_machines`)."""
    effects = {True: "which is in the first", False: "on which no job of a pool starts"}
    return [f"{what}, {effects[twice]}" for twice, what in _misplaced(pools, snapshot)]


def _misplaced(pools: Pools, snapshot: Snapshot) -> Iterator[tuple[bool, str]]:
    """Yield, as text, the machines that several formulas select (True), and those of no tree (False)."""
    if not any(tree.machines for tree in pools.trees):
        return
    here = snapshot.rows[2] != MachineState.GONE
    owners = np.zeros(snapshot.size, dtype=np.int64)
    for tree in pools.trees:
        if tree.machines:
            owners += holds(tree.machines, snapshot.attributes)
    twice, nowhere = np.flatnonzero(here & (owners > 1)), np.flatnonzero(here & (owners == 0))
    if len(twice):
        names = _claiming(pools, snapshot, twice)
        yield True, f"pool trees {names}: each selects machine {_names(snapshot, twice)}"
    if len(nowhere) and all(tree.machines for tree in pools.trees):
        yield False, f"pool trees: none selects machine {_names(snapshot, nowhere)}"


def _claiming(pools: Pools, snapshot: Snapshot, machines: Machines) -> str:
    """Return the trees that select the first of some machines."""
    return ", ".join(
        tree.name for tree in pools.trees if tree.machines and holds(tree.machines, snapshot.attributes)[machines[0]]
    )


def _names(snapshot: Snapshot, machines: Machines) -> str:
    more = f" and {len(machines) - 1} more" if len(machines) > 1 else ""
    return f"{snapshot.attributes.name(int(machines[0]))}{more}"

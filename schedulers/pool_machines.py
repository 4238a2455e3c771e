"""The machines of each pool tree: those that its formula over machine attributes selects."""

import numpy as np

from cellstate.errors import BadInput
from cellstate.model import MachineState
from cellstate.pools import Pools
from cellstate.ports import MachineQueries
from cellstate.resources import Resources
from cellstate.snapshot import Snapshot
from schedulers.constraints.evaluation import holds, tree_machines


def fetch_attributes(pools: Pools, snapshot: Snapshot, cell: MachineQueries) -> None:
    """Fetch the attributes of new and changed machines if a formula needs any."""
    if pools.divided:
        machines = snapshot.attributes.wanting(snapshot.rows[2])
        snapshot.describe(machines, cell.described(machines.tolist()))


def totals_of(pools: Pools, snapshot: Snapshot) -> dict[str, Resources]:
    """Return the capacity of the machines of each tree that are up, by its name."""
    up, capacity = snapshot.up, snapshot.capacity
    return {
        tree.name: tuple(
            int(amount) for amount in capacity[:, tree_machines(pools, tree.name, snapshot) & up].sum(axis=1)
        )
        for tree in pools.trees
    }


def check_machines(pools: Pools, snapshot: Snapshot) -> None:
    """Raise BadInput when a formula cannot be read, or a machine belongs to two trees or to none."""
    here = snapshot.rows[2] != MachineState.GONE
    owners = np.zeros(snapshot.size, dtype=np.int64)
    for tree in pools.trees:
        if tree.machines:
            owners += holds(tree.machines, snapshot.attributes)
    twice = np.flatnonzero(here & (owners > 1))
    if len(twice):
        claiming = [
            tree.name for tree in pools.trees if tree.machines and holds(tree.machines, snapshot.attributes)[twice[0]]
        ]
        name = snapshot.attributes.name(int(twice[0]))
        raise BadInput(
            f"pool trees {', '.join(claiming)}: each selects machine {name}{_more(twice)}; a machine is in one tree"
        )
    nowhere = np.flatnonzero(here & (owners == 0))
    if len(nowhere) and all(tree.machines for tree in pools.trees):
        name = snapshot.attributes.name(int(nowhere[0]))
        raise BadInput(
            f"pool trees: none selects machine {name}{_more(nowhere)}; leave out the formula of one tree, which"
            " then has the machines of no other"
        )


def _more(machines: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> str:
    return f" and {len(machines) - 1} more" if len(machines) > 1 else ""

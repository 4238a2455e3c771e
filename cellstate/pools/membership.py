"""Which tree each machine belongs to, by the formulas of the trees over the machines' attributes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints.evaluation import holds
from omega.cellstate.model import Described
from omega.cellstate.pools import Pools

NO_TREE = -1
"""Number of the tree of a machine that no formula selects, where each tree has a formula."""


def tree_numbers(pools: Pools, attributes: Attributes) -> NDArray[np.int64]:
    """Return for each machine the place of its tree in the list of trees; `NO_TREE` for a machine in none.

    A machine that several formulas select belongs to the first of their trees; one that none selects to the tree
    without a formula. Cached until attributes change. Raises BadInput for a formula that cannot be read.
    """

    def divide() -> NDArray[np.int64]:
        rest = next((number for number, tree in enumerate(pools.trees) if not tree.machines), NO_TREE)
        numbers = np.full(attributes.size, rest, dtype=np.int64)
        for number, tree in reversed(list(enumerate(pools.trees))):
            if tree.machines:
                numbers[holds(tree.machines, attributes)] = number
        return numbers

    formulas = tuple(tree.machines for tree in pools.trees)
    return attributes.keep(("pool trees", formulas), divide)


def trees_of(pools: Pools, described: Sequence[Described]) -> list[int | None]:
    """Return the number of the tree of each machine, given names and attributes; None for a machine in none."""
    attributes = Attributes()
    attributes.resize(len(described))
    attributes.learn(range(len(described)), described)
    return [None if number == NO_TREE else number for number in tree_numbers(pools, attributes).tolist()]

"""The number of tasks that machines have room for, as one vector operation."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.resources import Resources

Amounts = NDArray[np.int64]
UNBOUNDED = 1 << 40
"""Number of tasks that need no resource; the sum over thousands of machines still fits in 64 bits."""


def fitting(room: Sequence[Amounts] | Amounts, need: Resources, most: int = UNBOUNDED) -> Amounts:
    """Return how many tasks of a need each machine has room for, 0 to `most`.

    `room` has one array a dimension, in the order and units of the cell's resources; a machine of which any amount
    is negative takes nothing.
    """
    fits = np.full(len(room[0]), most, dtype=np.int64)
    for here, amount in zip(room, need, strict=True):
        if amount:
            np.minimum(fits, here // amount, out=fits)
        else:
            fits[here < 0] = 0
    return np.maximum(fits, 0, out=fits)

"""Amounts of all dimensions packed into one integer, 64 bits each: a claim is tested with one subtraction and one mask.

The free amounts of a machine have a guard, 2^62, in each field; a field without its guard is overdrawn. Amounts are
below 10^14 < 2^47.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FIELD = 64
MASK = (1 << FIELD) - 1
GUARD = 1 << 62


def packed(amounts: Sequence[int]) -> int:
    """Pack amounts into one integer, the first in the lowest bits."""
    whole = 0
    for amount in reversed(amounts):
        whole = whole << FIELD | amount
    return whole


@lru_cache(maxsize=4096)
def packed_need(need: tuple[int, ...]) -> int:
    """Pack amounts as `packed`, cached for repeated needs."""
    return packed(need)


def fields(words: Iterable[int], dimensions: int) -> NDArray[np.int64]:
    """Return the fields of packed integers, guards included: a row each."""
    text = b"".join([word.to_bytes(8 * dimensions, "little") for word in words])
    return np.frombuffer(text, dtype=np.int64).reshape(-1, dimensions)

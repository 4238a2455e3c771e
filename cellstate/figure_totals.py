"""What the processes of a scheduler's name counted together: each carries the counts of those before it on."""

from collections.abc import Mapping
from typing import Any

COUNTED = ("transactions", "accepted", "conflicts")
EARLIER = "earlier"
"""Field of the figures with the counts of the processes before, up to the last heartbeat of each."""


def totals(figures: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of a scheduler's figures, with those of the processes before."""
    earlier = figures.get(EARLIER, {})
    return {name: figures.get(name, 0) + earlier.get(name, 0) for name in COUNTED}

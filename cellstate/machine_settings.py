"""What operators set of a machine: it belongs to the machine and outlives the executor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from omega.cellstate.resources import Resources


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """What operators set of a machine, which its executor does not change (semantics 36).

    `amounts`: by resource, None where the executor decides; empty for none. `attributes`: None for a removed one.
    """

    amounts: tuple[int | None, ...] = ()
    attributes: Mapping[str, str | None] = field(default_factory=dict)

    def applied(self, capacity: Resources, attributes: Mapping[str, str]) -> tuple[Resources, dict[str, str]]:
        """Return what a machine has whose executor states `capacity` and `attributes`."""
        own = self.amounts or (None,) * len(capacity)
        amounts = tuple(has if wanted is None else wanted for wanted, has in zip(own, capacity, strict=True))
        return amounts, {name: text for name, text in {**attributes, **self.attributes}.items() if text is not None}

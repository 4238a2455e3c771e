"""Changes of a cell by operators."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from omega.cellstate.model import MachineState
from omega.cellstate.ports.parts import DrainDeadlines, EndTasks, JoinMachines, SetLimits, SetPools
from omega.cellstate.ports.queries import Queries
from omega.cellstate.resources import Resources


class OperatorStore(Queries, EndTasks, DrainDeadlines, JoinMachines, SetLimits, SetPools, Protocol):
    """The port of commands that change machines, limits and pools."""

    def set_machine_state(self, index: int, state: MachineState, at_ms: int, by: str) -> int:
        """Change a machine's state; returns the number of requeued tasks.

        When a machine is set down or removed, its tasks are pending again at once. While its executor lives they are
        also leaving, until it acknowledges their end or its lease expires (semantics 23). Setting a machine up makes it
        offline while its executor does not live. BadInput for `OFFLINE`.
        """

    def set_machine_capacity(
        self, index: int, capacity: Resources, at_ms: int, by: str, evict: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Change a machine's capacity, with the evictions it needs; Refused when it would be over."""

    def set_machine_attributes(self, index: int, changes: Mapping[str, str | None], at_ms: int, by: str) -> None:
        """Change attributes of a machine; None removes one. Refused when there is no such machine."""

"""Changes of a cell by operators."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cellstate.model import MachineState
from cellstate.pools import Pools
from cellstate.ports.parts import DrainDeadlines, EndTasks, JoinMachines, SetLimits
from cellstate.ports.queries import Queries
from cellstate.resources import Resources


class OperatorStore(Queries, EndTasks, DrainDeadlines, JoinMachines, SetLimits, Protocol):
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

    def set_pools(self, pools: Pools, check: int, at_ms: int, by: str) -> Pools:
        """Replace the pools of the cell; returns them with their numbers and their version.

        `check` is the version of the pools that the caller read: Overtaken when they were modified since. Refused when
        a pool with live jobs would be removed or get pools below it; BadInput for pools that break a rule of
        pool_rules.py. A pool that moves takes its running tasks along: its use counts below its new ancestors at once,
        and an ancestor above its limit takes nothing until the limit is met again. Equal pools change nothing.
        """

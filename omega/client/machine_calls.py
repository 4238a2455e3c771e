"""Machines, for `omega.Client`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omega.cellstate.clock import now_ms
from omega.client.arguments import known, positive
from omega.queries import fleet, machines

if TYPE_CHECKING:
    from omega.cellstate.model import MachineState
    from omega.client.connections import Connections

Document = dict[str, Any]


class MachineCalls:
    """The methods of a client that read and change machines; they are named as in commands."""

    _connections: "Connections"
    _by: str

    def machines(self, *, state: str | None = None, limit: int | None = None, after: int | None = None) -> Document:
        """Return a page of machines by index: the first `limit` (None: all) in a state whose index is above `after`.

        ``next`` of the answer is the `after` of the next page, None on the last one. See ``omega machine list``.
        """
        known("state", state, fleet.STATES)
        positive(limit=limit)
        with self._connections.cell() as cell:
            return machines.list_machines(cell, machines.page(cell, state, limit, after))

    def machine(self, name: str, *, verbose: bool = False) -> Document:
        """Return a machine and its running tasks; `verbose` adds needs, rejections and the last events.

        See ``omega machine status``.
        """
        from omega.queries.machine_status import MachineStatus

        with self._connections.cell() as cell:
            return MachineStatus(cell, machines.find_machines(cell, [name])[0]).as_json(verbose=verbose)

    def add_machines(
        self, *names: str, resources: Mapping[str, Any], attributes: Mapping[str, str] | None = None,
        executor: str | None = None,
    ) -> Document:  # fmt: skip
        """Add simulated machines with these resources, as amounts of a job file. See ``omega machine add``."""
        from omega.cellstate.executors import check_executor
        from omega.cellstate.model import MachineSpec
        from omega.live.simulated import DEFAULT_EXECUTOR
        from omega.machine_changes import add

        executor = executor or DEFAULT_EXECUTOR
        check_executor(executor)
        with self._connections.cell() as cell:
            cell.schedulers.members()
            capacity = cell.dimensions.parse_capacity(resources)
            specs = [MachineSpec(name, capacity, dict(attributes or {})) for name in dict.fromkeys(names)]
            return add(cell, executor, specs, now_ms())

    def drain(self, *names: str, deadline_ms: int | None = None) -> Document:
        """Drain machines: running tasks finish, those that still run after `deadline_ms` are evicted.

        See ``omega machine drain``. The answer also has ``warnings``.
        """
        from omega.cellstate.model import MachineState

        return self._set_state(MachineState.DRAINED, *names, deadline_ms=deadline_ms)

    def up(self, *names: str) -> Document:
        """Let machines take tasks again. See ``omega machine up``."""
        from omega.cellstate.model import MachineState

        return self._set_state(MachineState.UP, *names)

    def down(self, *names: str) -> Document:
        """Mark machines as failed: their tasks are pending again. See ``omega machine down``."""
        from omega.cellstate.model import MachineState

        return self._set_state(MachineState.DOWN, *names)

    def remove(self, *names: str) -> Document:
        """Remove machines from the cell: their tasks are pending again. See ``omega machine remove``."""
        from omega.cellstate.model import MachineState

        return self._set_state(MachineState.GONE, *names)

    def _set_state(self, to: "MachineState", *names: str, deadline_ms: int | None = None) -> Document:
        from omega.machine_changes import set_state

        with self._connections.cell() as cell:
            cell.schedulers.members()
            document, warnings = set_state(cell, names, to, now_ms(), self._by, deadline_ms)
            return document | {"warnings": warnings}

    def set_machine(self, name: str, attributes: Mapping[str, str | None], *, evict: bool = False) -> Document:
        """Change attributes of a machine; None removes one. See ``omega machine set``."""
        from omega.machine_changes import set_attributes

        with self._connections.cell() as cell:
            cell.schedulers.members()
            return set_attributes(cell, name, attributes, now_ms(), self._by, evict=evict)

    def resize_machine(self, name: str, resources: Mapping[str, Any], *, evict: bool = False) -> Document:
        """Change the capacity of a machine in these resources. See ``omega machine resize``."""
        from omega.machine_changes import resize

        with self._connections.cell() as cell:
            cell.schedulers.members()
            return resize(cell, name, resources, now_ms(), self._by, evict=evict)

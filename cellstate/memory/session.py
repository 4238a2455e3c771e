"""The connection of a process to the twin, which is always there; its clock is set by its owner."""

from collections.abc import Iterable

from cellstate.cell import Membership
from cellstate.memory.executors import MemoryExecutors
from cellstate.model import MachineState


class MemorySession(MemoryExecutors):
    """The part of `Session` and of housekeeping that on a server depends on the server."""

    url = ""
    now_ms = 0
    """The clock of the store (ms); `housekeep` sets it to the time that it is given."""

    def account(self) -> str:
        """See Session.account; nobody is verified here."""
        return ""

    def check_exists(self, *, any_schema: bool = False) -> str:
        """See Session.check_exists."""
        return ",".join(self.dimensions.names)

    def check_there(self) -> None:
        """See Session.check_there."""

    def store_ms(self) -> int:
        """See Session.store_ms."""
        return self.now_ms

    def store_run(self) -> str:
        """See Session.store_run; there is one run."""
        return "memory"

    def store_older_than(self, milliseconds: int) -> bool:
        """See Session.store_older_than."""
        return True

    def may_wake(self, members: Iterable[str]) -> None:
        """See NotifySchedulers.may_wake; every scheduler is known here."""

    def read_live_schedulers(self) -> None:
        """See NotifySchedulers.read_live_schedulers; every scheduler is known here."""

    def rouse(self, member: str) -> None:
        """See NotifySchedulers.rouse."""
        self.wakes.add(member)

    def machines_of(self, executor: str) -> list[tuple[int, MachineState]]:
        """See MachineQueries.machines_of."""
        number = self.executor_number(executor)
        return [(index, m.state) for index, m in sorted(self.M.items()) if m.executor == number]

    def machine_count(self) -> int:
        """See MachineQueries.machine_count."""
        return len(self.indices)

    def log_length(self) -> int:
        """See Queries.log_length."""
        return len(self._log)

    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        """See DrainDeadlines.set_deadline."""
        self.drains.pop(machine, None)
        if milliseconds is not None:
            self.drains[machine] = self.now_ms + milliseconds

    def deadlines(self) -> dict[int, int]:
        """See MachineQueries.deadlines."""
        return {machine: until - self.now_ms for machine, until in self.drains.items()}

    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        """See Housekeeping.reap_executors."""
        gone = {name: record for name, record in self.executor_records().items() if not record.lives}
        return [
            name
            for name, record in gone.items()
            if self.deregister_executor(Membership(name, record.incarnation), at_ms, by)
        ]

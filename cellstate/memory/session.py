"""The connection of a process to the twin, which is always there; its clock is set by its owner."""

from collections.abc import Iterable

from omega.cellstate.memory.executors import deregister_executor, executor_records
from omega.cellstate.memory.queries import MemoryQueries
from omega.cellstate.override import override
from omega.cellstate.replies import Membership


class MemorySession(MemoryQueries):
    """The part of `Session` and of housekeeping that on a server depends on the server."""

    url = ""

    @override
    def account(self) -> str:
        # No user is verified here.
        return ""

    @override
    def check_exists(self, *, any_schema: bool = False) -> str:
        return ",".join(self.ledger.dimensions.names)

    def check_there(self) -> None:
        """Do nothing: the cell is always there."""

    @override
    def store_ms(self) -> int:
        return self.ledger.now_ms

    @override
    def store_run(self) -> str:
        # There is one run.
        return "memory"

    @override
    def store_older_than(self, milliseconds: int) -> bool:
        return True

    def may_wake(self, members: Iterable[str]) -> None:
        """Do nothing: every scheduler is known here."""

    def read_live_schedulers(self) -> None:
        """Do nothing: every scheduler is known here."""

    @override
    def rouse(self, member: str) -> None:
        self.ledger.wakes.add(member)

    @override
    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        self.ledger.drains.pop(machine, None)
        if milliseconds is not None:
            self.ledger.drains[machine] = self.ledger.now_ms + milliseconds

    @override
    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        gone = {name: record for name, record in executor_records(self.ledger).items() if not record.lives}
        return [
            name
            for name, record in gone.items()
            if deregister_executor(self.ledger, Membership(name, record.incarnation), at_ms, by)
        ]

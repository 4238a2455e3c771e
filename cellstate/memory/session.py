"""The connection of a process to the twin, which is always there; its clock is set by its owner."""

from collections.abc import Iterable

from omega.cellstate.cell import Membership
from omega.cellstate.memory.executors import deregister_executor, executor_records
from omega.cellstate.memory.ledger import Ledger


class MemorySession:
    """The part of `Session` and of housekeeping that on a server depends on the server."""

    url = ""
    ledger: Ledger

    def account(self) -> str:
        """See Session.account; no user is verified here."""
        return ""

    def check_exists(self, *, any_schema: bool = False) -> str:
        """See Session.check_exists."""
        return ",".join(self.ledger.dimensions.names)

    def check_there(self) -> None:
        """See Session.check_there."""

    def store_ms(self) -> int:
        """See Session.store_ms."""
        return self.ledger.now_ms

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
        self.ledger.wakes.add(member)

    def set_deadline(self, machine: int, milliseconds: int | None) -> None:
        """See DrainDeadlines.set_deadline."""
        self.ledger.drains.pop(machine, None)
        if milliseconds is not None:
            self.ledger.drains[machine] = self.ledger.now_ms + milliseconds

    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        """See Housekeeping.reap_executors."""
        gone = {name: record for name, record in executor_records(self.ledger).items() if not record.lives}
        return [
            name
            for name, record in gone.items()
            if deregister_executor(self.ledger, Membership(name, record.incarnation), at_ms, by)
        ]

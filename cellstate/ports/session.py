"""The connection of a process to one cell."""

from typing import Protocol

from omega.cellstate.resources import Dimensions


class Session(Protocol):
    """The connection of a process to one cell: whether the cell exists, and the clock of its store."""

    name: str
    dimensions: Dimensions
    url: str
    """Where its store is; "" for a cell in memory."""

    def account(self) -> str:
        """Return the connection's user of the server when it is one person's; "" for the default and for roles."""

    def close(self) -> None:
        """Close the connections."""

    def check_exists(self, *, any_schema: bool = False) -> str:
        """Return the names of its resources; Refused when there is no such cell (any more), Unsuitable as in `open`."""

    def check_there(self) -> None:
        """Raise CellGone, which a process at work waits for, when there is no such cell now, or not one like it."""

    def store_ms(self) -> int:
        """Return the server's clock, the one that all agents share, in milliseconds since 1970."""

    def store_run(self) -> str:
        """Return the id of the server's run; another run may have less data (semantics 16)."""

    def store_older_than(self, milliseconds: int) -> bool:
        """Return whether the server has been up for so long, and the cell was not restored recently."""

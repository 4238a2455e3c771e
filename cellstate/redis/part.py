"""What the parts of a cell on a server have in common."""

from omega.cellstate.redis.calls import Connection


class Part:
    """Operations of one subject, over the connection of the cell."""

    def __init__(self, calls: Connection) -> None:
        """Use the connection of the cell."""
        self._calls = calls

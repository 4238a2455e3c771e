"""The mirrors of the cells of one store, each read while somebody looks."""

# A placeholder: helper A replaces this file.

from typing import Any


class Mirrors:
    """Mirrors by the name of their cell."""

    def __init__(self, store: str) -> None:
        self.shown_url = store

    async def names(self) -> list[str]:
        """Return the names of the cells of the store."""
        raise NotImplementedError

    async def cell(self, name: str) -> Any:
        """Return the mirror of a cell, which is read from now on."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop all readers."""

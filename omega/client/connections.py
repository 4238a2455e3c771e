"""A pool of connections to a cell for many threads: each call uses one of them exclusively."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omega.cellstate import server
from omega.cellstate.addresses import safe_url
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.override import override
from omega.cellstate.store import cells, connect_cell
from omega.client.defaults import which
from omega.many_cells.opened import chosen_cells

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell


class Connections:
    """Cells opened on one store; a connection serves one call at a time and is used again afterwards."""

    dry = False
    """Whether the changes of the cells that it lends are dry runs."""

    def __init__(self, store: str | None, cell: str | None) -> None:
        """Name a store by its URL, None for the embedded one, and a cell; nothing is opened yet."""
        self._store, self._cell = store, cell
        self.several = chosen_cells(cell)
        """The names of ``any`` (none: all cells) or ``a,b`` in place of that of a cell; None for one cell."""
        self._url: str | None = None
        self._free: list[RedisCell] = []
        self._lock = threading.Lock()
        self._closed = False
        self.unreadable: dict[tuple[str, str], str] = {}
        """Records that were left out of an answer because they cannot be read: (key, field), and why."""

    @property
    def url(self) -> str:
        """The URL of a store that answers and fits. Raises StoreError, BadInput."""
        with self._lock:
            if self._url is None and self._store is not None:
                server.check_suitable(server.server_info(self._store))
                self._url = self._store
            elif self._url is None:
                from omega.embedded import server as embedded

                self._url = embedded.ensure().url
            return self._url

    @property
    def shown_url(self) -> str:
        """The store's URL without its password."""
        return safe_url(self._store or self.url)

    def cells(self) -> list[str]:
        """Return the names of the cells on the store."""
        client = server.connect(self.url)
        try:
            return cells(client, self.url)
        finally:
            client.close()

    @contextmanager
    def cell(self) -> "Iterator[RedisCell]":
        """Lend a cell to one call.

        After an error of the store, or an interruption (Ctrl-C may come in the middle of a reply), its connection is
        closed and not used again; after a refusal the reply was read to its end.
        """
        lent = self._take()
        try:
            yield lent
        except (BadInput, Refused):
            self._give_back(lent)
            raise
        except BaseException:
            lent.close()
            raise
        self._give_back(lent)

    def _take(self) -> "RedisCell":
        with self._lock:
            if self._closed:
                raise Refused("the client is closed; make another one")
            free = self._free.pop() if self._free else None
        if free is not None:
            return _still_there(free)
        if self.several is not None:
            raise Refused(f"cell {self._cell}: this call takes one cell; submit, jobs and status take several")
        return self.open(self._cell or which(self.cells(), self.shown_url))

    def open(self, name: str) -> "RedisCell":
        """Open a cell on a connection of its own. Raises Refused when there is none of that name."""
        return connect_cell(self.url, name)

    def _give_back(self, lent: "RedisCell") -> None:
        with self._lock:
            self.unreadable |= lent.unreadable
            lent.unreadable.clear()
            if not self._closed:
                self._free.append(lent)
                return
        lent.close()

    def close(self) -> None:
        """Close all connections; one that serves a call is closed when the call ends."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for each in free:
            each.close()


class DryConnections(Connections):
    """The connections of another client, whose cells it lends for dry runs."""

    dry = True

    def __init__(self, own: Connections) -> None:
        """Lend those of `own`."""
        super().__init__(own._store, own._cell)  # noqa: SLF001 - its own class
        self._own, self.unreadable = own, own.unreadable

    @property
    @override
    def url(self) -> str:
        return self._own.url

    @contextmanager
    @override
    def cell(self) -> "Iterator[RedisCell]":
        with self._own.cell() as lent, lent.dry_run():
            yield lent

    @override
    def close(self) -> None:
        self._own.close()


def _still_there(cell: "RedisCell") -> "RedisCell":
    """Return a cell that an earlier call used. Raises NotFound when it was deleted since: it would read as empty."""
    try:
        cell.check_exists()
    except BaseException:
        cell.close()
        raise
    return cell

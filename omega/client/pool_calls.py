"""Pools, for `omega.Client`."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from omega.cellstate.clock import now_ms
from omega.queries import pool_shares

if TYPE_CHECKING:
    from omega.client.connections import Connections

Document = dict[str, Any]


class PoolCalls:
    """The methods of a client that read and change pools."""

    _connections: "Connections"
    _by: str

    def pools(self) -> Document:
        """Return the pools with settings, demand, usage, fair share and status. See ``omega pool list``."""
        with self._connections.cell() as cell:
            return pool_shares.pools_json(cell)

    def pool(self, name: str) -> Document:
        """Return a pool with its settings, shares and volume. See ``omega pool show``."""
        from omega.pools.one import pool_json

        with self._connections.cell() as cell:
            return pool_json(cell, name)

    def set_pool(
        self, name: str, settings: Mapping[str, Any], *, version: int | None = None, evict: bool = False,
        over: bool = False,
    ) -> Document:  # fmt: skip
        """Create a pool, or change the given settings, as a file of pools has them; None sets one to its default.

        `evict` and `over` permit evictions: of tasks on machines of another tree, and above a lowered limit. See
        ``omega pool set``. The answer also has ``warnings``. Raises Overtaken when the pools are not of `version`.
        """
        from omega.pools.one import set_pool, with_values

        with self._connections.cell() as cell:
            cell.schedulers.members()
            make = partial(with_values, values=settings, cell=cell)
            document, _, warnings = set_pool(
                cell, name, make, now_ms, self._by, version=version, evict=evict, over=over
            )
            return document | {"warnings": warnings}

    def remove_pools(self, *names: str, version: int | None = None) -> Document:
        """Remove pools without live jobs and without pools below them. See ``omega pool remove``."""
        from omega.pools.one import remove_pools

        with self._connections.cell() as cell:
            cell.schedulers.members()
            return remove_pools(cell, names, now_ms(), self._by, version)

    def export_pools(self) -> Document:
        """Return pools and trees as `import_pools` takes them. See ``omega pool export``."""
        from omega.pools.form import as_document

        with self._connections.cell() as cell:
            return as_document(cell.pools.get())

    def import_pools(self, document: Mapping[str, Any], *, version: int | None = None) -> Document:
        """Replace all pools and trees by those of a document, and return them as `export_pools` does.

        Raises Overtaken when the pools are not of `version`, or else of the version that the document names, if any;
        BadInput and Refused as ``omega pool import`` does.
        """
        self.replace_pools(document, version=version)
        return self.export_pools()

    def replace_pools(
        self, document: Mapping[str, Any], *, version: int | None = None, evict: bool = False
    ) -> Document:
        """Do as `import_pools`, and return the numbers of pools that differ. See ``omega pool import``."""
        from omega.pools.file import from_values
        from omega.pools.one import import_pools

        with self._connections.cell() as cell:
            cell.schedulers.members()
            wanted, named = from_values(document, cell.dimensions)
            known = named if version is None else version
            return import_pools(cell, wanted, now_ms(), self._by, known, evict=evict)

    def plan_pools(self, document: Mapping[str, Any]) -> Document:
        """Return the fair shares before and after an import of a document. See ``omega pool plan``."""
        from omega.pools import changes, file

        with self._connections.cell() as cell:
            wanted, _ = file.from_values(document, cell.dimensions)
            changes.check_all(cell, wanted)
            return pool_shares.plan_json(cell, wanted)

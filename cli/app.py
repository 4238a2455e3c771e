"""State shared by all commands: store, cell, user and output format."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import click

from omega.cellstate.clock import now_ms
from omega.cellstate.errors import Refused
from omega.cli import render

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.many_cells.opened import OpenCells

Closing = TypeVar("Closing", bound="RedisCell")

IN_PART = 3
"""Exit code of a command that left out a cell."""
AWAY_SECONDS = 0.5
"""Interval of reads of a store that is away."""


@dataclass(kw_only=True)
class App:
    """The common options and the values derived from them. Commands receive it by ``click.pass_obj``."""

    store_option: dict[str, str] = field(default_factory=dict)
    """The option that names the store, store or store_file, with its value; empty without one."""
    as_json: bool = False

    @cached_property
    def store(self) -> str | None:
        """URL of the store that an option or the environment names; None for the embedded one. Raises BadInput."""
        from omega.client.settings import named_store

        return named_store(**self.store_option)

    @cached_property
    def cell_name(self) -> str | None:
        """Name of the cell that an option, which is stored here, or the environment names."""
        from omega.client.settings import named_cell

        return named_cell()

    @cached_property
    def url(self) -> str:
        """URL of a reachable, suitable store; starts the embedded store when none is named.

        Raises StoreError, BadInput.
        """
        if self.store is None:
            from omega.embedded import server as embedded

            store = embedded.ensure()
            if store.repaired:
                render.warning(store.repaired)
            return store.url
        from omega.cellstate import server

        server.report_waits(lambda reason: render.note(f"waiting for the store: {reason}"))
        server.check_suitable(server.server_info(self.store))
        return self.store

    @property
    def shown_url(self) -> str:
        """The store's URL without the password."""
        from omega.cellstate.addresses import safe_url

        return safe_url(self.store or self.url)

    def cells(self) -> list[str]:
        """Return the names of the cells on the store."""
        from omega.cellstate.server import connect
        from omega.cellstate.store import cells

        client = connect(self.url)
        try:
            return cells(client, self.url)
        finally:
            client.close()

    def which(self, *, surely: bool = False) -> str:
        """Return the name of the cell to use: the named one, else ``default``, else the only one.

        Raises Refused when there are several and none is ``default``; with `surely`, for operations that cannot be
        undone, whenever there are several.
        """
        if self.cell_name is not None:
            if self.several() is not None:
                raise Refused(f"--cell {self.cell_name}: this command takes one cell; see omega cell list")
            return self.cell_name
        from omega.client.defaults import which

        return which(self.cells(), self.shown_url, surely=surely)

    def open(self, name: str | None = None, *, to_change: bool = False, any_schema: bool = False) -> "RedisCell":
        """Open the cell `name`, or the selected one; it is closed when the command ends. Raises Refused when unknown.

        `to_change`: also read the live schedulers, which the command's changes then notify.
        `any_schema`: as `connect_cell`.
        """
        from omega.cellstate.store import connect_cell

        cell = self.closing(connect_cell(self.url, name or self.which(), any_schema=any_schema))
        self._at_end(lambda: _warn_of_unreadable(cell))
        if to_change:
            cell.schedulers.members()
        return cell

    def several(self, *, all_cells: bool = False) -> "Sequence[str] | None":
        """Return the cells that ``--cell any`` (none: all), ``--cell a,b`` or `all_cells` name; None for one cell."""
        from omega.many_cells.opened import chosen_cells

        if all_cells and self.cell_name not in (None, os.environ.get("OMEGA_CELL")):
            raise click.UsageError("--all-cells and --cell are mutually exclusive; give one of them")
        return () if all_cells else chosen_cells(self.cell_name)

    def open_cells(self, names: "Sequence[str]") -> "OpenCells":
        """Open cells, without names all, and warn about those that cannot be read. Raises Refused when none can."""
        from omega.many_cells.opened import open_cells

        found = open_cells(self.url, names)
        self._at_end(found.close)
        for cell in found.cells.values():
            self._at_end(partial(_warn_of_unreadable, cell))
        found.check_some()
        return found

    @staticmethod
    def warn_of_skipped(found: "OpenCells") -> int:
        """Warn about cells that were not read; return the exit code: `IN_PART` when there are some."""
        for name, why in found.skipped.items():
            render.warning(f"{name} is left out: {why}")
        return IN_PART if found.skipped else 0

    def await_store(self) -> None:
        """Wait while the store is away, for commands that run until they are stopped."""
        from omega.cellstate.errors import Unreachable

        waits = False
        while True:
            try:
                _ = self.url
            except Unreachable as error:
                if not waits:
                    render.note(f"waiting for the store: {error}")
                waits = True
                time.sleep(AWAY_SECONDS)
            else:
                return

    def closing(self, cell: Closing) -> Closing:
        """Close a cell when the command ends; returns it."""
        self._at_end(cell.close)
        return cell

    @staticmethod
    def _at_end(what: Callable[[], object]) -> None:
        context = click.get_current_context(silent=True)
        if context is not None:
            context.find_root().call_on_close(what)

    @cached_property
    def user(self) -> str:
        """User name from OMEGA_USER, else of the account. It is not authenticated."""
        from omega.client.defaults import account_name

        return account_name()

    @cached_property
    def by(self) -> str:
        """The user as recorded in the log as the author of changes."""
        from omega.client.defaults import author

        return author(self.user)

    @staticmethod
    def now_ms() -> int:
        """Return the current time in milliseconds since 1970."""
        return now_ms()


def _warn_of_unreadable(cell: "RedisCell") -> None:
    """Warn about records that the command skipped because they cannot be read."""
    left_out = sorted(f"{key} {field}" for key, field in cell.unreadable)
    if left_out:
        more = f" and {len(left_out) - 1:,} more" if len(left_out) > 1 else ""
        render.warning(
            f"skipped an unreadable record of cell {cell.name}: {left_out[0]}{more}; run omega cell verify {cell.name}"
        )

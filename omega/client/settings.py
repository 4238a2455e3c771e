"""Which store and which cell a caller names: the one reader of these settings, for commands and for the client."""

import os

from omega.cellstate.errors import BadInput


def named_store(store: str | None = None, store_file: str | None = None) -> str | None:
    """Return the URL of the named store: `store`, else that in the file `store_file`; None for the embedded store.

    Without both: OMEGA_STORE, else the URL in the file OMEGA_STORE_FILE. Raises BadInput when both are given, and for
    a file that cannot be used (store_file.py).
    """
    from omega.client.store_file import read

    if store and store_file:
        raise BadInput("store and store_file are mutually exclusive; give one of them")
    if not (store or store_file):
        store, store_file = os.environ.get("OMEGA_STORE"), os.environ.get("OMEGA_STORE_FILE")
    return store or (read(store_file) if store_file else None)


def named_cell(cell: str | None = None) -> str | None:
    """Return the name of the cell: `cell`, else OMEGA_CELL; None when neither is set."""
    return cell or os.environ.get("OMEGA_CELL") or None

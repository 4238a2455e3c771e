"""Layer 0: the state of a cell and its validation, the store, the same in memory, snapshots, the audit."""

if __name__ != "omega.cellstate":
    raise ImportError(f"import omega.cellstate, not {__name__}: under a second name every module would exist twice")

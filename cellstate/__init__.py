"""Layer 0: the state of a cell and its validation, the store, its in-memory twin, snapshots, the audit."""

"""Fair shares as pure functions: curves, guarantees, integral volumes, the pool tree, DRF. No clock, no store."""

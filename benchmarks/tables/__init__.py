"""Scripts that measure the tables shipped with omega.workload."""

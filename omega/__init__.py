"""Second floor: workloads, the embedded store, and a live cell assembled from processes."""

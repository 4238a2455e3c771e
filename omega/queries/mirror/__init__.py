"""One mirror of each cell in memory: what pages, streams and ``omega top`` show."""

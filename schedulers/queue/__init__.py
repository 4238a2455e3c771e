"""The pending queue: jobs that may be tried, back off or are blocked, all in the order of one policy."""

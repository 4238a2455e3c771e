"""A scheduler as a process, and what all processes of a cell share: log, metrics endpoint, signals, housekeeping."""

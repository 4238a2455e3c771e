"""The log of a cell against its records."""

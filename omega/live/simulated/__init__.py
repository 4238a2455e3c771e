"""Simulated machines: their executor, and its process."""

DEFAULT_EXECUTOR = "here"
"""The executor of simulated machines when no other is named: the one of `omega up`."""

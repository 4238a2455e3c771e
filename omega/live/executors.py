"""Names of executors that Omega itself gives."""

DEFAULT_EXECUTOR = "here"
"""The executor of simulated machines when no other is named: the one of `omega up`."""

"""Experiments as values: what is claimed, what is simulated, what is measured, and whether it holds."""

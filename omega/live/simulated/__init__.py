"""Simulated machines: their executor, and its process."""

"""Experiments as values: claim, simulations, measurement and verdict."""

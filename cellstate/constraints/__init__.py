"""Constraints over the attributes of machines: their grammar, and the machines that satisfy one."""

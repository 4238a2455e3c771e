"""Layer 1, decisions: the attempt loop, the policies, and the live scheduler process."""

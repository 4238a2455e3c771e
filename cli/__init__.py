"""Layer 3: the command line interface ``omega``."""

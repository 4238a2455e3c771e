"""Layer 1, decisions: the attempt loop, the policies, and the live scheduler process."""

if __name__ != "omega.schedulers":
    raise ImportError(f"import omega.schedulers, not {__name__}: under a second name every module would exist twice")

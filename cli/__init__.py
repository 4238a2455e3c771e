"""Layer 3: the command line interface ``omega``."""

if __name__ != "omega.cli":
    raise ImportError(f"import omega.cli, not {__name__}: under a second name every module would exist twice")

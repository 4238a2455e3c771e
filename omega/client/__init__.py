"""The Python client: the commands as calls that return what the commands print with ``--json``."""

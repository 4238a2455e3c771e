"""The Python client: what the commands do, as calls that return what the commands print with ``--json``."""

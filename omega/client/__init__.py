"""The Python client: commands as calls that return the documents of ``--json``."""

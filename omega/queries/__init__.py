"""Read models of a cell: what the command line, the Python client and other front ends render. Nothing here prints."""

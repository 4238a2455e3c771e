"""Read models of a cell for the command line, the Python client and other front ends. Nothing here prints."""

"""``omega top``: a live view of a cell in the terminal."""

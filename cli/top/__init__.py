"""``omega top``: a cell as it is now, again and again, in the terminal."""

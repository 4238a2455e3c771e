"""Third floor: the program ``omega``, which talks to people."""

"""Ground floor: the words of a cell, the store that judges and remembers, its twin, the local copy."""

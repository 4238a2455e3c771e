"""Ids of jobs made of the names in a trace."""

from collections import Counter

LONGEST = 50
"""Characters of a name that are kept: an id has at most 64."""


class Names:
    """Gives every job an id of its own."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def unique(self, text: str) -> tuple[str, bool]:
        """Return an id for a name, and whether an earlier job had that name: then a number is added."""
        letters = (letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in text)
        name = "".join(letters)[:LONGEST]
        if not name[:1].isalnum():
            name = f"job{name}"[:LONGEST]
        self._given[name] += 1
        count = self._given[name]
        if count == 1:
            return name, False
        return self.unique(f"{name[: LONGEST - 8]}.{count}")[0], True

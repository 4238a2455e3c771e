"""Checks of arguments of the client."""

from collections.abc import Collection

from omega.cellstate.errors import BadInput


def positive(**numbers: int | None) -> None:
    """Raise BadInput for a number that is given and below 1."""
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise BadInput(f"{name}: {number} is not a number from 1 on")


def known(what: str, word: str | None, words: Collection[str]) -> None:
    """Raise BadInput for a word that is given and is none of `words`."""
    if word is not None and word not in words:
        raise BadInput(f"{what} {word!r}: is unknown; known are {', '.join(words)}")


def place(before: int | str | None) -> int | None:
    """Return the number before which the jobs of a page of one cell begin. Raises BadInput."""
    if isinstance(before, str):
        raise BadInput(f"before {before!r}: of one cell it is a number")
    positive(before=before)
    return before

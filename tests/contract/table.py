"""Reads truth tables: text with aligned columns, one line a case.

The first line that is neither empty nor a remark (``#``) names the columns; a column begins where its
name begins and ends where the next one begins. ``-`` is an empty cell.
"""

from pathlib import Path
from re import finditer


class Case(dict[str, str]):
    """A line of a table; `place` is its file and line."""

    def __init__(self, place: str, cells: dict[str, str]) -> None:
        super().__init__(cells)
        self.place = place


def read(path: Path) -> list[Case]:
    """Return the cases of a table; raises ValueError for a word that stands across two columns."""
    cases: list[Case] = []
    columns: list[tuple[str, int]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not columns:
            columns = [(found[0], found.start()) for found in finditer(r"\S+", line)]
            continue
        place = f"{path.name}:{number}"
        cells = {}
        for (name, start), end in zip(columns, [start for _, start in columns[1:]] + [len(line)], strict=True):
            if start > 0 and line[start - 1 : start].strip():
                raise ValueError(f"{place}: a word runs into the column {name!r}")
            text = line[start : max(start, end)].strip()
            cells[name] = "" if text == "-" else text
        cases.append(Case(f"{place} {cells[columns[0][0]]}", cells))
    return cases

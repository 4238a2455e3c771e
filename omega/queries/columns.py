"""Selected fields of the rows of a list, nested ones by ``a.b``."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from omega.cellstate.errors import BadInput


def flat(row: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields by name, nested ones included: ``counts`` and ``counts.placed``."""
    for name, value in row.items():
        yield within + name, value
        if isinstance(value, Mapping):
            yield from flat(value, f"{within}{name}.")


def chosen(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows with these fields only, None for one that a row lacks. Raises BadInput for one that all lack."""
    records = [dict(flat(row)) for row in rows]
    known = list(dict.fromkeys(name for row in records for name in row))
    for name in columns:
        if records and name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise BadInput(f"column {name!r}: {hint}known columns: {', '.join(known)}")
    return [{name: row.get(name) for name in columns} for row in records]

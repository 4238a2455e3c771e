"""Selectable output columns of lists: any field of the JSON document, as a table or as JSON."""

import json
from collections.abc import Mapping
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.queries.columns import chosen, flat

Columns = tuple[str, ...]
WIDE, NAME = ("*",), ("name",)
"""Columns of ``-o wide`` and of ``-o name``."""


def _split(ctx: click.Context, _: click.Parameter, text: str | None) -> Columns:
    if text == "json":
        ctx.ensure_object(App).as_json = True
        return ()
    if text == "wide":
        return WIDE
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


columns_option = click.option(
    "--output",
    "--columns",
    "-o",
    "columns",
    metavar="json|wide|name|FIELD,…",
    callback=_split,
    help="Print JSON, all fields, only ids or names, or these fields (nested ones: a.b).",
)


def answered(app: App, document: Mapping[str, Any], rows: str, columns: Columns) -> bool:
    """Print a list as JSON or in the selected columns; return False when neither was requested.

    `rows` names the field of the document that holds the rows. Raises BadInput for an unknown column.
    """
    if not columns:
        if app.as_json:
            render.document(document)
        return app.as_json
    records = [dict(flat(row)) for row in document[rows]]
    if columns == WIDE:
        names = (name for row in records for name, value in row.items() if not isinstance(value, Mapping))
        columns = tuple(dict.fromkeys(names))
    if columns == NAME and not app.as_json:
        for row in records:
            render.line(str(row.get("id") or row.get("name")))
        return True
    selected = chosen(document[rows], columns)
    if app.as_json:
        render.document({**document, rows: selected})
        return True
    numeric = [all(isinstance(row[name], int | float | None) for row in selected) for name in columns]
    headings = [f">{name}" if right and records else name for name, right in zip(columns, numeric, strict=True)]
    render.table(headings, [[_shown(row[name]) for name in columns] for row in selected])
    return True


def _shown(value: Any) -> str:
    """Return a value as text; numbers unformatted."""
    if value is None:
        return ""
    if isinstance(value, bool | Mapping | list):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:.6g}" if isinstance(value, float) else str(value)

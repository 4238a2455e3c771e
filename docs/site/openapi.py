"""The routes of an OpenAPI document as Markdown; descriptions in the document are Markdown, too."""

import json
from collections.abc import Iterator
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
Document = dict[str, Any]


def page(document: Document) -> Iterator[str]:
    """Yield the page as Markdown: a heading per tag, below it one per operation."""
    for tag, operations in by_tag(document).items():
        yield f"## {tag}\n"
        for method, path, operation in operations:
            yield f"### `{method.upper()} {path}`\n"
            yield from described(document, operation)


def by_tag(document: Document) -> dict[str, list[tuple[str, str, Document]]]:
    """Return (method, path, operation) by tag, in the order of the document."""
    tags: dict[str, list[tuple[str, str, Document]]] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                tag = methods[method].get("tags", ["Other"])[0]
                tags.setdefault(tag[:1].upper() + tag[1:], []).append((method, path, methods[method]))
    return tags


def described(document: Document, operation: Document) -> Iterator[str]:
    """Yield an operation: what it does, its parameters, its body and its answers."""
    if text := operation.get("description") or operation.get("summary"):
        yield f"{text}\n"
    rows = [resolved(document, each) for each in operation.get("parameters", ())]
    if rows:
        yield "| parameter | in | type | meaning |\n| --- | --- | --- | --- |"
        for each in rows:
            required = ", required" if each.get("required") and each["in"] != "path" else ""
            name, type_ = each["name"], type_of(document, each.get("schema", {}))
            yield f"| `{name}` | {each['in']}{required} | {type_} | {cell(each.get('description', ''))} |"
        yield ""
    if body := operation.get("requestBody"):
        forms = ", ".join(f"`{name}`" for name in body["content"])
        yield f"Body: {forms}. {body.get('description', '')}\n"
    yield "| answer | meaning |\n| --- | --- |"
    for status, answer in operation["responses"].items():
        answer = resolved(document, answer)  # noqa: PLW2901 - the same answer
        forms = ", ".join(f"`{name}`" for name in answer.get("content", {}))
        yield f"| {status} {forms} | {cell(answer.get('description', ''))} |"
    yield ""


def resolved(document: Document, part: Document) -> Document:
    """Return a part of the document, or what it refers to."""
    while "$ref" in part:
        found: Any = document
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def type_of(document: Document, schema: Document) -> str:
    """Return the type of a parameter in words."""
    schema = resolved(document, schema)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        names = [type_of(document, each) for each in several if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(names))
    if values := schema.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    if schema.get("type") == "array":
        return f"several: {type_of(document, schema.get('items', {}))}"
    default = f", default `{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""
    return f"{schema.get('type', 'any')}{default}"


def cell(text: str) -> str:
    """Return text for the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")

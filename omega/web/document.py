"""The OpenAPI document of the API: what FastAPI generates, with tokens, and problem documents for errors."""

from typing import Any

from pydantic.json_schema import models_json_schema

from omega.jobfile.form import JobForm
from omega.pools.file import FileFields
from omega.web.problems import MEDIA_TYPE

DESCRIPTION = (
    "Cells of a store: jobs, machines, pools, schedulers and events. How to serve them: docs/serve.md; indexes, long "
    "polls, If-Match and pages: docs/http.md. The body of an answer is the document of the command that each operation "
    "names, as the command prints it with --json."
)
ROOTS = ("/v1", "/metrics")
"""Beginnings of the paths that are described: pages of the console are not."""
DOCUMENT = {"type": "object", "description": "The document of the command"}
PROBLEM = {
    "type": "object",
    "description": "An error as a problem document (RFC 9457)",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "Kind of error, urn:omega:problem:…"},
        "title": {"type": "string", "description": "The kind in words"},
        "status": {"type": "integer", "description": "Status of the answer"},
        "detail": {"type": "string", "description": "One line: the place, the problem, the remedy"},
    },
}
TOKEN = {"type": "http", "scheme": "bearer", "description": "A token of omega token, or that of the start"}
_FROM_FASTAPI = ("HTTPValidationError", "ValidationError")


def described(document: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's document with the answers to errors that all routes have, and how visitors are known."""
    document["info"]["description"] = DESCRIPTION
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _FROM_FASTAPI:
        schemas.pop(name, None)
    schemas |= _bodies() | {"Problem": PROBLEM, "Document": DOCUMENT}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    components["responses"] = {"Problem": {"description": "An error", "content": content}}
    components["securitySchemes"] = {"token": TOKEN}
    document["security"] = [{"token": []}]
    document["paths"] = {path: each for path, each in document["paths"].items() if path.startswith(ROOTS)}
    for operations in document["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            answers.pop("422", None)
            if any(each.get("name") == "dry_run" for each in operation.get("parameters", ())) and "201" in answers:
                answers["200"] = {**answers["201"], "description": "What would be made, by a dry run"}
            for answer in answers.values():
                media = answer.get("content", {})
                if media.get("application/json") == {"schema": {}}:
                    media["application/json"] = {"schema": {"$ref": "#/components/schemas/Document"}}
            answers |= {status: {"$ref": "#/components/responses/Problem"} for status in ("4XX", "5XX")}
    return document


def _bodies() -> dict[str, Any]:
    """Return the fields of job files and of files of pools, which routes read as JSON or YAML."""
    _, found = models_json_schema(
        [(JobForm, "validation"), (FileFields, "validation")], ref_template="#/components/schemas/{model}"
    )
    fields: dict[str, Any] = found["$defs"]
    return fields

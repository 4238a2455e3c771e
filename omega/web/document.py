"""The OpenAPI document of the API: what FastAPI generates, with tokens, and problem documents for errors."""

from typing import Any

from omega.web.problems import MEDIA_TYPE

DESCRIPTION = "Cells of a store: jobs, machines, pools, schedulers and events. How to serve them: docs/serve.md."
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
    schemas["Problem"] = PROBLEM
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    components["responses"] = {"Problem": {"description": "An error", "content": content}}
    components["securitySchemes"] = {"token": TOKEN}
    document["security"] = [{"token": []}]
    for operations in document["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            answers.pop("422", None)
            answers |= {status: {"$ref": "#/components/responses/Problem"} for status in ("4XX", "5XX")}
    return document

"""Bodies of requests: job files and documents, as JSON or YAML."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request

from omega.cellstate.errors import BadInput
from omega.jobfile.reader import JobFile
from omega.web.access.exchange import MOST_BODY
from omega.web.problems import Unsupported
from omega.web.reading import read_document, read_jobs

JSON = ("application/json",)
YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
NAME = "body"
"""Name of a body in messages, in place of that of a file."""

JOB: Mapping[str, Any] = {"$ref": "#/components/schemas/JobForm"}
JOBS: Mapping[str, Any] = {"oneOf": [JOB, {"type": "array", "items": JOB, "minItems": 1}]}
"""A job file: a job, or a list of jobs."""


async def text_of(request: Request) -> tuple[str, bool]:
    """Return the text of a body, and whether it is JSON. Raises BadInput, Unsupported."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in JSON + YAML:
        known = f"send {JSON[0]} or {YAML[0]}"
        raise Unsupported(f"Content-Type {media[:80]!r}: is not read here; {known}" if media else f"no type; {known}")
    request.state.exchange.allow(MOST_BODY)
    data = await request.body()
    try:
        return data.decode(), media in JSON
    except UnicodeDecodeError as error:
        raise BadInput(f"{NAME}: not UTF-8 text at byte {error.start}; save it as such") from None


@asynccontextmanager
async def job_file(request: Request) -> AsyncIterator[JobFile]:
    """Yield the body of a request as a job file (`read_jobs`)."""
    text, is_json = await text_of(request)
    async with read_jobs(NAME, text, is_json=is_json) as file:
        yield file


async def document(request: Request, content: str) -> Mapping[str, Any]:
    """Return the mapping in the body of a request; `content` says what it should have. Raises BadInput."""
    text, is_json = await text_of(request)
    value = await read_document(NAME, text, content, is_json=is_json)
    if not isinstance(value, dict):
        raise BadInput(f"{NAME}: is not a mapping; write {content}")
    return value


def described(schema: Mapping[str, Any], *, required: bool = True) -> dict[str, Any]:
    """Return the description of such a body for the OpenAPI document."""
    content = {media: {"schema": dict(schema)} for media in (JSON[0], YAML[0])}
    return {"requestBody": {"required": required, "content": content}}

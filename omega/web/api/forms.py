"""Bodies of changes that several routes share, and how they are read."""

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from omega.cellstate.plain_text import all_printable, cleaned, problems

MOST_NAMES = 1_000
Amounts = dict[str, Annotated[str | int | float, Field(union_mode="left_to_right")]]
"""Amounts by resource, as in job files: 4, "500m", "2Gi"."""
Document = dict[str, Any]


def _no_truth(value: Any) -> Any:
    """Return a value; raises ValueError for true and false, which would be read as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no number")  # noqa: TRY004 - what pydantic reports
    return value


Whole = Annotated[int, BeforeValidator(_no_truth)]
"""A whole number in a body."""


class Form(BaseModel):
    """Base of the bodies of changes."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Names(Form):
    """Things that are changed together, by their names."""

    names: list[str] = Field(min_length=1, max_length=MOST_NAMES)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises JSONDecodeError for a field that is there twice: one of the two would count."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise json.JSONDecodeError(f"field {cleaned(twice)[:80]!r} is there twice; leave one of them out", "", 0)
    return found


class _Body(Request):
    """A request whose JSON has each field once, and no text that could be neither stored nor shown."""

    async def json(self) -> Any:
        """Return the body. Raises JSONDecodeError, which is answered with 422."""
        value = json.loads(await self.body(), object_pairs_hook=_pairs)
        for path, problem in () if all_printable(value) else problems(value):
            at = ".".join(cleaned(str(step))[:40] for step in path)
            raise json.JSONDecodeError(f"{at}: {problem}", "", 0)
        return value


class _BodyRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function of the route, which gets the request with the body read as above."""
        handle = super().get_route_handler()

        async def with_body(request: Request) -> Response:
            return await handle(_Body(request.scope, request.receive))

        return with_body


def api_router(*, prefix: str, tags: list[str | Any]) -> APIRouter:
    """Return a router of routes whose bodies are forms."""
    return APIRouter(prefix=prefix, tags=tags, route_class=_BodyRoute)

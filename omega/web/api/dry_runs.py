"""Changes of the API and their dry runs: a dry run answers 200 with what the change would, and ``dry_run``."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from anyio import to_thread
from fastapi import Request
from fastapi.responses import Response

from omega.cellstate.errors import Overtaken
from omega.client.client import Client
from omega.web.api.answers import answer
from omega.web.service import Service, tried

Document = dict[str, Any]


async def changed(
    request: Request, served: Service, cell: str, user: str, call: Callable[..., Document], *arguments: Any,
    dry_run: bool, status: int = 200, plan: Callable[[Client], Document] | None = None, check: Sequence[int] = (),
    checked: str = "check", **options: Any,
) -> Response:  # fmt: skip
    """Make a change by a call of a client, or its dry run, and answer with its document.

    `status` is that of a change; `plan` returns what a dry run answers in place of the document, once the change is
    known to be allowed. The ETag begins with the modify index of the only job, or the version of the pools.
    The change is made if what it changes has one of the indices of `check`, which the call takes as `checked`.
    """
    made = partial(_tried, call, plan) if dry_run else call
    for index in check[:-1]:
        with suppress(Overtaken):
            document = await served.call(cell, user, made, *arguments, **options, **{checked: index})
            break
    else:
        last = {checked: check[-1]} if check else {}
        document = await served.call(cell, user, made, *arguments, **options, **last)
    if dry_run:
        document |= {"dry_run": True}  # what many tasks would do takes a while
        return await to_thread.run_sync(partial(answer, request, document, modified=_index(document)))
    return answer(request, document, modified=_index(document), status=status)


def _tried(
    call: Callable[..., Document], plan: Callable[[Client], Document] | None, client: Client, *arguments: Any,
    **options: Any,
) -> Document:  # fmt: skip
    document: Document = tried(call, client, *arguments, **options)
    return document if plan is None else plan(client)


def _index(document: Document) -> int | None:
    """Return what the ETag of an answer begins with, None when it is of several things or of none that has one."""
    rows = document.get("jobs", [document])
    return (rows[0].get("modify_index") or rows[0].get("version")) if len(rows) == 1 else None

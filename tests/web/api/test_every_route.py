"""What every route of the OpenAPI document does with conditions, HEAD, ETags, hostile text, and a cell that is gone."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from omega.cellstate.redis import RedisCell
from omega.web.document import ROOTS
from omega.web.service import Service
from tests.integration.stage import made_cell
from tests.web.visiting import visit

pytestmark = [pytest.mark.server, pytest.mark.anyio]
JOB = {"name": "site", "kind": "service", "tasks": [{"name": "x", "count": 2, "resources": {"cpu": 1}}]}
NAMES = {"job": "site", "kind": "batch"}
"""Things of the cell by the parameters of paths; ``name`` depends on the path."""
BODIES: dict[str, Any] = {
    "/v1/jobs": JOB, "/v1/jobs/plan": JOB, "/v1/jobs/update": JOB,
    "/v1/jobs/{job}/resize": {"count": 2}, "/v1/jobs/{job}/weight": {"weight": 1},
    "/v1/jobs/{job}/rerun": {"name": "again"}, "/v1/jobs/{job}/revert": {"to": 1},
    "/v1/pools/{name}": {"weight": 2}, "/v1/pool-file": {"pools": []}, "/v1/pool-file/plan": {"pools": []},
    "/v1/machines": {"names": ["m9"], "resources": {"cpu": 1}}, "/v1/machines/{name}/set": {"attributes": {"a": "b"}},
    "/v1/machines/{name}/resize": {"resources": {"cpu": 4}}, "/v1/limits/{kind}": {"jobs": 1000},
    **{f"/v1/jobs/{word}": {"jobs": ["site"]} for word in ("stop", "hold", "release")},
    **{f"/v1/machines/{word}": {"names": ["m0"]} for word in ("drain", "up", "down", "remove")},
}  # fmt: skip
STREAMS = ("/v1/events",)
"""Routes that do not end by themselves."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    """A cell with one machine, for one test: it is changed, or deleted."""
    with made_cell(store_url, f"routes-{uuid4().hex[:8]}", 1) as made:
        yield made


@pytest.fixture
async def client(cell: RedisCell) -> AsyncIterator[httpx.AsyncClient]:
    """An operator whose default cell is the test's, with a job, and a pool."""
    async with visit(Service(cell.url, cell.name)) as made:
        assert (await made.post("/v1/jobs", json=JOB)).status_code == 201
        assert (await made.patch("/v1/pools/team", json={"weight": 1})).status_code == 200
        yield made


async def operations(client: httpx.AsyncClient, *methods: str) -> list[tuple[str, str, str]]:
    """Return all operations of the document: the method, the template, and the path of things that exist."""
    document = (await client.get("/v1/openapi.json")).json()
    found = []
    for template, said in document["paths"].items():
        name = "team" if "/pools" in template else "batch" if "/schedulers" in template else "m0"
        path = template.format(**NAMES, name=name)
        found += [(method.upper(), template, path) for method in said if method.upper() in methods]
    assert found
    return found


async def send(client: httpx.AsyncClient, method: str, template: str, path: str, **more: Any) -> httpx.Response:
    """Send a request with a body of the route."""
    return await client.request(method, path, json=BODIES.get(template), **more)


async def test_no_change_is_made_without_its_condition(client: httpx.AsyncClient, cell: RedisCell) -> None:
    await client.post("/v1/jobs/site/hold")
    before = cell.log.changed_records(0, 0).version
    for method, template, path in await operations(client, "POST", "PUT", "PATCH", "DELETE"):
        answer = await send(client, method, template, path, headers={"If-Match": '"999999999"'})
        takes = template != "/v1/jobs" and ("{job}" in template or template == "/v1/jobs/update")
        takes = takes or template in ("/v1/pools/{name}", "/v1/pool-file")
        assert answer.status_code == (412 if takes else 422), f"{method} {path}: {answer.status_code} {answer.text}"
        if template != "/v1/jobs":
            for header in ("If-None-Match", "If-Unmodified-Since", "Idempotency-Key"):
                answer = await send(client, method, template, path, headers={header: "*"})
                assert answer.status_code == 422, f"{method} {path} {header}: {answer.status_code} {answer.text}"
    assert cell.log.changed_records(0, 0).version == before


async def test_a_change_that_changes_nothing_is_refused_too(client: httpx.AsyncClient) -> None:
    wrong = {"If-Match": '"999999999"'}
    for word in ("hold", "release", "stop"):
        assert (await client.post(f"/v1/jobs/site/{word}")).status_code == 200
        assert (await client.post(f"/v1/jobs/site/{word}", headers=wrong)).status_code == 412, word


async def test_if_match_takes_any_tag_of_a_list(client: httpx.AsyncClient) -> None:
    shown = await client.get("/v1/jobs/site")
    for tags in (f'"1", {shown.headers["etag"]}', f'W/"7.ab", "8","{shown.json()["modify_index"]}"', "*"):
        answer = await client.post("/v1/jobs/site/hold?dry_run=true", headers={"If-Match": tags})
        assert answer.status_code == 200, (tags, answer.text)
    for tags, status in (
        ('"77", "78"', 412),
        ('"1", x', 422),
        (", ".join(['"1"'] * 17), 422),
        ('"' + "9" * 5000 + '"', 422),
    ):
        answer = await client.post("/v1/jobs/site/hold", headers={"If-Match": tags})
        assert answer.status_code == status, (tags[:40], answer.text)
    version = (await client.get("/v1/pool-file")).json()["version"]
    held = await client.patch("/v1/pools/team", json={"weight": 2}, headers={"If-Match": f'"77", "{version}"'})
    assert held.status_code == 200


async def test_head_is_get_without_a_body(client: httpx.AsyncClient, cell: RedisCell) -> None:
    pages = ["/", "/login", "/static/console.js", *(f"/cells/{cell.name}/{page}" for page in PAGES)]
    paths = [path for _, _, path in await operations(client, "GET") if not path.startswith(STREAMS)]
    for path in [*paths, "/v1/events/list", *pages]:
        got, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers.get("content-type") == got.headers.get("content-type"), path
        assert "etag" in head.headers or "etag" not in got.headers, path
    for path in ("/v1/events", "/v1/jobs/site/logs?follow=1"):
        head = await client.head(path)
        assert (head.status_code, head.headers["content-type"], head.content) == (
            200,
            "text/event-stream; charset=utf-8",
            b"",
        )
    refused = await client.put("/v1/jobs/site")
    assert refused.headers["allow"] == "GET, HEAD"


PAGES = ("", "jobs", "jobs/site", "machines", "pools", "plan", "events")


async def test_every_route_with_an_etag_takes_lists_and_any(client: httpx.AsyncClient) -> None:
    paths = [path for _, _, path in await operations(client, "GET") if not path.startswith(STREAMS)]
    tagged = 0
    for path in [*paths, "/v1/events/list", "/static/console.css"]:
        tag = (await client.get(path)).headers.get("etag")
        for asked in ("*", f'"x", {tag}', f'{tag},"y"', (tag or "").removeprefix("W/")) if tag else ():
            answer = await client.get(path, headers={"If-None-Match": asked})
            if answer.status_code == 200 and answer.headers["etag"] != tag:
                continue  # it changed meanwhile
            assert (answer.status_code, answer.content) == (304, b""), (path, asked)
        tagged += tag is not None
        if tag:
            assert (await client.get(path, headers={"If-None-Match": '"x", "y"'})).status_code == 200
    assert tagged > 15


def with_text(value: Any, text: str) -> Iterator[Any]:
    """Yield a body for each text in it, with another one in its place, and for each name of a field."""
    if isinstance(value, str):
        yield text
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from ([*value[:place], other, *value[place + 1 :]] for other in with_text(each, text))
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from ({**value, name: other} for other in with_text(each, text))
            yield {**{key: it for key, it in value.items() if key != name}, text: each}


async def test_text_that_is_no_unicode_is_refused_everywhere(client: httpx.AsyncClient) -> None:
    sent = 0
    for method, template, path in await operations(client, "POST", "PUT", "PATCH"):
        body = {"/v1/pool-file": {"pools": [{"name": "team", "admits": ["ada"]}]}}.get(template, BODIES.get(template))
        for text in ("\ud800", "a\udfffb"):
            for each in with_text(body, text):
                answer = await client.request(
                    method, path, content=json.dumps(each), headers={"Content-Type": "application/json"}
                )
                sent += 1
                assert answer.status_code == 422, f"{method} {path} {each!r}: {answer.status_code} {answer.text}"
    assert sent > 60
    for _, _, path in await operations(client, "GET"):
        if not path.startswith(STREAMS):
            answer = await client.get(f"{path}?cell=%ED%A0%80")
            assert answer.status_code in (404, 422), f"{path}: {answer.status_code}"
    for path in ("/v1/jobs/%ED%A0%80", "/v1/machines/%ED%A0%80", "/v1/pools/%ED%A0%80", "/v1/limits/%ED%A0%80"):
        assert (await client.get(path)).status_code in (200, 404, 422)


async def test_a_field_that_is_there_twice_is_refused_everywhere(client: httpx.AsyncClient) -> None:
    for method, template, path in await operations(client, "POST", "PUT", "PATCH"):
        body = BODIES.get(template)
        if not body:
            continue
        name = next(iter(body))
        text = f"{{{json.dumps(name)}: {json.dumps(body[name])}, {json.dumps(body)[1:]}"
        answer = await client.request(method, path, content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, f"{method} {path}: {answer.status_code} {answer.text}"
        assert "twice" in answer.json()["detail"], answer.text


async def test_a_cell_that_was_deleted_is_not_there(client: httpx.AsyncClient, cell: RedisCell) -> None:
    listed = [path for _, _, path in await operations(client, "GET") if path not in ("/v1/cells", "/v1/openapi.json")]
    assert all(path.startswith(ROOTS) for path in listed)
    index = {
        path: (await client.get(path)).headers.get("omega-index") for path in listed if not path.startswith(STREAMS)
    }
    assert len([each for each in index.values() if each]) > 5
    cell.delete()
    for method, template, path in await operations(client, "POST", "PUT", "PATCH", "DELETE"):
        answer = await send(client, method, template, path)
        assert answer.status_code in (404, 410), f"{method} {path}: {answer.status_code} {answer.text}"
    for path in listed:
        follow = "?follow=1" if path.endswith("/logs") else ""
        polled = f"?index={index[path]}&wait=20s" if index.get(path) else follow
        for asked in dict.fromkeys((f"{path}{polled}", path)):
            answer = await client.get(asked)
            assert answer.status_code in (404, 410), f"{asked}: {answer.status_code} {answer.text}"

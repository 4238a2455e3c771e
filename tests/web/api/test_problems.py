"""Errors are problem documents in the words of the command line."""

import re

import httpx
import pytest

from omega.cellstate import errors
from omega.cellstate.redis import RedisCell
from omega.web import problems
from tests.cli.conftest import Omega, join

pytestmark = [pytest.mark.server, pytest.mark.anyio]


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("/v1/jobs/nope", "job status nope"),
        ("/v1/jobs/nope/why", "job why nope"),
        ("/v1/machines/nope", "machine status nope"),
        ("/v1/schedulers/nope", "scheduler status nope"),
        ("/v1/pools/nope", "pool show nope"),
        ("/v1/jobs/a/logs?task=7", "job logs a --task 7"),
        ("/v1/jobs/a/logs?group=nope", "job logs a --group nope"),
    ],
)
async def test_what_is_not_there(http: httpx.AsyncClient, omega: Omega, url: str, command: str) -> None:
    omega.run("job", "submit", "-", given="{name: a, tasks: [{}]}")
    answer = await http.get(url)
    assert (answer.status_code, answer.headers["content-type"]) == (404, problems.MEDIA_TYPE)
    document = answer.json()
    assert document["detail"] == omega.error("--json", *command.split())
    assert (document["status"], document["type"]) == (404, "urn:omega:problem:not-found")


@pytest.mark.parametrize(
    ("method", "url", "status", "detail"),
    [
        ("GET", "/v1/nothing", 404, "/v1/nothing: no such page; see /v1/openapi.json"),
        ("PUT", "/v1/jobs/a", 405, "/v1/jobs/a: does not take PUT"),
        ("GET", "/v1/jobs?cell=nope", 404, "unknown cell 'nope'"),
        ("POST", "/v1/jobs/a/stop?cell=nope", 404, "unknown cell 'nope'"),
        ("GET", "/v1/jobs?state=odd", 422, "state 'odd': is unknown; known are pending, running"),
        ("GET", "/v1/jobs?limit=0", 422, "query limit: input should be greater than or equal to 1"),
        ("GET", "/v1/jobs?sort=odd", 422, "sort 'odd': choose from"),
        ("GET", "/v1/machines?fields=odd", 422, "column 'odd': known columns: name, index"),
        ("GET", "/v1/usage?from_ms=5&to_ms=4", 422, "the end is before the begin"),
        ("GET", "/v1/events/list?kind=odd", 422, "kind 'odd': is unknown"),
        ("GET", "/v1/events/list?since=7-elsewhere", 410, "index 7-elsewhere: the store lost this version"),
        ("POST", "/v1/jobs/a/resize", 422, "body: field required"),
    ],
)
async def test_requests_that_are_wrong(
    http: httpx.AsyncClient, cell: RedisCell, method: str, url: str, status: int, detail: str
) -> None:
    join(cell, 1)
    answer = await http.request(method, url)
    assert (answer.status_code, answer.headers["content-type"]) == (status, problems.MEDIA_TYPE), answer.text
    assert detail in answer.json()["detail"]
    assert answer.json()["status"] == status


async def test_unknown_cells_are_not_kept(http: httpx.AsyncClient) -> None:
    for number in range(20):
        assert (await http.get(f"/v1/jobs/a?cell=unknown-{number}")).status_code == 404
    service = http._transport.app.state.service  # type: ignore[attr-defined]
    assert not [name for name in service._clients if name.startswith("unknown")]


def test_every_error_has_a_status() -> None:
    found = {kind: problems.status_of(kind.__new__(kind)) for kind in errors.OmegaError.__subclasses__()}
    assert found[errors.BadInput] == 422
    assert all(400 <= status < 600 and status != 500 for status in found.values())
    assert problems.status_of(errors.Duplicate("x")) == 409
    assert problems.status_of(errors.StoreFull("x")) == 507


def test_options_in_advice_have_their_form_over_http() -> None:
    assert problems.in_http("choose one with --cell") == "choose one with --cell (over HTTP: ?cell=NAME)"
    both = problems.in_http("name --force or --check-index, then --force")
    assert both.endswith("(over HTTP: ?force=true, the header If-Match)")
    for line in ("see omega token --help", "job a--cell: absent", "fix it, or leave out --cells-policy"):
        assert problems.in_http(line) == line


def test_a_problem_has_one_line_without_control_characters() -> None:
    answer = problems.of_error(errors.Refused("job \x1b[31m:\n  is \u202eodd"))
    assert b"\x1b" not in bytes(answer.body)
    assert "\u202e" not in bytes(answer.body).decode()
    assert b"\\n" not in bytes(answer.body)


async def test_metrics(http: httpx.AsyncClient, cell: RedisCell) -> None:
    join(cell, 2)
    text = (await http.get("/metrics")).text
    assert f'omega_cell_machines{{cell="{cell.name}",state="up"}} 2.0' in text
    assert "process_resident_memory_bytes" in text


async def test_unknown_words_of_a_query_change_nothing_on_every_route(http: httpx.AsyncClient, cell: RedisCell) -> None:
    """An intended dry run of a route that has none is refused, and so is each misspelt word."""
    before, tried = cell.counters()["version"], 0
    paths = (await http.get("/v1/openapi.json")).json()["paths"]
    for path, methods in paths.items():
        for method, said in methods.items() if path.startswith("/v1/") else ():
            known = {each["name"] for each in said.get("parameters", ()) if each["in"] == "query"}
            for word in {"dry_run", "dryrun", "stat"} - known:
                at = re.sub(r"\{\w+\}", "x", path)
                answer = await http.request(method, f"{at}?{word}=true", content=b"{}")
                tried += 1
                assert answer.status_code == 422, (method, path, word, answer.text)
                assert f"query '{word}': unknown; allowed: " in answer.json()["detail"], (method, path, word)
    assert tried > 100
    assert cell.counters()["version"] == before

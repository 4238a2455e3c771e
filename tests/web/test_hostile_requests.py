"""Pages with any query, path and form: an answer that is no failure of the server, and no markup of others."""

import re
from collections.abc import Iterator
from importlib import import_module
from random import Random

import httpx
import pytest
from fastapi.routing import APIRoute

from omega.web.app import ROUTERS
from tests.browser.conftest import console, demo
from tests.web.serving import Console

__all__ = ["console", "demo"]

MARK = "<script>alert(1)</script>"
VALUES = [
    "", "0", "-1", "9" * 40, "NaN", "1e999", "\x00", "\u202e", MARK, "'\"><img src=x>", "../../etc/passwd", "%2e%2e%2f",
    "a" * 3_000, "any", "a,b", "{{7*7}}", "crawl", "node-00007", "-submitted", "1-x", "*", "\r\nSet-Cookie: a=b",
    "running", "cpu", "no such thing", "é", "١٢", "true", "[]", "{}", "zone ==", "zone == 'z1'", "reports", "batch/0",
]  # fmt: skip
"""What somebody may write into an address or a form."""
FIELDS = [
    "text", "step", "job", "jobs", "hold", "count", "weight", "state", "name", "limit", "reason", "guarantee", "group",
    "change", "action", "machine", "machines", "deadline", "parent", "version", "check", "confirm", "remove",
]  # fmt: skip
"""Names of fields of forms."""
PARAMETERS = [
    "color", "group", "state", "level", "block", "after", "value", "why", "machine", "action", "count", "weight",
    "task", "stream", "generation", "rows", "lines", "which", "name", "kind", "user", "pool", "reason", "sort",
    "cursor", "check",
]  # fmt: skip
"""Names of parameters of addresses that the routes do not declare."""
KNOWN = {"job": ["crawl", "train", "starved", "hostile", "broken"], "name": ["node-00007", "node-00149", "away-0"]}
"""Jobs and machines of the cell."""
SAMPLES = 10
"""Requests of each route."""


def routes(methods: set[str]) -> list[APIRoute]:
    """Return the routes of the console with one of these methods, streams apart."""
    every = [route for name in ROUTERS for route in import_module(name).router.routes]
    found = [route for route in every if isinstance(route, APIRoute) and route.path.startswith("/cells/")]
    return [route for route in found if (route.methods or set()) & methods and not route.path.endswith("/live")]


@pytest.fixture(scope="module")
def client(console: Console) -> Iterator[httpx.Client]:
    """A client with the session of an operator."""
    with httpx.Client(base_url=console.origin, timeout=30, follow_redirects=False) as client:
        client.get(console.login("operator"))
        yield client


@pytest.mark.chaos
def test_addresses_with_anything_in_them(client: httpx.Client, console: Console) -> None:
    random, seen = Random("addresses"), set()
    for route in routes({"GET"}):
        names = [each.alias for each in route.dependant.query_params] + PARAMETERS
        for _ in range(SAMPLES):
            query = {name: random.choice(VALUES) for name in random.sample(names, 5)}
            answer = client.get(path(route, console, random), params=query)
            seen.add(answer.status_code)
            assert answer.status_code < 500, f"{answer.request.url}\n{answer.text[:2_000]}"
            assert MARK not in answer.text, answer.request.url
    assert {200, 404} <= seen


def test_forms_with_anything_in_them(client: httpx.Client, console: Console) -> None:
    random, seen = Random("forms"), set()
    page = client.get(f"/cells/{console.cell}/plan").text
    csrf = re.search(r'name="csrf" value="([^"]*)"', page)
    assert csrf
    fields = [
        "text",
        "step",
        "job",
        "hold",
        "count",
        "weight",
        "state",
        "name",
        "limit",
        "reason",
        "guarantee",
        "group",
    ]
    for route in routes({"POST"}):
        for _ in range(SAMPLES):
            form = {name: random.choice(VALUES) for name in random.sample(fields, 5)}
            answer = client.post(
                path(route, console, random), data={**form, "csrf": csrf[1]}, headers={"Origin": console.origin}
            )
            seen.add(answer.status_code)
            assert answer.status_code < 500, f"{route.path} {form}\n{answer.text[:2_000]}"
            assert MARK not in answer.text, route.path
    assert 303 in seen


def test_a_form_without_its_token_changes_nothing(client: httpx.Client, console: Console) -> None:
    for route in routes({"POST"}):
        for form in ({}, {"csrf": ""}, {"csrf": "x" * 64}):
            answer = client.post(path(route, console, Random(0)), data=form, headers={"Origin": console.origin})
            assert answer.status_code == 403, route.path


def path(route: APIRoute, console: Console, random: Random) -> str:
    """Return a path of a route, in the cell of the console seven times of eight."""

    def value(match: "re.Match[str]") -> str:
        name = match[1].partition(":")[0]
        if name in ("cell", "name") and match.start() <= len("/cells/"):
            return console.cell if random.random() < 7 / 8 else "nowhere"
        known = KNOWN.get(name, [])
        text = random.choice(known if known and random.random() < 3 / 4 else [each for each in VALUES if each])
        return "".join(f"%{byte:02x}" for byte in text[:200].encode())

    return re.sub(r"\{([^}]*)\}", value, route.path)

"""The stream of pages, their updates, and the pace of these."""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from omega.web.console import live
from omega.web.console.live import FASTEST, OF_A_REQUEST, SHARE, SLOWEST, Pace
from omega.web.console.render import Part, Rendered, fingerprint
from tests.web.fake_mirrors import FakeMirrors, served
from tests.web.serving_app import client
from tests.web.test_streams import Events


class Stand:
    def __init__(self, app: FastAPI, mirrors: FakeMirrors, web: httpx.Client) -> None:
        self.app, self.mirrors, self.web, self.text = app, mirrors, web, "old"
        app.add_api_route("/cells/main/page", self._page)

    async def _page(self, request: Request) -> Response:
        def render(_: Mapping[str, Any]) -> Rendered:
            part = Part(fingerprint(self.text), self.text)
            return Rendered(f"<main>{self.text}</main>", {"list": part})

        answer: Response = await self.app.state.pages.respond(request, self.mirrors.mirror, render)
        return answer

    def update(self, parts: str, path: str = "/cells/main/page") -> Any:
        return self.web.get(path, headers={"Omega-Parts": parts}).json()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with served(tmp_path) as (app, mirrors, path), client(path) as web:
        yield Stand(app, mirrors, web)


def test_the_stream_names_the_topics_that_changed(stand: Stand) -> None:
    with stand.web.stream("GET", "/cells/main/live") as answer:
        events = Events(answer)
        next(events._lines)
        stand.mirrors.mirror.push(1, "jobs")
        assert events.next() == ("message", "", {"index": "11-aa", "at_ms": 1_000, "topics": ["events", "jobs"]})


def test_the_stream_says_when_the_store_is_away_and_back(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STANDING_SECONDS", 0.05)
    with stand.web.stream("GET", "/cells/main/live") as answer:
        events = Events(answer)
        next(events._lines)
        for error in ("no answer", ""):
            stand.mirrors.mirror.unavailable = error
            assert events.next()[2]["topics"] == ["store"]


def test_a_failover_changes_all_topics(stand: Stand) -> None:
    with stand.web.stream("GET", "/cells/main/live") as answer:
        events = Events(answer)
        next(events._lines)
        stand.mirrors.mirror.cut(9, "bb")
        assert set(events.next()[2]["topics"]) == live.TOPICS


def test_an_update_has_what_changed_and_names_what_is_gone(stand: Stand) -> None:
    old, new = fingerprint("old"), fingerprint("new")
    assert stand.update(f"list={old},other=x") == {"at_ms": 1_000, "parts": {}, "more": [], "gone": ["other"]}
    stand.text = "new"
    stand.mirrors.mirror.push(1)
    assert stand.update(f"list={old}")["parts"] == {"list": {"hash": new, "html": "new"}}


def test_equal_pages_are_rendered_once_for_each_reading(stand: Stand) -> None:
    for _ in range(5):
        stand.update("list=x")
        stand.update("list=y")
    assert stand.app.state.pages.rendered == 1
    stand.mirrors.mirror.push(1)
    stand.update("list=x")
    stand.update("list=x", "/cells/main/page?user=ada")
    assert stand.app.state.pages.rendered == 3


def test_updates_are_compressed_for_those_who_take_that(stand: Stand) -> None:
    headers = {"Omega-Parts": "list=x", "Accept-Encoding": "gzip"}
    with stand.web.stream("GET", "/cells/main/page", headers=headers) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert json.loads(gzip.decompress(b"".join(answer.iter_raw())))["parts"]["list"]["html"] == "old"
    answer = stand.web.get("/cells/main/page", headers={"Omega-Parts": "list=x", "Accept-Encoding": "identity"})
    assert "Content-Encoding" not in answer.headers
    assert float(answer.headers["Omega-Pace"]) >= FASTEST


@pytest.mark.parametrize("asked", ["", "=", ",,,", "list", "<b>=1", "x" * 5_000])
def test_a_header_of_nonsense_is_answered(stand: Stand, asked: str) -> None:
    assert stand.web.get("/cells/main/page", headers={"Omega-Parts": asked}).status_code == 200


@pytest.mark.parametrize(("browsers", "cost"), [(1, 0.005), (200, 0.005), (200, 0.02), (2_000, 0.05)])
def test_the_pace_lets_all_updates_take_a_share_of_a_core(browsers: int, cost: float) -> None:
    pace, due, now = Pace(), [0.0] * browsers, 0.0
    for _ in range(60_000 if browsers > 1_000 else 8_000):
        first = min(range(browsers), key=due.__getitem__) if browsers <= 200 else _ % browsers
        now = max(now, due[first])
        pace.spent(now, cost)
        due[first] = now + pace.seconds
    wanted = browsers * cost / SHARE
    assert pace.seconds == pytest.approx(min(SLOWEST, max(FASTEST, wanted)), rel=0.1)
    assert OF_A_REQUEST > 0

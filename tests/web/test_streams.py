"""Streams of events: ids, resumption, resets, slow readers, and the last event of each end."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from omega.web import sse
from omega.web.api import streams
from tests.web.fake_mirrors import FakeMirrors, served
from tests.web.serving_app import client
from tests.web.visiting import HOST, headers


class Events:
    """The events of a stream, as a browser reads them."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.iter_lines()
        self.last_id = ""

    def __iter__(self) -> Iterator[tuple[str, str, Any]]:
        name, data = "message", ""
        for line in self._lines:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
            elif field == "id":
                self.last_id = value
            elif not line and data:
                yield name, self.last_id, json.loads(data)
                name, data = "message", ""

    def next(self) -> tuple[str, str, Any]:
        return next(iter(self))


@pytest.fixture
def fake(tmp_path: Any) -> Iterator[tuple[Any, FakeMirrors, httpx.Client]]:
    with served(tmp_path) as (app, mirrors, path), client(path) as web:
        yield app, mirrors, web


def test_events_have_ids_and_a_reader_resumes_with_the_last_one(fake: Any) -> None:
    _, mirrors, web = fake
    with web.stream("GET", "/v1/events", params={"after": "10-aa"}) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        events = Events(answer)
        mirrors.mirror.push(3)
        found = [events.next() for _ in range(3)]
    assert [(name, id, data["version"]) for name, id, data in found] == [
        ("message", "11-aa", 11), ("message", "12-aa", 12), ("message", "13-aa", 13)
    ]  # fmt: skip
    assert found[0][2]["text"] == "é\n" * 20
    mirrors.mirror.push(1)
    with web.stream("GET", "/v1/events", headers={"Last-Event-ID": "12-aa"}) as answer:
        events = Events(answer)
        assert [events.next()[2]["version"] for _ in range(2)] == [13, 14]


def test_a_stream_without_an_index_begins_now_and_filters(fake: Any) -> None:
    _, mirrors, web = fake
    mirrors.mirror.push(2)
    with web.stream("GET", "/v1/events", params={"kind": "place", "job": "other"}) as answer:
        events = Events(answer)
        mirrors.mirror.push(50, kind="place")
        mirrors.mirror.push(1, kind="submit", job="other")
        mirrors.mirror.push(1, kind="place", job="other")
        name, id, data = events.next()
    assert (name, id, data["kind"], data["job"]) == ("message", "64-aa", "place", "other")


@pytest.mark.parametrize("after", ["7-gone", "99-aa"])
def test_an_unknown_index_is_answered_with_a_reset(fake: Any, after: str) -> None:
    _, mirrors, web = fake
    with web.stream("GET", "/v1/events", headers={"Last-Event-ID": after}) as answer:
        events = Events(answer)
        name, id, data = events.next()
        assert (name, id, data["after"], data["index"]) == ("reset", "10-aa", after, "10-aa")
        mirrors.mirror.push(1)
        assert events.next()[1] == "11-aa"


def test_trimmed_versions_are_a_reset(fake: Any) -> None:
    _, mirrors, web = fake
    mirrors.mirror.push(200)
    with web.stream("GET", "/v1/events", params={"after": "10-aa"}) as answer:
        name, id, data = Events(answer).next()
    assert (name, id) == ("reset", "210-aa")
    assert "no events of versions 11 to 110" in data["detail"]


def test_a_failover_that_loses_versions_is_a_reset_on_an_open_stream(fake: Any) -> None:
    _, mirrors, web = fake
    with web.stream("GET", "/v1/events") as answer:
        events = Events(answer)
        mirrors.mirror.push(2)
        assert [events.next()[1] for _ in range(2)] == ["11-aa", "12-aa"]
        mirrors.mirror.cut(11, "bb")
        assert events.next()[:2] == ("reset", "11-bb")
        mirrors.mirror.push(1)
        assert events.next()[:2] == ("message", "12-bb")


@pytest.mark.parametrize("sent", [{"Last-Event-ID": "nonsense"}, {"Last-Event-ID": "-1-aa"}])
def test_an_index_of_nonsense_is_refused(fake: Any, sent: Any) -> None:
    answer = fake[2].get("/v1/events", headers=sent)
    assert (answer.status_code, "is none" in answer.json()["detail"]) == (422, True)


def test_unknown_cells_and_kinds_are_refused_before_the_stream_begins(fake: Any) -> None:
    assert fake[2].get("/v1/events?cell=other").status_code == 404
    assert "kind 'party'" in fake[2].get("/v1/events?kind=party").json()["detail"]


def test_a_deleted_cell_ends_its_streams(fake: Any) -> None:
    _, mirrors, web = fake
    with web.stream("GET", "/v1/events") as answer:
        mirrors.gone = True
        name, _, data = Events(answer).next()
    assert (name, data["again"], data["detail"]) == ("end", False, "cell main: was deleted")


def test_the_end_of_the_server_ends_streams_with_a_last_event(fake: Any) -> None:
    app, _, web = fake
    with web.stream("GET", "/v1/events") as answer:
        events = Events(answer)
        app.state.streams.close()
        name, _, data = events.next()
        assert (name, data["reason"], data["again"]) == ("end", "closing", True)
        assert list(events) == []
    assert app.state.streams.number == 0


def test_a_reader_that_leaves_frees_its_stream(fake: Any) -> None:
    app, _, web = fake
    with web.stream("GET", "/v1/events"):
        assert app.state.streams.number == 1
    deadline = time.monotonic() + 5
    while app.state.streams.number and time.monotonic() < deadline:
        time.sleep(0.01)
    assert app.state.streams.number == 0


def _open_slow(path: str) -> socket.socket:
    reader = socket.socket(socket.AF_UNIX)
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(path)
    token = headers()["Authorization"]
    reader.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {token}\r\n\r\n".encode())
    return reader


@pytest.mark.chaos
def test_a_slow_reader_is_dropped_with_a_last_event(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SLOW_SECONDS", 0.3)
    monkeypatch.setattr(streams, "MOST_AT_ONCE", 50)
    with served(tmp_path) as (app, mirrors, path):
        reader = _open_slow(path)
        deadline = time.monotonic() + 10
        while not app.state.streams.number and time.monotonic() < deadline:
            time.sleep(0.01)
        for _ in range(400):  # more than the buffers of both sides hold
            mirrors.mirror.push(50)
            time.sleep(0.01)
        reader.settimeout(10)
        data = b""
        while piece := reader.recv(1 << 16):
            data += piece
            if b"event: end" in data and data.endswith(b"0\r\n\r\n"):
                break
        reader.close()
    last = data[data.rindex(b"event: end") :].decode()
    assert json.loads(last.split("data: ")[1].split("\n")[0])["reason"] == "slow"
    assert len(data) < 4 << 20


def test_a_reader_that_falls_behind_the_kept_events_is_dropped(tmp_path: Any) -> None:
    with served(tmp_path) as (_, mirrors, path), client(path) as web, web.stream("GET", "/v1/events") as answer:
        events = Events(answer)
        mirrors.mirror.push(1)
        events.next()
        with mirrors.mirror.lock:  # a reading of more than is kept
            mirrors.mirror.push(150)
        name, id, data = events.next()
    assert (name, id, data["reason"], data["again"]) == ("end", "11-aa", "slow", True)

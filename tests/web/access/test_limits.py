"""Limits of a request: sizes, times, and how many streams and long polls a token may have."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.types import Message

from omega.web.access import exchange as limits, gate, open_streams
from omega.web.access.admissions import Access
from omega.web.access.open_streams import OpenByToken
from omega.web.access.roles import Role, Visitor
from omega.web.access.tokens import Tokens, append_line, token_line, write_private
from omega.web.access.visitors import Admission
from tests.web.access.probe import client, exchange, probe, scope_of
from tests.web.visiting import headers, token_of, tokens

pytestmark = pytest.mark.anyio
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def chunks(count: int, size: int) -> Any:
    return tuple({"type": "http.request", "body": b"x" * size, "more_body": True} for _ in range(count))


async def test_a_body_of_more_than_8_mib_is_refused_before_it_is_read() -> None:
    async with client(sent=headers("operator")) as it:
        answer = await it.post("/v1/jobs", content=b"x" * (8 << 20))
        assert answer.json()["size"] == 8 << 20
        answer = await it.post("/v1/jobs", content=b"x" * ((8 << 20) + 1))
    assert (answer.status_code, answer.json()["detail"]) == (413, "the body is larger than 8 MiB; send it in parts")


async def test_a_chunked_body_is_counted_as_it_arrives() -> None:
    sent = await exchange(probe(Access(tokens())), "POST", "/v1/jobs", headers("operator"), chunks(9, 1 << 20))
    assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 413


async def test_a_chunked_form_is_counted_too() -> None:
    access = Access(tokens())
    async with client(access) as it:
        await it.get(f"/?token={token_of('operator')}")
        cookie = "; ".join(f"{name}={value}" for name, value in it.cookies.items())
    sent = await exchange(probe(access), "POST", "/cells/a/jobs", {"Cookie": cookie, **FORM}, chunks(9, 1 << 20))
    assert sent[0]["status"] == 413


async def test_a_body_that_stops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.05)
    sent = list[Message]()

    async def receive() -> Message:
        await anyio.sleep(0.03)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    with anyio.fail_after(5):
        await probe(Access(tokens()))(scope_of("POST", "/v1/jobs", headers("operator")), receive, send)
    assert sent[0]["status"] == 408
    assert "within 0.05 s" in json.loads(sent[1]["body"])["detail"]


async def test_a_websocket_is_not_answered() -> None:
    called = list[Message]()

    async def send(message: Message) -> None:
        called.append(message)

    async def receive() -> Message:
        raise AssertionError

    await probe(Access(tokens()))({"type": "websocket"}, receive, send)
    assert called == []


async def test_long_polls_of_one_token_are_bounded_and_others_are_not_affected() -> None:
    access, waiting = Access(tokens(), streams=OpenByToken(2)), anyio.Event()
    app = probe(access)
    statuses: dict[Role, list[int]] = {"submitter": [], "operator": []}

    async def receive() -> Message:
        await waiting.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def poll(role: Role) -> None:
        async def send(message: Message) -> None:
            statuses[role] += [message["status"]] if "status" in message else []

        await app(scope_of("POST", "/v1/jobs?wait=30s", headers(role)), receive, send)

    roles: tuple[Role, ...] = ("submitter", "submitter", "operator", "submitter", "submitter")
    async with anyio.create_task_group() as group:
        for role in roles:
            group.start_soon(poll, role)
            await anyio.wait_all_tasks_blocked()
        assert statuses == {"submitter": [429, 429], "operator": []}
        waiting.set()
    assert statuses == {"submitter": [429, 429, 200, 200], "operator": [200]}
    assert not access.streams._open
    assert not access.streams._numbers


async def test_an_answer_that_does_not_begin_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "ANSWER_SECONDS", 0.1)
    async with client(sent=headers("reader")) as it:
        answer = await it.get("/v1/slow")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "no answer within 0.1 s" in answer.json()["detail"]
        assert (await it.get("/v1/slow?wait=1s")).status_code == 200, "a long poll may wait"


async def test_a_long_poll_ends_when_its_token_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_streams, "SWEEP_SECONDS", 0.05)
    file = tmp_path / "tokens"
    append_line(file, token_line("one", "ada", "reader"))
    access = Access(Tokens(file))
    async with anyio.create_task_group() as group:
        group.start_soon(access.streams.sweep)
        async with client(access, sent={"Authorization": "Bearer one"}) as it:

            async def revoke() -> None:
                await anyio.sleep(0.1)
                write_private(file, "")

            group.start_soon(revoke)
            with anyio.fail_after(10):
                answer = await it.get("/v1/slow?wait=60s&seconds=60")
        group.cancel_scope.cancel()
    assert answer.status_code == 401
    assert "was revoked" in answer.json()["detail"]


async def test_one_stream_that_cannot_be_ended_keeps_no_other_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_streams, "SWEEP_SECONDS", 0.01)
    streams, ended = OpenByToken(), list[str]()
    revoked = Admission(Visitor("ada", "reader"), "k", "", lambda: None)

    class Broken:
        admission: Admission | None = revoked

        async def revoke(self, why: str) -> None:
            raise OSError

    class Fine(Broken):
        async def revoke(self, why: str) -> None:
            ended.append(why)
            streams.end(self)

    for each in (Broken(), Fine(), Broken(), Fine()):
        assert streams.begin(each)
    with anyio.move_on_after(0.3):
        await streams.sweep()
    assert len(ended) == 2


async def test_a_body_whose_length_is_too_large_is_not_read() -> None:
    sent = list[Message]()

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    said = headers("operator") | {"Content-Length": str((8 << 20) + 1)}
    await probe(Access(tokens()))(scope_of("POST", "/v1/jobs", said), receive, send)
    assert sent[0]["status"] == 413

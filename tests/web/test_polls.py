"""Long polls: answers that wait for a change, and never hold a thread."""

import time
from collections.abc import Iterator
from threading import Thread, active_count
from typing import Any

import httpx
import pytest

from tests.web.fake_mirrors import FakeMirrors, served
from tests.web.serving_app import client


@pytest.fixture
def fake(tmp_path: Any) -> Iterator[tuple[FakeMirrors, httpx.Client]]:
    with served(tmp_path) as (_, mirrors, path), client(path) as web:
        yield mirrors, web


def _answer_after(
    mirrors: FakeMirrors, web: httpx.Client, path: str, *pushes: tuple[str, ...]
) -> tuple[httpx.Response, int]:
    """Return the answer to a poll, and how many readings it took."""
    answers: list[httpx.Response] = []
    thread = Thread(target=lambda: answers.append(web.get(path)))
    thread.start()
    for number, topics in enumerate(pushes, 1):
        time.sleep(0.3)
        if answers:
            return answers[0], number - 1
        mirrors.mirror.push(1, *topics)
    thread.join(20)
    return answers[0], len(pushes)


def test_a_poll_returns_when_its_resource_changed(fake: Any) -> None:
    mirrors, web = fake
    answer, readings = _answer_after(mirrors, web, "/v1/jobs?index=10-aa&wait=20s", ("machines",), ("jobs",))
    assert (answer.status_code, answer.headers["Omega-Index"], readings) == (200, "12-aa", 2)


def test_a_poll_for_what_changed_already_returns_at_once(fake: Any) -> None:
    mirrors, web = fake
    mirrors.mirror.push(1, "jobs")
    assert web.get("/v1/jobs?index=10-aa&wait=20s").headers["Omega-Index"] == "11-aa"


def test_a_poll_returns_what_there_is_when_its_time_is_over(fake: Any) -> None:
    began = time.monotonic()
    answer = fake[1].get("/v1/jobs?index=10-aa&wait=500ms")
    assert (answer.status_code, answer.headers["Omega-Index"]) == (200, "10-aa")
    assert 0.4 < time.monotonic() - began < 10


@pytest.mark.parametrize("index", ["7-gone", "99-aa"])
def test_an_index_that_the_store_lost_is_gone(fake: Any, index: str) -> None:
    answer = fake[1].get(f"/v1/jobs?index={index}&wait=20s")
    assert (answer.status_code, "read the resource again" in answer.json()["detail"]) == (410, True)


def test_a_failover_that_takes_versions_back_ends_a_poll(fake: Any) -> None:
    mirrors, web = fake
    answers: list[httpx.Response] = []
    thread = Thread(target=lambda: answers.append(web.get("/v1/jobs?index=10-aa&wait=20s")))
    thread.start()
    time.sleep(0.3)
    mirrors.mirror.cut(9, "bb")
    thread.join(20)
    assert answers[0].status_code == 410


@pytest.mark.parametrize(
    ("query", "text"),
    [("index=soon", "is none"), ("index=1-a&wait=soon", "is not a duration"), ("wait=1h", "at most 5m")],
)
def test_bad_polls_are_refused(fake: Any, query: str, text: str) -> None:
    answer = fake[1].get(f"/v1/jobs?{query}")
    assert (answer.status_code, text in answer.json()["detail"]) == (422, True)


@pytest.mark.chaos
def test_polls_that_wait_hold_no_threads_and_end_with_their_clients(fake: Any) -> None:
    mirrors, web = fake
    before = active_count()
    polls = [Thread(target=_give_up, args=(web,)) for _ in range(30)]
    for poll in polls:
        poll.start()
    deadline = time.monotonic() + 10
    while mirrors.waiting < 30 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert mirrors.waiting == 30
    assert active_count() - before <= 30 + 2  # those of the clients
    for poll in polls:
        poll.join(30)
    deadline = time.monotonic() + 10
    while mirrors.waiting and time.monotonic() < deadline:
        time.sleep(0.05)
    assert mirrors.waiting == 0


def _give_up(web: httpx.Client) -> None:
    with pytest.raises(httpx.ReadTimeout):
        web.get("/v1/jobs?index=10-aa&wait=1m", timeout=12)

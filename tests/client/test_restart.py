"""A store that is restarted while clients follow events and wait for jobs."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from omega.cellstate.errors import Unreachable
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.client.asynchronous import AsyncClient
from omega.client.client import Client
from tests.integration.stage import Server, own_server, until

JOB = {"name": "a", "tasks": [{"duration": "1s"}]}


@pytest.fixture
def server() -> Iterator[Server]:
    """A store of the test's own that keeps what it acknowledged."""
    with own_server("--appendonly", "yes", "--appendfsync", "always") as store:
        RedisCell.create(connect(store.url), "c", url=store.url).close()
        yield store


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Unreachable as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def test_events_and_waits_go_on_after_a_restart(server: Server) -> None:
    with Client(server.url, "c") as client:
        client.submit(JOB)
        kinds = list[str]()

        def follow() -> None:
            for event in client.events(after=0, follow=True):
                kinds.append(event["kind"])
                if event["kind"] == "stop":
                    return

        async def alike() -> list[Any]:
            seen = list[str]()
            async with AsyncClient(server.url, "c") as cell:
                async for event in cell.events(after=0, follow=True):
                    seen.append(event["kind"])
                    if event["kind"] == "stop":
                        return [seen, (await cell.wait("a"))["state"]]
            return []

        following, _ = in_thread(follow)
        waiting, waited = in_thread(lambda: client.wait("a"))
        beside, seen = in_thread(lambda: anyio.run(alike))
        until(lambda: "submit" in kinds, "the first event is read")
        server.kill()
        time.sleep(0.6)  # reads fail meanwhile
        late, waited_late = in_thread(lambda: client.wait("a"))  # begins while the store is away
        server.start()
        with Client(server.url, "c") as other:
            other.stop("a")
        for thread in (following, waiting, beside, late):
            thread.join(20)
        assert kinds.count("submit") == kinds.count("stop") == 1, "no event twice"
        assert [each["state"] for each in (*waited, *waited_late)] == ["stopped", "stopped"]
        assert seen == [[kinds, "stopped"]]


def test_a_restart_is_waited_for_no_longer_than_asked(server: Server) -> None:
    with Client(server.url, "c") as client:
        client.submit(JOB)
        events = client.events(after=0, follow=True, retry=0.2)
        assert next(events)["kind"] == "submit"
        server.kill()
        began = time.monotonic()
        with pytest.raises(Unreachable):
            next(events)
        with pytest.raises(Unreachable):
            client.wait("a", retry=0)
        with pytest.raises(Unreachable):
            client.wait("a", timeout=0.3)
        assert time.monotonic() - began < 30, "less than the default of a minute"
        server.start()
        assert client.wait("a", timeout=0)["timed_out"], "the client works again"

"""`omega.AsyncClient` on asyncio and trio: the same answers, and what is cancelled leaves whole connections."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import signature

import anyio
import pytest

from omega.cellstate.redis import RedisCell
from omega.client.asynchronous import AsyncClient
from omega.client.client import Client
from tests.cli.conftest import Omega, join
from tests.client.test_client import JOB, without_ages

pytestmark = [pytest.mark.server, pytest.mark.anyio]


@asynccontextmanager
async def opened(omega: Omega) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(omega.url, omega.cell, user="ada") as client:
        yield client


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops."""
    return str(request.param)


async def test_answers_are_those_of_the_client(omega: Omega, client: Client, cell: RedisCell) -> None:
    join(cell, 1)
    async with opened(omega) as mine:
        assert (await mine.submit(JOB))["jobs"][0]["status"] == "submitted"
        assert without_ages(await mine.jobs()) == without_ages(client.jobs())
        assert without_ages(await mine.status("crawl")) == without_ages(client.status("crawl"))
        assert without_ages(await mine.why("crawl")) == without_ages(client.why("crawl"))
        assert await mine.machines() == client.machines()
        assert await mine.limits() == client.limits()
        assert await mine.schedulers() == client.schedulers()
        assert without_ages(await mine.cell_status()) == without_ages(client.cell_status())
        assert [event async for event in mine.events()] == list(client.events())
        assert (await mine.wait("crawl", timeout=0))["timed_out"]
        for change in (mine.hold, mine.release, mine.stop):
            assert (await change("crawl"))["jobs"][0]["name"] == "crawl"
        assert (await mine.wait("crawl"))["state"] == "stopped"


async def test_it_has_the_calls_of_the_client_with_their_parameters() -> None:
    calls = {name for name in dir(Client) if not name.startswith("_")} - {
        "as_user",
        "unreadable",
        "begin_events",
        "submit_together",
        "status_and_tasks",
    }
    assert calls | {"user"} == {name for name in vars(AsyncClient) if not name.startswith("_")}
    for name in calls - {"close", "dry_run", "events"}:
        assert signature(getattr(AsyncClient, name)) == signature(getattr(Client, name)), name


async def test_many_calls_at_once(omega: Omega) -> None:
    async with opened(omega) as mine:
        async with anyio.create_task_group() as group:
            for i in range(20):
                group.start_soon(mine.submit, {**JOB, "name": f"job{i}"})
        assert (await mine.jobs())["total"] == 20


async def test_what_is_cancelled_leaves_whole_connections(omega: Omega, cell: RedisCell) -> None:
    async with opened(omega) as mine:
        await mine.submit({**JOB, "name": "first"})
        cell.client.client_pause(300)
        began = time.monotonic()
        with anyio.move_on_after(0.05) as scope:
            await mine.status("first")
        assert scope.cancelled_caught
        assert time.monotonic() - began < 0.25, "a call that reads ends at once"
        for _ in range(3):
            assert (await mine.status("first"))["name"] == "first"
            assert (await mine.limits())["limits"] == {}


async def test_a_change_that_is_cancelled_ends_as_a_whole(omega: Omega, cell: RedisCell) -> None:
    async with opened(omega) as mine:
        await mine.jobs()
        cell.client.client_pause(200)
        with anyio.move_on_after(0.05):
            await mine.submit({**JOB, "name": "whole"})
        assert [job["name"] for job in (await mine.jobs())["jobs"]] == ["whole"]


async def test_waiting_and_following_end_when_cancelled(omega: Omega) -> None:
    async with opened(omega) as mine:
        await mine.submit(JOB)
        with anyio.move_on_after(0.1) as scope:
            await mine.wait("crawl")
        assert scope.cancelled_caught
        with anyio.move_on_after(0.1) as scope:
            async for _ in mine.events(follow=True):
                pass
        assert scope.cancelled_caught
        assert (await mine.status("crawl"))["state"] == "pending"

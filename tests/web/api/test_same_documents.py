"""The body of each answer is the document that the command prints with --json."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, join, scheduler

pytestmark = [pytest.mark.server, pytest.mark.anyio]
MOVING = {
    "age_seconds",
    "elapsed_ms",
    "at_ms",
    "busy_ms",
    "heartbeat_at_ms",
    "seconds",
    "ago",
    "busyness",
    "last_cycle",
    "recent",
}
"""Fields that differ between two readings of a cell in which nothing changes."""


def still(value: Any) -> Any:
    """Return a document without the fields that move."""
    if isinstance(value, dict):
        return {name: still(each) for name, each in value.items() if name not in MOVING}
    return [still(each) for each in value] if isinstance(value, list) else value


def differences(body: Any, printed: Any, at: str = "") -> Iterator[str]:
    """Yield the places where two documents differ."""
    if isinstance(body, dict) and isinstance(printed, dict):
        for name in sorted({*body, *printed}):
            yield from differences(body.get(name, "absent"), printed.get(name, "absent"), f"{at}.{name}")
    elif isinstance(body, list) and isinstance(printed, list) and len(body) == len(printed):
        for number, pair in enumerate(zip(body, printed, strict=True)):
            yield from differences(*pair, f"{at}[{number}]")
    elif body != printed:
        yield f"{at}: {body!r} != {printed!r}"


JOB = {"name": "web", "kind": "service", "tasks": [{"name": "a", "count": 3, "resources": {"cpu": 1}}]}
ALIKE = (
    ("/v1/jobs", "job list --limit 50"),
    ("/v1/jobs?limit=1", "job list --limit 1"),
    ("/v1/jobs?limit=1&cursor=2", "job list --limit 1 --before 2"),
    ("/v1/jobs?state=pending&kind=batch", "job list --state pending --kind batch --limit 50"),
    ("/v1/jobs?user=ada", "job list --user ada --limit 50"),
    ("/v1/jobs?fields=id,name,counts.total", "job list --limit 50 -o id,name,counts.total"),
    ("/v1/jobs/crawl", "job status crawl"),
    ("/v1/jobs/crawl/why", "job why crawl"),
    ("/v1/jobs/web/why", "job why web"),
    ("/v1/jobs/crawl/why?machine=m1", "job why crawl --machine m1"),
    ("/v1/jobs/web/tasks", "job tasks web"),
    ("/v1/jobs/web/tasks?state=running&limit=1", "job tasks web --state running --limit 1"),
    ("/v1/jobs/web/history", "job history web"),
    ("/v1/jobs/web/logs?task=1&stream=stderr", "job logs web --task 1 --stderr"),
    ("/v1/machines", "machine list --limit 50"),
    ("/v1/machines?limit=2&after=0", "machine list --limit 2 --after 0"),
    ("/v1/machines?state=up", "machine list --state up"),
    ("/v1/machines?fields=name,capacity.cpu", "machine list -o name,capacity.cpu"),
    ("/v1/machines/m0", "machine status m0"),
    ("/v1/machines/m0?verbose=true", "machine status m0 --verbose"),
    ("/v1/schedulers", "scheduler list"),
    ("/v1/schedulers?all=true", "scheduler list --all"),
    ("/v1/schedulers/service", "scheduler status service"),
    ("/v1/schedulers/service/0", "scheduler status service/0"),
    ("/v1/pools", "pool list"),
    ("/v1/pools/team", "pool show team"),
    ("/v1/pool-file", "pool export"),
    ("/v1/cell", "cell status"),
    ("/v1/limits", "cell limits"),
    ("/v1/limits/batch", "cell limits batch"),
    ("/v1/usage", "usage"),
    ("/v1/usage?by=pool", "usage --by pool"),
    ("/v1/events/list", "events"),
    ("/v1/events/list?since=2&limit=3", "events --since 2 --limit 3"),
    ("/v1/events/list?kind=submit&job=web", "events --kind submit --job web"),
)
"""URLs and the commands that print the same."""


async def post(http: httpx.AsyncClient, url: str, body: Any, status: int = 201) -> Any:
    """Send a body, and return the document of the answer."""
    answer = await http.post(url, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `what` holds; the mirrors read meanwhile."""
    with anyio.fail_after(30):
        while not await what():  # noqa: ASYNC110 - of another process
            await anyio.sleep(0.05)


async def settled(omega: Omega, http: httpx.AsyncClient) -> None:
    """Wait until the job web runs, and the mirror has all that happened."""

    async def runs() -> bool:
        return bool((await http.get("/v1/jobs/web")).json()["state"] == "running")

    await until(runs)
    version = omega.json("cell", "status")["version"]

    async def mirrored() -> bool:
        return bool((await http.get("/v1/cell")).json()["version"] >= version)

    await until(mirrored)


async def test_reads(omega: Omega, cell: RedisCell, http: httpx.AsyncClient) -> None:
    join(cell, 3)
    omega.run("pool", "set", "team", "--weight", "2", "--limit", "cpu=2")
    omega.run("cell", "limits", "batch", "--jobs", "7")
    with scheduler(cell, "service/0"):
        await post(http, "/v1/jobs", JOB)
        await post(http, "/v1/jobs", {"name": "crawl", "tasks": [{"resources": {"cpu": 99}}]})
        await settled(omega, http)
        await compare(omega, http)


async def compare(omega: Omega, http: httpx.AsyncClient) -> None:
    for url, command in ALIKE:
        answer = await http.get(url)
        assert answer.status_code == 200, (url, answer.text)
        printed = omega.json(*command.split())
        assert list(differences(still(answer.json()), still(printed))) == [], url
        assert list(answer.json()) == list(printed), url

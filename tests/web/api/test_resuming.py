"""Readers that come back to a server which has forgotten them, on a real store."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.web.service import Service
from tests.integration.stage import made_cell
from tests.web.serving_app import client, serve
from tests.web.test_streams import Events

pytestmark = pytest.mark.server


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    with made_cell(store_url, f"resuming-{uuid4().hex[:8]}") as made:
        yield made


def _submit(cell: RedisCell, name: str) -> None:
    cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((100, 64), 1),))], 0, "ada")


def test_streams_and_polls_resume_after_a_restart_of_the_server(cell: RedisCell, tmp_path: Path) -> None:
    service = Service(cell.url, cell.name)
    with serve(service, tmp_path) as (_, path), client(path) as web, web.stream("GET", "/v1/events") as answer:
        events = Events(answer)
        _submit(cell, "one")
        name, last, data = events.next()
        index = web.get("/v1/jobs").headers["Omega-Index"]
        assert (name, data["kind"], data["job"]) == ("message", "submit", "one")
    _submit(cell, "two")
    with serve(Service(cell.url, cell.name), tmp_path) as (_, path), client(path) as web:
        found = web.get("/v1/jobs", params={"index": index, "wait": "5m"}).json()
        assert [job["id"] for job in found["jobs"]] == ["one", "two"]
        with web.stream("GET", "/v1/events", headers={"Last-Event-ID": last}) as answer:
            name, _, data = Events(answer).next()
            assert (name, data["kind"], data["job"]) == ("message", "submit", "two")


def test_a_job_poll_returns_when_this_job_changed(cell: RedisCell, tmp_path: Path) -> None:
    _submit(cell, "one")
    _submit(cell, "two")
    with serve(Service(cell.url, cell.name), tmp_path) as (_, path), client(path) as web:
        first = web.get("/v1/jobs/one")
        _submit(cell, "three")
        cell.jobs.hold("one", 1, "ada")
        found = web.get("/v1/jobs/one", params={"index": first.headers["Omega-Index"], "wait": "20s"})
        assert (first.json()["held"], found.json()["held"]) == (False, True)
        quiet = web.get("/v1/jobs/two", params={"index": found.headers["Omega-Index"], "wait": "1s"})
        assert quiet.status_code == 200

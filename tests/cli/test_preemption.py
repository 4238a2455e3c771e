"""Who had to go for whom: `omega job status` of both, and `omega events`."""

import time

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, eventually, join, scheduler

pytestmark = pytest.mark.server


def test_both_jobs_tell_of_an_eviction(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    now_ms = int(time.time() * 1000)
    cell.jobs.submit([JobSpec("10a", "low", "batch", (TaskGroup((1_000, 100), 8, 60_000),))], now_ms, "ada")
    with scheduler(cell), scheduler(cell, "service/0"):
        eventually(lambda: omega.json("job", "status", "low")["state"] == "running")
        cell.jobs.submit(
            [JobSpec("ff1", "high", "service", (TaskGroup((2_000, 100), 1, 60_000),), 5, spec={"user": "bob"})],
            now_ms,
            "ada",
        )
        eventually(lambda: omega.json("job", "status", "high")["state"] == "running")
    low, high = omega.json("job", "status", "low"), omega.json("job", "status", "high")
    assert (low["evicted_for"], low["evicted"]) == ({"ff1": 2}, {})
    assert (high["evicted_for"], high["evicted"]) == ({}, {"10a": 2})
    assert "2 tasks for high (ff1)" in omega.text("job", "status", "low")
    assert "2 tasks of low (10a)" in omega.text("job", "status", "high")
    assert "evicted: 2 tasks for high (ff1) of user bob" in omega.text("job", "why", "low")
    assert "2 tasks of low (10a) evicted on m" in omega.text("events", "--kind", "evicted")
    assert " for high (ff1)" in omega.text("events", "--kind", "evicted")


def test_a_policy_that_is_not_there_is_refused_before_anything_starts(omega: Omega) -> None:
    said = omega.error("scheduler", "run", "batch", "--preemption", "precedense")
    assert said == "unknown preemption 'precedense'; did you mean precedence?"

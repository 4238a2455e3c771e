"""Losses of tasks, as commands show them."""

import re

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.cli.conftest import Omega, join
from tests.leases import expire


def place(cell: RedisCell, number: int) -> None:
    """A scheduler places a task of the job on the first machine."""
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    reply = cell.schedulers.commit(CommitRequest(member, number, [Transaction("a", (Claim(0, 0, 1),))], Position(), 0))
    assert reply.outcomes[0].accepted


def test_a_delayed_task_and_one_that_failed(omega: Omega, cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> None:
    join(cell, 1, (2000, 1024))
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((500, 0), 1, budget=1),))], 1, "ada")
    place(cell, 1)
    now = cell.store_ms()
    monkeypatch.setattr(RedisCell, "store_ms", lambda _: now)  # the delay is a second, which commands may take together
    cell.executors.end([TaskEnd(0, 1, EndKind.LOST, "*", "agent")], 2, "e0")
    told = omega.json("job", "why", "a")
    assert (told["reason"], told["state"]) == ("LOST", "pending")
    (loss,) = told["losses"]
    assert 0 < loss.pop("delay_ms") <= 1_000
    assert omega.json("cell", "status")["demand"] == {"tasks": 0, "delayed": 1, "cpu": 0, "memory": 0}
    assert re.search("wanted +1 task later, delayed after a loss", omega.text("cell", "status"))
    named = {"group": 0, "name": "0", "tasks": "0", "task_name": "0[0]", "indices": "0"}
    assert loss == named | {"lost": 1, "failures": 0, "budget": 1}
    assert "tasks 0 of group 0: lost 1 time of at most 1, delayed for" in omega.text("job", "why", "a")
    assert "tasks 0 of group 0: lost 1 time of at most 1" in omega.text("job", "status", "a")
    assert omega.json("job", "status", "a")["losses"][0]["lost"] == 1
    monkeypatch.setattr(RedisCell, "store_ms", lambda _: now + 10_000)
    cell.jobs.housekeep(3, "batch/0")
    place(cell, 2)
    cell.executors.end([TaskEnd(0, 2, EndKind.LOST, "*", "agent")], 4, "e0")
    found = omega.json("job", "status", "a")
    assert (found["state"], found["failures"], found["losses"]) == ("failed", {"lost": 1}, [])
    told = omega.text("events", "--job", "a")
    assert "1 task of a (a) pending again" in told
    assert "1 task of a (a) failed, not placed again: lost" in told


def test_a_task_that_failed_after_its_restarts_is_not_called_lost(omega: Omega, cell: RedisCell) -> None:
    """A service whose health check fails, or whose command exits: it is placed again after a delay."""
    join(cell, 1, (2000, 1024))
    cell.jobs.submit([JobSpec("a", "a", "service", (TaskGroup((500, 0), 1),))], 1, "ada")
    place(cell, 1)
    cell.executors.end([TaskEnd(0, 1, EndKind.RETRIED, "*", "unhealthy")], 2, "e0")
    for told in (omega.json("job", "why", "a"), omega.json("job", "list")["jobs"][0]):
        assert (told["reason"], told["state"]) == ("BACKOFF", "pending")
    assert "lost" not in omega.text("job", "why", "a").lower()
    assert "used up the restarts of a machine 1 time, delayed for" in omega.text("job", "why", "a")


def test_equal_losses_are_one_entry(omega: Omega, cell: RedisCell) -> None:
    """Three tasks are lost in one call each."""
    join(cell, 1, (2000, 1024))
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((500, 0), 3),))], 1, "ada")
    now = cell.store_ms()
    cell.store_ms = lambda: now  # type: ignore[method-assign]
    for number in (1, 2, 3):
        place(cell, number)
        cell.executors.end([TaskEnd(0, number, EndKind.LOST, "*", "agent")], 2, "e0")
    (loss,) = omega.json("job", "status", "a")["losses"]
    assert (loss["tasks"], loss["lost"], 0 < loss["delay_ms"] <= 1_000) == ("0-2", 1, True)
    assert omega.text("job", "why", "a").count("lost 1 time of at most 10") == 1


def test_tasks_of_an_agent_that_leaves_are_not_called_lost(omega: Omega, cell: RedisCell) -> None:
    """One leaves by itself, as after omega down; the lease of the other expires."""
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((500, 0), 2),))], 1, "ada")
    number, member = 0, cell.schedulers.register("batch/0", "n", 60_000, 0)
    for name in ("m0", "m1"):
        agent = cell.executors.register_agent(name, "n", 60_000, 0)
        cell.machines.join(agent.member, [MachineSpec(name, (2000, 1024))], 0)
        claims = (Claim(number, 0, 1),)
        cell.schedulers.commit(CommitRequest(member, number := number + 1, [Transaction("a", claims)], Position(), 0))
        if name == "m1":
            expire(cell, agent.member)
        cell.executors.deregister(agent, 2, agent.member, reaped=name == "m1")
    told = omega.text("events", "--job", "a")
    assert "1 task of a (a) ended on m0: agent left" in told
    assert "1 task of a (a) lost on m1: agent\n" in told

"""Agents as processes beside schedulers: killed, halted, asked to leave. Their tasks run, once at a time."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from omega.cellstate.model import JobSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from tests.integration.stage import check, halt, made_cell, resume, seen, started_processes, submit, until

pytestmark = pytest.mark.server
LEASE_MS = 1_000
"""A scheduler's; an agent's is four times as long."""


@pytest.fixture
def cell(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisCell]:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with made_cell(store_url, f"agents-{uuid4().hex[:8]}") as made:
        yield made


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def lonely(log: Path, job: str = "lonely") -> JobSpec:
    """A job whose task says where it runs, and that it is not alone if so."""
    alone = f"flock -n {log}.lock sh -c 'echo $OMEGA_MACHINE >> {log}; exec sleep 60' || echo double >> {log}"
    extra = {"command": ["sh", "-c", alone], "grace": 100}
    return JobSpec(job, job, "batch", (TaskGroup((100, 64), 1, 0, extra),))


@pytest.mark.chaos
def test_a_task_is_moved_from_halted_and_killed_agents_and_never_runs_twice(
    cell: RedisCell, store_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with started_processes(cell, store_url, tmp_path, "batch/0", "agent/h1", "agent/h2", lease_ms=LEASE_MS) as group:
        submit(cell, [lonely(log)])
        until(lambda: lines(log), "the task runs")
        first = lines(log)[0]
        second = "h2" if first == "h1" else "h1"
        before = cell.executors.agents()[first].incarnation

        # Halted, its agent cannot renew: the task ends by itself in time, then a scheduler notices.
        halt(group, f"agent/{first}")
        until(lambda: len(lines(log)) == 2, "the task runs elsewhere")
        assert {m.name: m.state for m in cell.machines.all()}[first] is MachineState.OFFLINE
        resume(group, f"agent/{first}")
        until(lambda: cell.executors.agents().get(first, (before,))[0] != before, "it takes its name again")
        until(lambda: all(m.state is MachineState.UP for m in cell.machines.all()), "and offers its machine")

        # Killed, it leaves the task to its supervisor.
        group.kill(f"agent/{second}")
        until(lambda: len(lines(log)) == 3, "the task runs where it began")
        assert lines(log) == [first, second, first], "and at no time twice"
        assert [fact.event[1] for fact in seen(cell, "lapse")] == [f"agent/{first}", f"agent/{second}"]
        assert len(seen(cell, "lost")) == 2
        check(cell)
    assert cell.executors.agents() == {}, "the other one left in order"


def test_an_agent_killed_and_started_at_once_keeps_its_tasks(cell: RedisCell, store_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with started_processes(cell, store_url, tmp_path, "batch/0", "agent/h1", lease_ms=5_000) as group:
        submit(cell, [lonely(log)])
        until(lambda: lines(log), "the task runs")
        group.kill("agent/h1")
        group.start("agent/h1")
        run = cell.machines.runs([0])[0]
        cell.executors.end([TaskEnd(0, run.placement, EndKind.STOPPED)], 0, "ada")
        until(lambda: seen(cell, "left"), "it ended the task that another one started")
        assert (lines(log), seen(cell, "lost"), len(seen(cell, "enlist"))) == (["h1"], [], 2)
        check(cell)


@pytest.mark.chaos
def test_what_operators_set_outlives_an_agent_and_removal_ends_it(
    cell: RedisCell, store_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with started_processes(cell, store_url, tmp_path, "batch/0", "agent/h1", lease_ms=LEASE_MS) as group:
        until(cell.executors.agents, "the agent came")
        submit(cell, [lonely(log)])
        until(lambda: lines(log), "the task runs")
        cell.machines.set_state(0, MachineState.DRAINED, 0, "ada")
        group.members["agent/h1"].terminate()
        until(lambda: group.dead() == {"agent/h1": 0}, "the agent left")
        assert [machine.state for machine in cell.machines.all()] == [MachineState.DRAINED], "and its machine is listed"
        group.start("agent/h1")
        until(cell.executors.agents, "the agent is back")
        assert [machine.state for machine in cell.machines.all()] == [MachineState.DRAINED]
        cell.machines.set_state(0, MachineState.UP, 0, "ada")
        until(lambda: len(lines(log)) == 2, "the task runs again")
        cell.machines.set_state(0, MachineState.GONE, 0, "ada")
        until(lambda: group.dead() == {"agent/h1": 0}, "the agent of a removed machine ends")
        until(lambda: not cell.executors.agents(), "in order")
        assert (cell.machines.all(), lines(log)) == ([], ["h1", "h1"])
        check(cell)

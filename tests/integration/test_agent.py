"""An agent on a real store, with real processes: what it starts, finds again, ends and tells."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.cellstate.errors import Duplicate, Fenced
from omega.cellstate.model import MachineSpec, MachineState
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.live.agent.process import AgentOptions, run_agent
from tests.integration.agent_ground import Ground, alive, gone, grounded, look_until
from tests.integration.stage import all_facts, until

pytestmark = pytest.mark.server
SLEEP = ("sh", "-c", "echo $$; exec sleep 60")


@pytest.fixture
def ground(store_url: str, tmp_path: Path) -> Iterator[Ground]:
    with grounded(store_url, tmp_path) as made:
        yield made


def test_it_runs_what_is_placed_on_it(ground: Ground) -> None:
    agent = ground.agent()
    words = (
        "sh",
        "-c",
        "echo $OMEGA_JOB_NAME $OMEGA_GROUP $OMEGA_TASK $OMEGA_ATTEMPT $A $OMEGA_STORE.; exit $OMEGA_TASK",
    )
    name = ground.run(*words, count=2, job="greet")
    look_until(agent, lambda: ground.group(name).placed == 0, "both tasks ended")
    assert (ground.group(name).finished, ground.group(name).failed) == (1, 1)
    assert ground.told("failed") == ["exit 1"]
    assert [ground.cell.tasks.tail(name, 0, task, "stdout") for task in (0, 1)] == [
        b"0\ngreet 0 0 1 b .\n", b"0\ngreet 0 1 1 b .\n"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("no-such-command",), "command not found: no-such-command"),
        ((), "no command and no duration: nothing to run"),
    ],
)
def test_what_cannot_run_fails_with_its_reason(ground: Ground, command: tuple[str, ...], reason: str) -> None:
    agent = ground.agent()
    name = ground.run(*command)
    look_until(agent, lambda: ground.group(name).failed, "it failed")
    assert ground.told("failed") == [reason]


def test_a_task_that_used_up_its_restarts_is_retried_on_another_machine(ground: Ground) -> None:
    agent = ground.agent()
    name = ground.run("sh", "-c", "exit 3", restart={"attempts": 0, "elsewhere": True})
    look_until(agent, lambda: ground.group(name).delayed, "it is delayed")
    (loss,) = ground.group(name).losses
    assert (ground.group(name).failed, ground.group(name).delayed, loss.retried.failures) == (0, 1, 1)
    assert (ground.told("retried"), ground.told("failed")) == (["exit 3"], [])


def test_many_tasks_start_a_few_at_a_time(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omega.live.agent.agent.MOST_STARTS", 2)
    agent = ground.agent()
    name = ground.run("true", count=5)
    started = list[int]()
    for _ in range(3):
        agent.look()
        started.append(len(list(agent.places.task_keys())))
        assert agent.behind == (started[-1] < 5), "the next look comes at once"
    assert started == [2, 4, 5]
    look_until(agent, lambda: ground.group(name).finished == 5, "all of them ended")


def no_room(*_: object) -> None:
    raise OSError(28, "no room on the disk")


def test_a_disk_that_fills_up_ends_no_task_and_hides_no_end(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ground.agent()
    runs, ends = ground.run(*SLEEP), ground.run("sh", "-c", "echo $$; sleep 0.5; exit 3")
    agent.look()
    pid = ground.pid(runs)
    ground.pid(ends)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", no_room)
        patch.setattr(Path, "touch", no_room)
        patch.setattr("omega.live.agent.renewal.WRITES", float("inf"))
        before = agent.places.lease.read_text()
        look_until(agent, lambda: ground.group(ends).failed, "its end is told")
        assert agent.places.lease.read_text() != before, "who runs may run on"
    assert ground.told("failed") == ["exit 3"]
    assert alive(pid)


@pytest.mark.chaos
def test_the_end_of_an_evicted_task_is_acknowledged_when_it_is_gone(ground: Ground) -> None:
    agent = ground.agent()
    name = ground.run("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done")
    agent.look()
    pid = ground.pid(name)
    index = ground.cell.machines.index_of("h1") or 0
    run = ground.cell.machines.runs([index])[0]
    ground.cell.executors.end([TaskEnd(index, run.placement, EndKind.EVICTED, "*", "drain")], 0, "ada")
    ground.place(name)
    agent.look()
    assert alive(pid)
    assert agent.waiting, "its next placement waits for it"
    look_until(agent, lambda: not ground.cell.machines.runs([index])[0].leaving, "it left")
    assert not alive(pid)
    look_until(agent, lambda: ground.pid(name) != pid, "it runs again")


def test_an_agent_that_was_killed_finds_its_tasks_again(ground: Ground) -> None:
    first = ground.agent()
    runs, ended = ground.run(*SLEEP), ground.run("true")
    first.look()
    pid = ground.pid(runs)
    until(lambda: first.ended, "one of them ended, which nobody told the store")
    second = ground.agent()
    look_until(second, lambda: ground.group(ended).finished, "the end is told")
    assert alive(pid)
    assert ground.group(runs).placed == 1
    os.kill(pid, signal.SIGKILL)
    look_until(second, lambda: ground.group(runs).failed, "it ended")
    assert ground.told("failed") == ["killed by SIGKILL"]
    assert [fact.event[0] for fact in all_facts(ground.cell)].count("place") == 2


@pytest.mark.parametrize("command", [SLEEP, ("sh", "-c", "setsid sleep 60 & echo $!; exec sleep 60")])
def test_a_supervisor_that_was_killed_takes_its_task_along(ground: Ground, command: tuple[str, ...]) -> None:
    agent = ground.agent()
    name = ground.run(*command)
    agent.look()
    pid = ground.pid(name)
    os.kill(int((next(iter(agent.kept.values())).place / "supervisor").read_text()), signal.SIGKILL)
    look_until(agent, lambda: ground.group(name).unplaced, "it is to be placed again")
    until(lambda: not alive(pid), "the task is gone")


def test_who_lost_its_lease_ends_what_is_no_longer_its_own(ground: Ground) -> None:
    agent = ground.agent()
    name = ground.run(*SLEEP)
    agent.look()
    pid = ground.pid(name)
    ground.cell.client.delete(f"omega:1:{{{ground.cell.name}}}:lease:agent/h1")
    assert ground.cell.executors.reap(0, "batch/0") == ["agent/h1"]
    assert ground.group(name).unplaced == 1
    with pytest.raises(Fenced):
        agent.look()
    assert alive(pid)
    agent.come(lambda: gone(agent))
    assert not alive(pid), "before its room is offered again"
    assert [m.state for m in ground.cell.machines.all()] == [MachineState.UP]
    agent.look()
    assert (ground.group(name).unplaced, ground.told("lost")) == (1, ["agent"])


def test_what_ended_before_its_lease_lapsed_counts_when_it_is_reported_late(ground: Ground) -> None:
    agent = ground.agent()
    name = ground.run("true")
    agent.look()
    until(lambda: not any(kept.lives for kept in agent.kept.values()), "the task has ended")
    ground.cell.client.delete(f"omega:1:{{{ground.cell.name}}}:lease:agent/h1")
    assert ground.cell.executors.reap(0, "batch/0") == ["agent/h1"]
    assert ground.group(name).delayed == 1
    agent.come(lambda: gone(agent))
    agent.look()
    found = ground.group(name)
    assert (found.finished, found.unplaced, found.losses) == (1, 0, ())


def test_a_lease_that_lapsed_unnoticed_goes_on(ground: Ground) -> None:
    agent = ground.agent()
    name = ground.run(*SLEEP)
    agent.look()
    pid = ground.pid(name)
    ground.cell.client.delete(f"omega:1:{{{ground.cell.name}}}:lease:agent/h1")
    agent.come(lambda: gone(agent))
    agent.look()
    assert alive(pid)
    assert ground.group(name).placed == 1


def test_what_the_store_does_not_list_is_ended(ground: Ground) -> None:
    agent = ground.agent()
    name = ground.run(*SLEEP)
    agent.look()
    pid = ground.pid(name)
    ground.cell.machines.set_state(ground.cell.machines.index_of("h1") or 0, MachineState.DOWN, 0, "ada")
    look_until(agent, lambda: not agent.kept, "it is ended")
    assert not alive(pid)
    assert ground.group(name).unplaced == 1


def test_a_drained_machine_stays_drained_when_its_agent_comes_back(ground: Ground) -> None:
    ground.agent()
    ground.cell.machines.set_state(ground.cell.machines.index_of("h1") or 0, MachineState.DRAINED, 0, "ada")
    ground.agent()
    assert ground.cell.machines.all()[0].state is MachineState.DRAINED


def test_attributes_given_in_the_cell_outlive_an_agent(ground: Ground) -> None:
    agent = ground.agent()
    given = MachineSpec("h1", agent.machine.capacity, {"zone": "a", "rack": "old"})
    ground.cell.machines.join(agent.executor, [given], 0)
    ground.agent(attributes={"rack": "new"})
    assert ground.cell.machines.all()[0].attributes == {"zone": "a", "rack": "new"}


def test_two_agents_of_one_name(ground: Ground, tmp_path: Path) -> None:
    ground.agent()
    with pytest.raises(Duplicate, match="agent h1: another one lives under this name"):
        ground.agent(state=tmp_path / "elsewhere")
    ground.agents.pop()
    lock = ground.agents[0].places.lock()
    try:
        with pytest.raises(Duplicate, match="agent h1: runs on this computer already"):
            run_agent(ground.cell.url, ground.cell.name, "h1", tmp_path, AgentOptions())
    finally:
        os.close(lock)


def test_a_clock_that_is_hours_off_changes_nothing(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 6 * 3600)
    agent = ground.agent()
    name = ground.run("true")
    look_until(agent, lambda: ground.group(name).finished, "it finished")
    times = [fact.at_ms for fact in all_facts(ground.cell) if fact.by == "agent/h1"]
    assert times
    assert all(abs(at - ground.cell.store_ms()) < 60_000 for at in times)


def test_an_end_that_is_reported_late_has_its_own_time(ground: Ground) -> None:
    agent = ground.agent()
    early, late = ground.run("true"), ground.run("true")
    agent.look()
    until(lambda: not any(kept.lives for kept in agent.kept.values()), "both ended")
    (path,) = agent.places.tasks.glob(f"{early}.*/result")
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "at": found["at"] - 100}))
    agent.look()
    times = {fact.event[3]: fact.at_ms for fact in all_facts(ground.cell) if fact.event[0] == "finished"}
    assert 98_000 < times[late] - times[early] < 110_000

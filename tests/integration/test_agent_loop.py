"""The loop of an agent on a real store: what wakes it, and what it does while the store is away or slow."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.errors import Duplicate, Unreachable
from omega.cellstate.model import MachineState
from omega.cellstate.redis import RedisCell
from omega.live.agent.agent import Agent
from omega.live.agent.process import AgentLoop, WakeUp
from tests.integration.agent_ground import Ground, alive, grounded, look_until

pytestmark = pytest.mark.server
SLEEP = ("sh", "-c", "echo $$; exec sleep 60")


@pytest.fixture
def ground(store_url: str, tmp_path: Path) -> Iterator[Ground]:
    with grounded(store_url, tmp_path) as made:
        yield made


def test_a_store_that_is_away_is_waited_for(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, wake_up = ground.agent(), WakeUp()
    name = ground.run("true")
    beat, end, failed = agent.cell.executors.renew, agent.cell.executors.end, list[str]()

    def away(*arguments: Any) -> Any:
        if len(failed) < 2:
            failed.append("once more")
            raise Unreachable("cut by the test")
        return beat(*arguments)

    def told(*arguments: Any) -> list[int]:
        wake_up.stop()
        return end(*arguments)

    monkeypatch.setattr(agent.cell.executors, "renew", away)
    monkeypatch.setattr(agent.cell.executors, "end", told)
    monkeypatch.setattr("omega.live.agent.process.AWAY_SECONDS", 0.01)
    watch = AgentLoop(agent, wake_up)
    watch.come = True
    with wake_up.on_signals():
        watch.run()
    assert len(failed) == 2
    assert (ground.group(name).finished, ground.cell.executors.agents()) == (1, {})


def test_a_name_that_another_agent_took_meanwhile_is_waited_for_and_the_tasks_end(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, wake_up = ground.agent(), WakeUp()
    name = ground.run(*SLEEP)
    agent.look()
    pid = ground.pid(name)
    watch = AgentLoop(agent, wake_up)
    watch.come = True

    def taken(*_: object) -> None:
        if not alive(pid):
            wake_up.stop()
        raise Duplicate("agent a: another one lives under this name")

    monkeypatch.setattr(Agent, "look", taken)
    monkeypatch.setattr("omega.live.agent.process.AWAY_SECONDS", 0.01)
    with wake_up.on_signals():
        watch.run()
    assert not alive(pid)


def test_a_running_task_gives_the_agent_no_reason_to_call_the_store(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the guard to a ping is none: an agent that took it for one renewed its lease without a pause."""
    agent, wake_up = ground.agent(lease_ms=60_000), WakeUp()
    ground.run(*SLEEP)
    agent.look()
    beat, beats = agent.cell.executors.renew, list[int]()

    def counted(*arguments: Any) -> Any:
        beats.append(1)
        return beat(*arguments)

    monkeypatch.setattr(agent.cell.executors, "renew", counted)
    watch = AgentLoop(agent, wake_up)
    watch.come = True
    late = threading.Timer(0.3, wake_up.stop)
    with wake_up.opened():
        late.start()
        watch.run()
    assert len(beats) == 2, "one round, and one to leave"


def test_new_output_of_a_running_task_is_shown_before_the_next_heartbeat(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, wake_up = ground.agent(lease_ms=60_000), WakeUp()
    ground.run("sh", "-c", "sleep 0.2; echo hi; exec sleep 60")
    monkeypatch.setattr("omega.live.agent.output.TAIL_SECONDS", 0.05)
    monkeypatch.setattr("omega.live.agent.process.TAIL_SECONDS", 0.05)
    keep, kept = agent.cell.tasks.keep_tails, list[bytes]()

    def told(tails: Any) -> None:
        keep(tails)
        kept.extend(tails.values())
        if kept:
            wake_up.stop()

    monkeypatch.setattr(agent.cell.tasks, "keep_tails", told)
    watch = AgentLoop(agent, wake_up)
    watch.come = True
    late = threading.Timer(8.0, wake_up.stop)
    with wake_up.opened():
        late.start()
        watch.run()
        late.cancel()
    assert kept[:1] == [b"0\nhi\n"]


def test_an_agent_that_leaves_ends_its_tasks_and_its_machine_is_offline(ground: Ground) -> None:
    agent, wake_up = ground.agent(), WakeUp()
    name = ground.run(*SLEEP)
    agent.look()
    pid = ground.pid(name)
    watch = AgentLoop(agent, wake_up)
    watch.come = True
    with wake_up.on_signals():
        wake_up.stop()
        watch.run()
    assert not alive(pid)
    states = [machine.state for machine in ground.cell.machines.all()]
    assert (ground.group(name).unplaced, states, ground.cell.executors.agents()) == (1, [MachineState.OFFLINE], {})


@pytest.mark.chaos
def test_a_slow_link_ends_no_lease_and_loses_no_end(ground: Ground) -> None:
    """0.2 s for each reply, a lease of 1.5 s: one look that starts six tasks of as many jobs takes longer than that."""
    agent = ground.agent(lease_ms=1_500)

    def slow(cell: Any) -> Any:
        command = cell.command

        def late(*arguments: Any, **options: Any) -> Any:
            time.sleep(0.2)
            return command(*arguments, **options)

        cell.command = late
        return cell

    names = [ground.run("true", job=f"s{number}") for number in range(6)]
    slow(agent.cell)
    stop, url, name = threading.Event(), ground.cell.url, ground.cell.name
    own = threading.Thread(target=agent.lease.run, args=(lambda _: slow(RedisCell.connect(url, name)), stop))
    own.start()
    try:
        began = time.monotonic()
        agent.look()
        assert time.monotonic() - began > 1.5, "the rest of a look waits longer than the lease lasts"
        assert ground.cell.executors.reap(0, "batch/0") == [], "and the lease is renewed meanwhile"
        del agent.cell.command
        look_until(agent, lambda: not agent.kept, "every end is reported")
    finally:
        stop.set()
        own.join()
    assert [ground.group(each).finished for each in names] == [1] * 6
    assert ground.told("lost") == []

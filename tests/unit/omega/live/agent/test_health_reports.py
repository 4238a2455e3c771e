"""An agent's reports of health: grants come from the store's answer alone, and one task at a time is ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.errors import StoreError, Unreachable
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.live.agent.health_reports import HealthReports
from omega.live.agent.kept import Kept
from omega.live.agent.places import PlacementKey
from omega.live.agent.task_health import GRANT, HEALTH, UNHEALTHY

ALIVE_CHECK = {"command": ["probe"], "grace_ms": 0, "every_ms": 1_000, "timeout_ms": 1_000, "failures": 3}


@pytest.fixture
def cell() -> MemoryCell:
    """A job of two tasks, one on each of two machines."""
    made = MemoryCell()
    made.executors.register("e", "n", 60_000, 0)
    made.machines.join("e", [MachineSpec(name, (10, 10)) for name in ("h0", "h1")], 0)
    member = made.schedulers.register("batch/0", "n", 60_000, 0)
    made.jobs.submit([JobSpec("j", "j", "service", (TaskGroup((1, 1), 2),))], 0, "ada")
    claims = (Claim(0, 0, 1), Claim(1, 0, 1))
    made.schedulers.commit(CommitRequest(member, 1, [Transaction("j", claims)], Position(), 0))
    return made


class OneAgent:
    """The reports of the agent of a machine, with its unhealthy task."""

    def __init__(self, cell: MemoryCell, machine: int, directory: Path) -> None:
        (run,) = cell.machines.runs([machine])
        self.cell, self.machine, self.reports = cell, machine, HealthReports()
        self.key = PlacementKey("j", 0, int(run.tasks), run.placement)
        self.place = directory / f"h{machine}"
        self.place.mkdir()
        checks = {"ready": {"command": []}, "alive": ALIVE_CHECK, "max_down": 1}
        (self.place / "order.json").write_text(json.dumps({"checks": checks, "restart": {"attempts": 2}}))
        self.say(alive=UNHEALTHY, down=False, ready=False)

    def say(self, **state: Any) -> None:
        (self.place / HEALTH).write_text(json.dumps(state))

    def report(self, cell: Any = None) -> bool:
        """Report; return whether the supervisor may end the task."""
        self.reports.report(cell or self.cell, self.machine, {self.key: Kept(self.key, self.place)}, 0)
        return (self.place / GRANT).exists()


class Away:
    def __init__(self) -> None:
        self.tasks = self

    def report_health(self, *_: object) -> None:
        raise Unreachable("cut by the test")


def test_without_an_answer_of_the_store_nothing_is_granted_and_it_is_asked_again(
    cell: MemoryCell, tmp_path: Path
) -> None:
    agent = OneAgent(cell, 0, tmp_path)
    for _ in range(3):
        with pytest.raises(StoreError):
            agent.report(Away())
        assert not (agent.place / GRANT).exists()
        assert agent.reports.changed([Kept(agent.key, agent.place)]), "it was not told"
    assert agent.report()


def test_of_two_agents_one_ends_its_task_at_a_time(cell: MemoryCell, tmp_path: Path) -> None:
    agents = OneAgent(cell, 0, tmp_path), OneAgent(cell, 1, tmp_path)
    assert [agent.report() for agent in agents] == [True, False]
    assert [agent.report() for agent in agents] == [True, False], "asked again"
    agents[0].say(alive=UNHEALTHY, down=True, ready=False)
    assert not agents[1].report(), "the first is ended, and did not start again"
    agents[0].say(alive="alive", down=False, ready=True)
    assert not agents[0].report(), "it gave its grant back"
    assert agents[1].report()

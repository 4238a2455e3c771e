"""A cell whose scheduler is the test itself, with agents in this process whose tasks are real processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from omega.cellstate.model import GroupStatus, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.tasks import StoredTail
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.live.agent.agent import Agent
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process_tree import started
from tests.integration.stage import all_facts, check, made_cell, until

LEASE_MS = 120_000


class Ground:
    """A cell, a scheduler controlled by the test, and agents on this computer."""

    def __init__(self, cell: RedisCell, state: Path) -> None:
        self.cell, self.state = cell, state
        self.member: Membership = cell.schedulers.register("batch/0", "n", LEASE_MS, 0)
        self.commits = 0
        self.agents: list[Agent] = []
        cell.store_older_than = lambda milliseconds: milliseconds > 0  # type: ignore[method-assign]

    def agent(self, name: str = "h1", state: Path | None = None, **more: Any) -> Agent:
        """An agent that has come; one of the same name and state comes after the other."""
        places = AgentPlaces(state or self.state, self.cell.name, name)
        places.make()
        own = RedisCell.connect(self.cell.url, self.cell.name)
        own.store_older_than = self.cell.store_older_than  # type: ignore[method-assign]
        machine = MachineSpec(name, (4_000, 4_096), more.pop("attributes", {}))
        agent = Agent(own, machine, places, more.pop("lease_ms", LEASE_MS), **more)
        self.agents.append(agent)
        agent.find()
        agent.come(lambda: gone(agent))
        return agent

    def run(
        self, *command: str, count: int = 1, machine: str = "h1", job: str = "", pool: str = "", **more: Any
    ) -> str:
        """Submit a job and place it; returns its id."""
        name = job or f"j{self.commits}"
        extra = {"command": list(command), "grace": 500, **more}
        about = {"environment": {"A": "b"}} | ({"pool": pool} if pool else {})
        spec = JobSpec(name, name, "batch", (TaskGroup((100, 64), count, 0, extra),), spec=about)
        self.cell.jobs.submit([spec], 0, "ada")
        self.place(name, count, machine)
        return name

    def place(self, name: str, count: int = 1, machine: str = "h1") -> None:
        self.commits += 1
        index = self.cell.machines.index_of(machine)
        assert index is not None
        transaction = Transaction(name, (Claim(index, 0, count),))
        assert (
            self.cell.schedulers.commit(CommitRequest(self.member, self.commits, [transaction], Position(), 0))
            .outcomes[0]
            .accepted
        )

    def group(self, name: str) -> GroupStatus:
        job = self.cell.jobs.get(name)
        assert job is not None
        return job.groups[0]

    def pid(self, name: str) -> int:
        """Return the process id of a job's task, which prints it first."""
        found: list[bytes] = []

        def said() -> bool:
            text = StoredTail.unpack(self.cell.tasks.tail(name, 0, 0, "stdout")).data or b"".join(
                path.read_bytes() for path in self.state.glob(f"agents/*/*/tasks/{name}.*/stdout.0")
            )
            found[:] = text.split()
            return bool(found)

        until(said, f"{name} says its process id")
        return int(found[0])

    def told(self, word: str) -> list[str]:
        """The reasons of facts about tasks."""
        return [" ".join(fact.event[8:]) for fact in all_facts(self.cell) if fact.event[0] == word]


def alive(pid: int) -> bool:
    return bool(started(pid)) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def gone(agent: Agent) -> None:
    def ended() -> bool:
        going = [kept for kept in agent.kept.values() if kept.unlisted and kept.lives]
        for kept in going:
            kept.stop()
        return not going

    until(ended, "what is not listed is gone")


def look_until(agent: Agent, true: Callable[[], object], what: str) -> None:
    def looked() -> object:
        with suppress(OSError):  # as the agent's loop: a guard that starts too slowly is tried again
            agent.look()
        return true()

    until(looked, what)


@contextmanager
def grounded(url: str, state: Path) -> Iterator[Ground]:
    """A cell with agents, verified at the end; then all tasks are gone."""
    with made_cell(url, f"agent-{uuid4().hex[:8]}") as cell:
        made = Ground(cell, state)
        yield made
        check(cell)
        for agent in made.agents:
            agent.find()
            agent.stop()
            until(lambda: not any(kept.lives for kept in agent.kept.values()), "its tasks are gone")  # noqa: B023
            agent.guard.close()
            agent.cell.close()

"""The ladder of faults, processes: agent, guard and task supervisors killed or halted, alone and together; `omega up`.

One fault at a time, repeated ROUNDS times (3 by default), on tasks that record their executions (book.py). One step of
the ladder by itself: ``pytest -m chaos tests/chaos/test_process_faults.py -k halt-agent-supervisors``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import pytest

from omega.cellstate.model import JobSpec
from omega.cellstate.redis import RedisCell
from omega.file_lock import held
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process_tree import processes
from omega.live.processes.supervisor import ProcessSupervisor
from tests.chaos.book import Book, rounds
from tests.integration.stage import check, made_cell, started_processes, submit, unfinished, until

pytestmark = [
    pytest.mark.server,
    pytest.mark.chaos,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc"),
]
LEASE_MS = 500
"""A scheduler's; an agent's is four times as long, 2 s."""
HALT_SECONDS = 6.0
"""Three leases of an agent."""
TASKS, TASK_SECONDS = 6, 3.0
KILL, HALT = signal.SIGKILL, signal.SIGSTOP
AGENT, GUARD, SUPERVISORS = "agent", "guard", "supervisors"

HELD = [
    (how, parts)
    for how in ("kill", "halt")
    for parts in ((AGENT,), (GUARD,), (SUPERVISORS,), (AGENT, SUPERVISORS), (AGENT, GUARD), (GUARD, SUPERVISORS))
]
"""Faults under which no task may run twice at a time."""
NAMED = [("kill", (AGENT, GUARD, SUPERVISORS)), ("halt", (AGENT, GUARD, SUPERVISORS))]
"""Faults of which the documentation says that tasks may run on: nobody is left to end them."""


def name_of(fault: tuple[str, Sequence[str]]) -> str:
    """``halt-agent-supervisors``."""
    return "-".join([fault[0], *fault[1]])


@dataclass(slots=True)
class Ladder:
    """A cell with two agents; faults hit the one called `name`, which runs tasks."""

    cell: RedisCell
    supervisor: ProcessSupervisor
    book: Book
    state: Path
    jobs: list[JobSpec] = field(default_factory=list)
    name: str = "a"

    @property
    def agent(self) -> str:
        """The member that is hit."""
        return f"agent/{self.name}"

    @property
    def places(self) -> AgentPlaces:
        """The files of the agent that is hit."""
        return AgentPlaces(self.state, self.cell.name, self.name)

    def running(self) -> list[Path]:
        """Directories of its tasks that run."""
        found = [self.places.task(key) for key in self.places.task_keys()]
        return [place for place in found if held(place / "lock") and (place / "running").exists()]

    def pids(self, part: str) -> list[int]:
        """The processes of a part of it."""
        if part == AGENT:
            return [self.supervisor.members[self.agent].pid]
        if part == SUPERVISORS:
            return [int((place / "supervisor").read_text()) for place in self.running()]
        return guards(self.places.top)

    def begin(self) -> None:
        """Submit a job, and return when an agent runs tasks of it: that one is hit next."""
        job = self.book.job(f"j{len(self.jobs)}", TASKS, TASK_SECONDS)
        self.jobs.append(job)
        submit(self.cell, [job])

        def chosen() -> bool:
            return any(self.running() for self.name in ("a", "b"))

        until(chosen, "an agent runs tasks")

    def hit(self, how: str, parts: Sequence[str]) -> None:
        """Kill or halt parts at the same moment; after a while let them go on, or start the agent again."""
        hit = [pid for part in parts for pid in self.pids(part)]
        for pid in hit:
            with suppress(ProcessLookupError):
                os.kill(pid, KILL if how == "kill" else HALT)
        time.sleep(HALT_SECONDS)
        if how == "halt":
            for pid in hit:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        elif AGENT in parts:
            self.supervisor.members[self.agent].wait()
            self.supervisor.start(self.agent)

    def end(self) -> None:
        """Return when every task has ended."""
        until(lambda: not unfinished(self.cell), "all tasks end", 120.0)
        until(lambda: all(agent.lives for agent in self.cell.executors.agents().values()), "the agents live")


def guards(top: Path) -> list[int]:
    """The guards of an agent; one that a supervisor forked has the same argv."""
    found = []
    for pid in processes():
        with suppress(OSError):
            place = Path(f"/proc/{pid}")
            name, words = (place / "comm").read_text(), (place / "cmdline").read_bytes()
            if name == "omega-guard\n" and str(top).encode() in words.split(b"\0"):
                found.append(pid)
    return found


@contextmanager
def ladder(store_url: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ladder]:
    """Two agents and a scheduler at work."""
    monkeypatch.setenv("OMEGA_STATE", str(place / "state"))
    with (
        made_cell(store_url, f"ladder-{uuid4().hex[:8]}") as cell,
        started_processes(
            cell, store_url, place / "logs", "batch/0", "agent/a", "agent/b", lease_ms=LEASE_MS
        ) as supervisor,
    ):
        yield Ladder(cell, supervisor, Book.new(place / "book"), place / "state")


@pytest.mark.parametrize("fault", HELD, ids=name_of)
def test_no_task_runs_twice(
    fault: tuple[str, Sequence[str]], store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ladder(store_url, tmp_path, monkeypatch) as at:
        for _ in range(rounds()):
            at.begin()
            at.hit(*fault)
            at.end()
        account = at.book.compare(at.cell, at.jobs)
        assert account.clean, account
        check(at.cell)


@pytest.mark.parametrize("fault", NAMED, ids=name_of)
def test_what_remains_loses_and_doubles_no_end(
    fault: tuple[str, Sequence[str]], store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overlaps are counted and printed: the documentation names these faults."""
    with ladder(store_url, tmp_path, monkeypatch) as at:
        for _ in range(rounds()):
            at.begin()
            at.hit(*fault)
            at.end()
        account = at.book.compare(at.cell, at.jobs)
        assert replace(account, overlaps=()).clean, account
        sys.stdout.write(f"{name_of(fault)}: {len(account.overlaps)} of {rounds() * TASKS} tasks overlapped\n")
        check(at.cell)


def test_kill_agent_and_guard_then_halt_supervisors(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor replaces the guard meanwhile, and that one holds the deadline."""
    with ladder(store_url, tmp_path, monkeypatch) as at:
        for _ in range(rounds()):
            at.begin()
            for part in (AGENT, GUARD):
                for pid in at.pids(part):
                    os.kill(pid, KILL)
            until(lambda: guards(at.places.top), "a supervisor started a guard", 1.0)
            at.hit("halt", (SUPERVISORS,))
            at.supervisor.members[at.agent].wait()
            at.supervisor.start(at.agent)
            at.end()
        account = at.book.compare(at.cell, at.jobs)
        assert account.clean, account
        check(at.cell)


def test_kill_omega_up(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`omega down` ends what a killed `omega up` left behind, and the next `omega up` finishes its jobs."""
    state, book, jobs = tmp_path / "state", Book.new(tmp_path / "book"), list[JobSpec]()
    environment = {**os.environ, "OMEGA_STATE": str(state), "OMEGA_STORE": store_url}
    program = [sys.executable, "-m", "omega.cli.main", "--json", "--cell"]
    with made_cell(store_url, f"up-{uuid4().hex[:8]}") as cell:
        for number in range(rounds()):
            words = [*program, cell.name, "up", "--batch", "1", "--service", "0"]
            up = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
            assert up.stdout is not None
            pids = json.loads(up.stdout.readline())["processes"]
            cell.schedulers.members()
            jobs.append(book.job(f"j{number}", 2, 1.0 if number + 1 < rounds() else 0.1))
            submit(cell, jobs[-1:])
            until(lambda: book.page(jobs[-1].id, 0).starts, "a task runs")
            if number + 1 == rounds():
                until(lambda: not unfinished(cell), "every job ends", 120.0)
            up.kill()
            up.wait()
            up.stdout.close()
            down = [*program, cell.name, "down"]
            said = subprocess.run(down, env=environment, check=True, capture_output=True, text=True)
            assert {each["pid"] for each in json.loads(said.stdout)["ended"]} == set(pids.values())
            assert not [pid for pid in pids.values() if (found := processes().get(pid)) and not found.ended]
            assert not list((state / "up").iterdir())
            (agent,) = (state / "agents" / cell.name).iterdir()
            until(lambda: not guards(agent), "the guard ends with the tasks")  # noqa: B023
        account = book.compare(cell, jobs)
        assert account.clean, account
        check(cell)

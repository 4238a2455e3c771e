"""Copies of slow tasks on agents: the copy wins on another machine, and the process of the slow task is gone."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.cellstate.digest.step import digest
from omega.cellstate.model import BUCKETS, JobSpec, MachineState, TaskGroup
from omega.cellstate.replies import Budget, CommitRequest, Original
from omega.cellstate.tasks import TaskProgress
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.live.agent import progress_reports
from omega.schedulers.process.copies import Copies
from tests.integration.agent_ground import Ground, alive, grounded, look_until

pytestmark = pytest.mark.server

SLOW = {
    "a slow machine": "test $OMEGA_MACHINE = h2 || { echo $$; sleep 60; }",
    "a slow task": 'test $OMEGA_TASK = 1 || test "$OMEGA_COPY" = 1 || { echo $$; sleep 60; }',
}


@pytest.fixture
def ground(store_url: str, tmp_path: Path) -> Iterator[Ground]:
    with grounded(store_url, tmp_path) as made:
        yield made


@pytest.mark.parametrize("case", SLOW)
def test_the_copy_of_a_slow_task_wins_on_another_machine(ground: Ground, case: str) -> None:
    slow, fast, cell = ground.agent(), ground.agent("h2", ground.state / "h2"), ground.cell
    said = {"command": ["sh", "-c", f"{SLOW[case]}; pwd"], "grace": 500, "repeatable": True}
    groups = TaskGroup((100, 64), 2, 0, said), TaskGroup((100, 64), 0, 0, said, copies=True)
    spec = {"speculation": {"factor": 2.0}, "directory": str(ground.state)}
    cell.jobs.submit([JobSpec("a", "a", "batch", groups, spec=spec)], int(time.time() * 1000), "ada")
    place(ground, Claim(0, 0, 1), Claim(1, 0, 1))
    slow.look()
    pid = ground.pid("a")
    look_until(fast, lambda: ground.group("a").finished == 1, "the other task finished")
    digest(cell, cell.store_ms())
    assert Copies().request(cell, "1" * BUCKETS, 2, time.time() + 30, "batch/0") == 1
    place(ground, Claim(1, 1, 1))
    look_until(fast, lambda: ground.group("a").finished == 2, "the copy finished")
    look_until(slow, lambda: not cell.machines.runs([0, 1]), "the slow task has left")
    assert not alive(pid)
    assert (ground.group("a").failed, ground.told("stopped")) == (0, ["outrun"])
    assert (cell.tasks.tail("a", 1, 0, "stdout") or b"").rstrip().endswith(b"/work"), (
        "a copy has a directory of its own"
    )
    assert (cell.tasks.tail("a", 0, 1, "stdout") or b"").decode()[2:].strip() == str(ground.state)


def test_a_copy_whose_original_is_lost_runs_on_as_the_task(ground: Ground) -> None:
    slow, fast, cell = ground.agent(), ground.agent("h2", ground.state / "h2"), ground.cell
    ready, log = ground.state / "ready", ground.state / "log"
    command = f"echo $OMEGA_MACHINE >> {log}; while ! test -e {ready}; do sleep 0.02; done"
    said = {"command": ["sh", "-c", command], "grace": 500, "repeatable": True}
    groups = TaskGroup((100, 64), 1, 0, said), TaskGroup((100, 64), 0, 0, said, copies=True)
    cell.jobs.submit([JobSpec("a", "a", "batch", groups)], int(time.time() * 1000), "ada")
    place(ground, Claim(0, 0, 1))
    look_until(slow, log.exists, "the task runs")
    assert len(cell.jobs.speculate("a", [Original(0, 1, 0)], Budget(1, 1), 0, "batch/0")) == 1
    place(ground, Claim(1, 1, 1))
    look_until(fast, lambda: log.read_text() == "h1\nh2\n", "its copy runs")
    cell.machines.set_state(0, MachineState.DOWN, 0, "ada")
    assert [(run.group, run.leaving) for run in cell.machines.runs([0, 1])] == [(0, True), (0, False)]
    fast.look()
    again = ground.agent("h2", ground.state / "h2")
    again.look()
    assert [(kept.lives, kept.unlisted) for kept in again.kept.values()] == [(True, False)]
    ready.touch()
    look_until(again, lambda: ground.group("a").finished == 1, "it has finished")
    look_until(slow, lambda: not cell.machines.runs([0, 1]), "the lost task has left")
    assert log.read_text() == "h1\nh2\n", "nothing began anew"


def test_a_task_reports_its_progress(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_reports, "EVERY_SECONDS", 0.0)
    agent, cell = ground.agent(), ground.cell
    again, file = ground.state / "again", "$OMEGA_TASK_DIRECTORY/work/.omega-progress"
    first = f"echo 0.251 > {file}; until test -e {again}; do sleep 0.02; done; exit 1"
    command = f"test $OMEGA_ATTEMPT = 2 || {{ {first}; }}; sleep 60"
    said = {"command": ["sh", "-c", command], "grace": 500, "restart": {"attempts": 1, "delay": 1}}
    groups = TaskGroup((100, 64), 1, 0, said), TaskGroup((100, 64), 0, 0, said, copies=True)
    cell.jobs.submit([JobSpec("a", "a", "batch", groups), JobSpec("b", "b", "batch", groups[:1])], 0, "ada")
    place(ground, Claim(0, 0, 1))
    place(ground, Claim(0, 0, 1), job="b")
    look_until(
        agent, lambda: cell.tasks.reported_progress("a", [0]) == {0: [TaskProgress(0, 0, 25)]}, "its progress is kept"
    )
    assert cell.tasks.reported_progress("b", [0]) == {}, "its tasks have no copies, so nothing reads it"
    assert not agent.progress.due(agent.kept.values()), "what has not changed is not sent again"
    again.touch()
    look_until(agent, lambda: not cell.tasks.reported_progress("a", [0]), "the next attempt has made none")
    assert len(agent.kept) == 2, "they still run"


@pytest.mark.parametrize("text", ["", "x", "-0.1", "1.01", "nan", "link", "pipe"])
def test_what_is_no_progress_is_not_reported(tmp_path: Path, text: str) -> None:
    file = tmp_path / "progress"
    if text == "link":
        (tmp_path / "other").write_text("0.5")
        file.symlink_to(tmp_path / "other")
    elif text == "pipe":
        os.mkfifo(file)
    else:
        file.write_text(text)
    assert progress_reports.read_percent(file) is None


def place(ground: Ground, *claims: Claim, job: str = "a") -> None:
    ground.commits += 1
    request = CommitRequest(ground.member, ground.commits, [Transaction(job, claims)], Position(), 0)
    assert ground.cell.schedulers.commit(request).outcomes[0].accepted

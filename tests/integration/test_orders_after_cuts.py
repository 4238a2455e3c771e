"""A job that is submitted again after its store lost it: nothing of the lost job is taken for it (semantics 1, 16)."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.errors import Fenced, HistoryCut, Unreachable
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.live.agent.agent import Agent
from omega.live.task_log import TaskLog
from tests.integration.agent_ground import Ground, gone, grounded
from tests.integration.stage import until
from tests.taken_back import copied


@pytest.fixture
def ground(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    with grounded(store_url, tmp_path) as made:
        yield made


def submit(ground: Ground, command: str, at_ms: int) -> None:
    spec = {"command": ["sh", "-c", command], "grace": 500}
    ground.cell.jobs.submit([JobSpec("nightly", "nightly", "batch", (TaskGroup((100, 64), 1, 0, spec),))], at_ms, "ada")


def place(ground: Ground) -> None:
    """Place the job; connections that the cut closed are opened anew."""
    while ground.group("nightly").unplaced:
        with suppress(Unreachable):
            ground.place("nightly")


def look(agent: Agent) -> None:
    """One iteration, as the agent's loop carries it out."""
    with suppress(Unreachable):
        try:
            agent.look()
        except (Fenced, HistoryCut):
            agent.come(lambda: gone(agent))


def look_until(agent: Agent, true: Callable[[], object], what: str) -> None:
    def looked() -> object:
        look(agent)
        return true()

    until(looked, what)


def output(ground: Ground) -> str:
    job = ground.cell.jobs.get("nightly")
    assert job is not None
    text: str = TaskLog.of(ground.cell, job, 0, None, "stdout").as_json()["text"]
    return text


LOST = {
    "fails": "echo lost; exit 1",
    "finishes": "echo lost",
    "runs": "echo lost; sleep 600",
}


@pytest.mark.parametrize("lost", LOST)
def test_a_job_submitted_again_runs_its_own_command(ground: Ground, lost: str) -> None:
    agent = ground.agent()
    back = copied(ground.cell)
    submit(ground, LOST[lost], 1_000)
    place(ground)
    look_until(agent, lambda: output(ground) == "lost\n", "the lost job printed")
    if lost != "runs":
        look_until(agent, lambda: ground.group("nightly").placed == 0, "the lost job ended")
    back()
    submit(ground, "echo own", 2_000)
    place(ground)
    look_until(agent, lambda: ground.group("nightly").finished + ground.group("nightly").failed, "it ended")
    assert (ground.group("nightly").finished, ground.group("nightly").failed) == (1, 0)
    assert output(ground) == "own\n"
    assert len(ground.told("cut")) == 1


def cut_at_random(ground: Ground, agent: Agent, rng: Random, number: int) -> None:
    """Lose a job after some of its steps, submit it again with another command, and let that end.

    What the store lost begins before or after the submission or the placement of the lost job. The loss is found by
    the agent alone, by another process, or by a client after it submitted again.
    """
    kind, steps, at = rng.choice([*LOST]), rng.randrange(4), 10 * number + 1
    back = copied(ground.cell)
    submit(ground, LOST[kind].replace("lost", f"lost {number}"), at)
    if steps > 0:
        place(ground)
    for _ in range(rng.randrange(1, 4) if steps > 1 else 0):
        look(agent)
    if steps > 2 and kind != "runs":
        look_until(agent, lambda: ground.group("nightly").placed == 0, "the lost job ended")
    back()
    client = RedisCell.connect(ground.cell.url, ground.cell.name)  # saw nothing of what is lost
    if rng.random() < 0.3:
        look(agent)
    elif rng.random() < 0.5:
        ground.cell.look_back()
    submitter, ground.cell = ground.cell, client if rng.random() < 0.5 else ground.cell
    try:
        submit(ground, f"echo own {number}", at + 1)
        place(ground)
        if rng.random() < 0.5:
            look(agent)
        look_until(agent, lambda: ground.group("nightly").finished + ground.group("nightly").failed, "it ended")
        assert (ground.group("nightly").finished, output(ground)) == (1, f"own {number}\n"), (kind, steps)
    finally:
        ground.cell = submitter
        client.close()


def cuts_in_a_row(ground: Ground, cuts: int) -> None:
    agent, rng, clean = ground.agent(), Random("cuts"), copied(ground.cell)
    for number in range(cuts):
        cut_at_random(ground, agent, rng, number)
        clean()  # loses the job again, which ended


def test_nothing_of_a_lost_job_is_taken_in_ten_cuts(ground: Ground) -> None:
    cuts_in_a_row(ground, 10)


@pytest.mark.chaos
def test_nothing_of_a_lost_job_is_taken_in_200_cuts(ground: Ground) -> None:
    cuts_in_a_row(ground, 200)

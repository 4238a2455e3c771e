"""The gate of a live scheduler holds jobs with a reason, shown everywhere, until it or a person releases them."""

from contextlib import AbstractContextManager

import pytest

import omega as public
from omega.cellstate.redis import RedisCell
from omega.cellstate.verify import verify
from omega.client.client import Client
from omega.schedulers import registry
from omega.schedulers.failing import FailingJobs
from omega.schedulers.live_driver import LiveDriver
from tests.cli.conftest import Omega, eventually, executor, join, scheduler


class Budget:
    """Jobs of users in `spent` are held."""

    def __init__(self) -> None:
        self.spent = {"ada"}
        self.asked = 0

    def __deepcopy__(self, _: object) -> "Budget":
        return self

    def hold(self, work: public.Work, now: float) -> str | None:
        self.asked += 1
        return f"the budget of {work.user} is used up" if work.user in self.spent else None


def gated(cell: RedisCell, gate: public.Gate, member: str = "batch/0") -> AbstractContextManager[LiveDriver]:
    made = registry.scheduler("batch")
    made.gate, made.failing = gate, FailingJobs()
    return scheduler(cell, member, made)


def state(omega: Omega, name: str) -> str:
    return str(omega.json("job", "status", name)["state"])


def run(omega: Omega, name: str, *more: str) -> None:
    omega.run("job", "run", "--name", name, "--cpu", "1", "--duration", "30s", *more)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omega.schedulers.gates.AGAIN_SECONDS", 0.1)


def test_a_gate_holds_a_job_with_its_reason_and_releases_it(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    budget = Budget()
    with executor(cell), gated(cell, budget):
        run(omega, "mine")
        run(omega, "other", "--user", "bob")
        eventually(lambda: (state(omega, "mine"), state(omega, "other")) == ("held", "running"))
        job = omega.json("job", "status", "mine")
        assert (job["reason"], job["gate"], job["held"]) == ("HELD", "the budget of ada is used up", False)
        said = "the gate of its scheduler holds it: the budget of ada is used up"
        assert said in omega.text("job", "status", "mine")
        assert said in omega.text("job", "why", "mine")
        why = Client(omega.url, omega.cell).why("mine")
        assert (why["reason"], why["detail"]) == ("HELD", said)
        (event,) = omega.json("events", "--kind", "gate")["events"]
        assert (event["by"], event["reason"]) == ("batch/0", "the budget of ada is used up")
        assert "gate held mine" in omega.text("events")
        assert [row["name"] for row in omega.json("job", "list", "--state", "held")["jobs"]] == ["mine"]
        budget.spent.clear()
        eventually(lambda: state(omega, "mine") == "running")
        assert "gate released mine" in omega.text("events")
    assert not verify(cell).violations


def test_a_person_releases_a_job_that_the_gate_would_hold_again(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    budget = Budget()
    with executor(cell), gated(cell, budget):
        run(omega, "mine")
        eventually(lambda: state(omega, "mine") == "held")
        omega.run("job", "release", "mine")
        eventually(lambda: state(omega, "mine") == "running")
        assert budget.spent == {"ada"}
    assert not verify(cell).violations


def test_another_scheduler_of_the_kind_takes_over_what_a_gate_holds(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    with executor(cell):
        with gated(cell, Budget()):
            run(omega, "mine")
            eventually(lambda: state(omega, "mine") == "held")
        assert state(omega, "mine") == "held"  # it stays held when its scheduler ends
        free = Budget()
        free.spent.clear()
        with gated(cell, free, "batch/1"):
            eventually(lambda: state(omega, "mine") == "running")


class Failing:
    """Raises for some jobs."""

    def hold(self, work: public.Work, now: float) -> str | None:
        if work.job.name == "bad":
            raise KeyError(work.job.name)
        return None


class Wrong:
    """Returns no text."""

    def hold(self, work: public.Work, now: float) -> str | None:
        return True  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("gate", "said"),
    [(Failing(), "its gate fails: policy Failing (…): KeyError: 'bad'"),
     (Wrong(), "its gate fails: gate Wrong: hold returned a bool; return the reason as text, None to let the job…")],
)  # fmt: skip
def test_a_gate_that_raises_holds_the_job_with_the_error(
    omega: Omega, cell: RedisCell, gate: public.Gate, said: str
) -> None:
    join(cell, 2)
    with executor(cell), gated(cell, gate):
        run(omega, "bad")
        eventually(lambda: state(omega, "bad") == "held")
        found = omega.json("job", "status", "bad")["gate"]
        before, _, after = said.partition("…")
        assert found.startswith(before)
        assert found.endswith(after or "pass")
        if after:
            assert "test_gate.py:" in found
            run(omega, "good")
            eventually(lambda: state(omega, "good") == "running")
        omega.run("job", "release", "bad")
        eventually(lambda: state(omega, "bad") == "running")

"""A policy that does not return: its scheduler is ended and started again, and only the job that it hangs at waits."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from omega.cellstate.redis.cell import RedisCell
from omega.queries.explanations import explain_job
from tests.integration import hanging_policies
from tests.integration.stage import made_cell, serve, simple_job, started_processes, submit, until

pytestmark = pytest.mark.server
SECONDS = "1.5"
SAID = {"did not return", "hanging_policies.py"}
QUICK = {("placement", "lock"), ("together", "loop")}


def started(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("OMEGA_SCHEDULER", f"tests.integration.hanging_policies:{kind}")
    monkeypatch.setenv("OMEGA_CALL_SECONDS", SECONDS)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        pytest.param(kind, how, marks=() if (kind, how) in QUICK else pytest.mark.chaos)
        for kind in ("placement", "together", "preemption", "gate")
        for how in hanging_policies.HANGS
    ],
)
def test_a_job_at_which_a_policy_hangs_waits_alone(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: str
) -> None:
    started(monkeypatch, kind)
    with (
        made_cell(store_url, f"hangs-{kind}-{how}", 2) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0") as group,
    ):
        serve(cell)
        size = 9_000 if kind == "preemption" else 100  # what fits is placed without evictions
        submit(cell, [simple_job(f"{how}-1", cpu=size), *(simple_job(f"good-{n}") for n in range(5))])
        until(lambda: placed(cell) == {f"good-{n}" for n in range(5)}, "the other jobs are placed", 60.0)
        submit(cell, [simple_job("later")])
        until(lambda: "later" in placed(cell), "later jobs are placed, too")
        until(lambda: set(re.findall(r"[\w.]+ not return|hanging_policies.py", why(cell, f"{how}-1"))) >= SAID, "why")
        assert group.members["batch/0"].poll() is None
        group.members["batch/0"].send_signal(signal.SIGTERM)
        assert group.members["batch/0"].wait(20) == 0


def why(cell: RedisCell, name: str) -> str:
    job = cell.jobs.get(name)
    assert job is not None
    return str(explain_job(cell, job))


def placed(cell: RedisCell) -> set[str]:
    return {job.name for job in cell.jobs.all() if not job.pending}


@pytest.mark.chaos
@pytest.mark.parametrize("how", ["sleep", "loop"])
def test_a_scheduler_ends_after_sigterm_while_a_policy_hangs(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    started(monkeypatch, "placement")
    monkeypatch.setenv("OMEGA_CALL_SECONDS", "600")
    with (
        made_cell(store_url, f"leaves-{how}", 2) as cell,
        started_processes(cell, store_url, tmp_path, "batch/0") as group,
    ):
        serve(cell)
        submit(cell, [simple_job("good")])
        until(lambda: placed(cell) == {"good"}, "the first is placed")
        submit(cell, [simple_job(f"{how}-1")])
        time.sleep(2.0)  # it hangs by now; if it did not, the scheduler would end with 0
        group.members["batch/0"].send_signal(signal.SIGTERM)
        assert group.members["batch/0"].wait(30) == 1, "it was killed"


@pytest.mark.chaos
@pytest.mark.parametrize("how", hanging_policies.HANGS)
def test_the_successor_on_another_computer_sets_the_job_aside(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The first one and its watch are killed once the watch said at which job it hung: only the store knows it then."""
    started(monkeypatch, "placement")
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with (
        made_cell(store_url, f"successor-{how}", 2) as cell,
        started_processes(cell, store_url, tmp_path / "one", "batch/0") as one,
    ):
        serve(cell)
        submit(cell, [simple_job(f"{how}-1")])
        until(lambda: set(re.findall(r"[\w.]+ not return|hanging_policies.py", why(cell, f"{how}-1"))) >= SAID, "why")
        os.killpg(one.members["batch/0"].pid, signal.SIGKILL)
        with started_processes(cell, store_url, tmp_path / "other", "batch/1") as other:
            until(
                lambda: f"{how}-1" in cell.schedulers.figures().get("batch/1", {}).get("hung", {}),
                "it sets the job aside, too",
            )
            good = {f"good-{n}" for n in range(5)}
            submit(cell, [simple_job(name) for name in sorted(good)])
            until(lambda: placed(cell) >= good, "the other jobs are placed", 60.0)
            words = [fact.event for fact in cell.log.facts(0, 10_000)]
            before = words[: max(n for n, each in enumerate(words) if each[0] == "place")]
            hung = [each for each in before if each[:2] == ("enlist", "batch/1")][1:]
            assert hung == [], "it did not hang at the job before it placed the others"
            assert other.members["batch/1"].poll() is None

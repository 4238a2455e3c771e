"""Runners and admissions that do not return: the call ends in its time, and the next one is answered."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega import admission
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import JobSpec, TaskGroup
from omega.live import called_apart
from omega.live.agent.runners import ForeignRunner
from omega.live.called_apart import Apart, HangError
from omega.live.runners.runner import RunnerTask
from omega.schedulers.registry import RegistryEntry
from tests.integration import hanging_policies
from tests.integration.hanging_policies import hang_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(called_apart, "FIRST_SECONDS", 2.0)


@pytest.fixture
def apart() -> Iterator[Apart]:
    made = Apart()
    yield made
    made.close()


@pytest.mark.parametrize("how", hanging_policies.HANGS)
def test_a_call_that_does_not_return_ends_and_the_next_is_answered(apart: Apart, how: str) -> None:
    with pytest.raises(HangError, match=r"did not return within 2\.2 s"):
        apart.call(hang_for, f"{how}-1", seconds=0.2)
    assert apart.call(hang_for, "good") == "good"


def test_an_end_and_errors_of_the_process_are_refusals(apart: Apart) -> None:
    with pytest.raises(Refused, match="ended its process"):
        apart.call(os.abort)
    with pytest.raises(Refused, match="TypeError: "):
        apart.call(hang_for, 1, 2)
    assert apart.call(hang_for, "good") == "good"


@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.chaos) for how in ("sleep", "loop")] + ["lock"])
def test_a_runner_that_hangs_for_a_job_is_not_asked_about_it_again_at_once(
    apart: Apart, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("omega.live.called_apart.CALL_SECONDS", 0.5)
    entry = RegistryEntry(
        axis="runner", name="r", package="x", version="1", target="tests.integration.hanging_policies:HangingRunner"
    )
    runner = ForeignRunner(entry, apart)
    assert runner.available() == "1"

    def task(job: str) -> RunnerTask:
        return RunnerTask(
            name="t", command=["true"], health=(), environment={"OMEGA_JOB": job}, inherited={}, directory="/",
            image="", uid=0, gid=0, cpu_millicores=0, memory_bytes=0,
        )  # fmt: skip

    with pytest.raises(HangError):
        runner.start(task(f"{how}-1"))
    with pytest.raises(BadInput, match="not asked again yet"):
        runner.start(task(f"{how}-1"))
    assert runner.start(task("good")).command == ["true"]


@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.chaos) for how in ("sleep", "loop")] + ["lock"])
def test_an_admission_that_hangs_refuses_the_job_and_admits_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    info = tmp_path / "hooks-3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hooks\nVersion: 3\n")
    (info / "entry_points.txt").write_text("[omega.admission]\na = tests.integration.hanging_policies:admit\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setattr(called_apart, "CALL_SECONDS", 0.5)
    admission._installed.cache_clear()
    try:
        with admission.bounded():
            with pytest.raises(Refused, match=f"job {how}-1: admission a: did not return within"):
                admission.admitted(spec(f"{how}-1"))
            assert admission.admitted(spec("good")) == spec("good")
    finally:
        called_apart.shared().close()
        called_apart._made.clear()
        admission._installed.cache_clear()


def spec(name: str) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((1, 1), 1),))

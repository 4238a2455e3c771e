"""What a member process is told by its environment."""

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.transaction import Detection, Mode
from omega.live import choice, member
from omega.live.processes.supervisor import TIME
from omega.schedulers.presets import BATCH_JOBS
from omega.schedulers.scheduler import Scheduler

ENVIRONMENT = {"OMEGA_STORE": "redis://nowhere", "OMEGA_CELL": "c", "OMEGA_MEMBER": "batch/0", "OMEGA_LEASE_MS": "700"}


def test_without_words_it_is_the_preset() -> None:
    found = choice.scheduler({}, "batch", "s")
    assert (found.kind, found.detection, found.mode, found.jobs_per_call) == (
        "batch",
        Detection.FINE,
        Mode.INCREMENTAL,
        BATCH_JOBS,
    )
    assert choice.scheduler({}, "batch", "s").rng.random() == found.rng.random()


def test_the_environment_departs_from_it() -> None:
    said = {"OMEGA_DETECTION": "coarse", "OMEGA_MODE": "gang", "OMEGA_JOBS_PER_CALL": "3"}
    found = choice.scheduler(said, "service", "s")
    assert (found.kind, found.detection, found.mode, found.jobs_per_call) == ("service", Detection.COARSE, Mode.GANG, 3)


@pytest.mark.parametrize("said", [{"OMEGA_DETECTION": "finest"}, {"OMEGA_MODE": ""}, {"OMEGA_JOBS_PER_CALL": "many"}])
def test_values_there_are_not_are_refused(said: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="OMEGA_DETECTION, OMEGA_MODE or OMEGA_JOBS_PER_CALL"):
        choice.scheduler(said, "batch", "s")


def test_an_error_is_one_line_and_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(url: str, cell: str, name: str, scheduler: Scheduler, lease_ms: int, watch: None) -> Refused:
        return Refused(f"scheduler {name}: no, not on {url} {cell} for {lease_ms} ms")

    monkeypatch.setattr("omega.schedulers.process.scheduler.run_member", refuse)
    assert member.run(ENVIRONMENT) == 1
    assert member.run(ENVIRONMENT | {"OMEGA_MEMBER": "nosuch/0"}) == 1
    refused, unknown = [TIME.sub("", line) for line in capsys.readouterr().err.splitlines()]
    assert refused == "error: scheduler batch/0: no, not on redis://nowhere c for 700 ms"
    assert unknown.startswith("error: unknown scheduler 'nosuch'; known: ")


def test_leaving_in_order_is_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, str]]()

    def run(url: str, cell: str, name: str, scheduler: Scheduler, lease_ms: int, watch: None) -> None:
        asked.append((name, scheduler.kind))

    monkeypatch.setattr("omega.schedulers.process.scheduler.run_member", run)
    assert member.run(ENVIRONMENT) == 0
    assert asked == [("batch/0", "batch")]

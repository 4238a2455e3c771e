"""`omega up --scheduler`: what a value may be, and how the processes get it."""

import sys
from pathlib import Path

import click
import pytest

from omega.cellstate.errors import BadInput
from omega.cli.scheduler_choice import further

OWN = 'import omega\n\nmine = omega.Scheduler("mine")\nagents = omega.Scheduler("agent")\n'


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_schedulers", raising=False)
    (tmp_path / "own_schedulers.py").write_text(OWN)
    (tmp_path / "a=b.toml").write_text('kind = "tight"\n[placement]\npolicy = "best-fit"\n')


def test_a_value_is_a_name_a_module_or_a_file_each_with_a_number() -> None:
    assert further(["batch=3", "own_schedulers:mine=2", "a=b.toml"]) == (
        {"batch": 3, "mine": 2, "tight": 1},
        {
            "batch": {"OMEGA_SCHEDULER": "batch"},
            "mine": {"OMEGA_SCHEDULER": "own_schedulers:mine"},
            "tight": {"OMEGA_SCHEDULER_FILE": "a=b.toml"},
        },
    )
    assert further([]) == ({}, {})


@pytest.mark.parametrize("text", ["batch=0", "batch=65", "batch=x", "batch="])
def test_a_number_of_processes_is_from_1_to_64(text: str) -> None:
    with pytest.raises(click.UsageError, match="want 1 to 64"):
        further([text])


def test_a_kind_is_given_once() -> None:
    with pytest.raises(click.UsageError, match="kind mine is given twice"):
        further(["own_schedulers:mine", "own_schedulers:mine"])


@pytest.mark.parametrize("text", ["own_schedulers:agents", "own_schedulers:other", "nothing", "absent.toml"])
def test_what_cannot_run_is_refused_before_anything_starts(text: str) -> None:
    with pytest.raises(BadInput):
        further([text])

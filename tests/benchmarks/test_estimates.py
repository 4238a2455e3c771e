"""Every benchmark says at its start how long it takes."""

import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchmarks
from benchmarks import (
    blocked,
    commit,
    conflict,
    durability,
    everything,
    fair,
    heat_map,
    instructions,
    intake,
    latency,
    launch,
    lists,
    place,
    questions,
    recording,
    shards,
    sim,
    tasks,
    web,
    web_pages,
    web_submissions,
    what_if,
)
from benchmarks.estimates import BY_MODULE, estimate, unit

DEFAULTS = {
    "blocked": blocked.Settings(),
    "commit": commit.Settings(),
    "conflict": conflict.Settings(),
    "durability": durability.Settings(),
    "everything": everything.Settings(),
    "fair": fair.Settings(),
    "heat_map": heat_map.Settings(),
    "instructions": instructions.Settings(),
    "intake": intake.Settings(),
    "lists": lists.Settings(),
    "place": place.Settings(),
    "questions": questions.Settings(),
    "recording": recording.Settings(),
    "latency": latency.Settings(),
    "shards": shards.Settings(),
    "sim": sim.Settings(),
    "tasks": tasks.Settings(),
    "web": web.Settings(),
    "web_pages": web_pages.Settings(),
    "web_submissions": web_submissions.Settings(),
    "what_if": what_if.Settings(seconds=5.0),
}


def test_every_benchmark_has_an_estimate() -> None:
    folder = Path(benchmarks.__file__).parent
    started = {file.stem for file in folder.glob("*.py") if "    launch(" in file.read_text("utf-8")}
    assert started == BY_MODULE.keys() == DEFAULTS.keys()


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_slower_computer_and_a_wait_for_calm_take_longer(name: str) -> None:
    seconds = BY_MODULE[name](DEFAULTS[name], 0.1, 0.0)
    assert 1 < seconds < 3_600
    assert seconds < BY_MODULE[name](DEFAULTS[name], 0.2, 0.0)
    assert seconds <= BY_MODULE[name](DEFAULTS[name], 0.1, 1.0)


def test_settings_that_state_more_time_take_longer() -> None:
    assert BY_MODULE["commit"](commit.Settings(rounds=10), 0.1, 0.0) > BY_MODULE["commit"](commit.Settings(), 0.1, 0.0)
    assert estimate("nothing", None) is None
    assert 0 < unit() < 10


def test_the_estimate_is_printed_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"jobs": 1_000}) + "\n"))
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="benchmarks.intake"))
    with pytest.raises(SystemExit, match="0"):
        launch.launch(intake.Settings, lambda settings: {"jobs": settings.jobs})
    said = capsys.readouterr()
    assert json.loads(said.out) == {"jobs": 1_000}
    assert re.fullmatch(r"intake: takes about \d+s\n", said.err)

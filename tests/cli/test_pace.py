"""Long work: how long it still takes, progress without a terminal, and what is checked before it begins."""

import sys
from pathlib import Path
from random import Random

import pytest

from omega.cli import pace, render
from omega.cli.pace import Pace
from tests.cli.conftest import Omega


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_estimate_is_right_within_a_factor_of_two(workers: int) -> None:
    """Work in virtual time: pieces of weights 1 to 4 whose length strays from their weight by a third."""
    rng = Random(workers)
    weights = [rng.choice([1.0, 2.0, 3.0, 4.0]) for _ in range(6 * workers)]
    lengths = [weight * rng.uniform(0.7, 1.3) for weight in weights]
    now, free, ends = 0.0, [0.0] * workers, []
    for weight, length in zip(weights, lengths, strict=True):
        begins = min(free)
        free[free.index(begins)] = begins + length
        ends.append((begins + length, weight))
    found = Pace(sum(weights), workers, clock=lambda: now)
    assert (found.left(), found.text()) == (None, "")
    for end, weight in sorted(ends)[:-workers]:
        now = end
        found.finish(weight)
        left, truth = found.left(), max(free) - now
        assert left is not None
        assert truth / 2 - 1 <= left <= 2 * truth + 1, (now, left, truth)


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ticking = pace.ticking
    monkeypatch.setattr(pace, "ticking", lambda tell: ticking(tell, every=0.01))
    with render.progress() as bars:
        bar = bars.add_task("points", total=4, completed=1, more="")
        hidden = bars.add_task("nothing", total=4, more="", visible=False)
        seen = ""
        while "points 1 of 4 · about " not in seen:
            seen += capsys.readouterr().err
        bars.update(bar, completed=4)
        bars.update(hidden, completed=4)
    assert "nothing" not in seen
    with render.busy("verifying \x1bx"):
        seen = ""
        while "verifying x: 0s so far" not in seen:
            seen += capsys.readouterr().err


def test_short_work_prints_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with render.busy("verifying"), render.progress() as bars:
        bars.add_task("points", total=4, more="")
    assert capsys.readouterr() == ("", "")


LONG = ("--days", "1000", "--workers", "1")


@pytest.mark.parametrize(
    ("words", "missing", "said"),
    [
        (("sim", "sweep", "--vary", "batch=1,2", "--plot", "out.svg", *LONG), "matplotlib", "figures need matplotlib"),
        (("sim", "figure", "5", *LONG), "matplotlib", "figures need matplotlib; pip install 'omega-scheduler[plots]'"),
        (("sim", "report", *LONG), "matplotlib", "figures need matplotlib; pip install 'omega-scheduler[plots]'"),
        (("sim", "sweep", "--vary", "batch=1,2", "--plot", "file/out.svg", *LONG), None, "file: File exists; choose"),
        (("sim", "figure", "5", "--output", "file/f", *LONG), None, "file/f: Not a directory; choose another"),
        (("sim", "report", "--figures", "file/f", *LONG), None, "file/f: Not a directory; choose another"),
    ],
)
def test_what_is_missing_is_found_before_the_work(
    words: tuple[str, ...], missing: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("omega.cli.sim.executor._executor", lambda *_: pytest.fail("it began to simulate"))
    if missing is not None:
        for name in [name for name in sys.modules if name.startswith("omega.experiments.plots")]:
            monkeypatch.delitem(sys.modules, name)
        find = __import__("importlib.util").util.find_spec
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda name, *more: None if name == missing else find(name, *more)
        )
    assert said in Omega(None).error(*words)


def test_an_unknown_metric_ends_a_sweep_after_its_first_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("sim", "sweep", "--vary", "seed=0..30", "--days", "0.001", "--machines", "50", "--workers", "1")
    said = Omega(None).error(*words, "--metric", "waits")
    assert said.startswith("unknown metric 'waits'; known: ")
    assert said.endswith("1 finished point in omega-sweep.jsonl; run it again to resume")

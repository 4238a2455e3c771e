"""`omega experiment` and `omega sim figure`: lists, small forms, files, exit codes."""

from dataclasses import replace
from pathlib import Path

import pytest

from omega.experiments import catalogue
from omega.experiments.catalogue import EXPERIMENTS
from omega.experiments.finding import Measurements
from tests.cli.conftest import Omega


@pytest.fixture
def sim() -> Omega:
    """The program; nothing here needs a store."""
    return Omega(None)


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    return ("--results", str(tmp_path / "results.jsonl"), "--workers", "1")


def test_the_list(sim: Omega) -> None:
    found = sim.json("experiment", "list")["experiments"]
    assert {"name", "figure", "claim", "source", "metric", "expectation", "fitted"} == set(found[0])
    assert "shared-independent" in sim.text("experiment", "list")


def test_run_says_what_was_measured(sim: Omega, words: tuple[str, ...]) -> None:
    (found,) = sim.json("experiment", "run", "many-schedulers", "--small", *words)["experiments"]
    assert found["verdict"] == "no verdict"
    assert found["simulations"] == 4
    text = sim.text("experiment", "run", "many-schedulers", "--small", *words)
    assert "conflict fraction" in text
    assert "no verdict" in text


def test_a_smaller_run_gives_figures_and_no_verdict(sim: Omega, words: tuple[str, ...]) -> None:
    """`saturation-c` and `many-schedulers` look well in small; whole cells say otherwise."""
    names = ("saturation-c", "many-schedulers")
    found = sim.json("experiment", "check", *names, "--small", *words)
    assert found["ok"] is True
    assert {(each["verdict"], each["held"]) for each in found["experiments"]} == {("no verdict", 0)}
    assert all(each["measured"] and each["reason"] for each in found["experiments"])
    text = sim.text("experiment", "check", *names, "--small", *words)
    assert "2 no verdict" in text
    assert "hold" not in text
    (found,) = sim.json("experiment", "check", "saturation-c", "--days", "0.001", "--seeds", "1", *words)["experiments"]
    assert found["verdict"] == "no verdict"


def test_what_cannot_be_measured_has_its_reason(sim: Omega, words: tuple[str, ...]) -> None:
    for less in ((), ("--small",)):
        text = sim.text("experiment", "check", "service-months", *less, *words)
        assert "not measurable  " in text
        assert "the tables cover 7 hours of the trace" in text


def test_check_fails_when_a_claim_does_not_hold(
    sim: Omega, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuted(measured: Measurements, *_: object) -> None:
        measured.want(False)
        measured.say("less")

    monkeypatch.setitem(EXPERIMENTS, "service-share", replace(EXPERIMENTS["service-share"], criterion=refuted))
    assert sim.json("experiment", "check", "machines-of-c", "service-months", *words)["ok"] is True
    text = sim.text("experiment", "check", "machines-of-c", "service-share", "--seeds", "1", *words, code=1)
    assert "does not hold" in text
    assert "unknown experiment 'x'" in sim.error("experiment", "check", "x", *words)


def test_a_figure_is_two_files(sim: Omega, tmp_path: Path) -> None:
    found = sim.json(
        "sim",
        "figure",
        "8",
        "--cluster",
        "A",
        "C",
        "--days",
        "0.001",
        "--machines",
        "40",
        "--workers",
        "1",
        "--output",
        str(tmp_path / "out"),
    )
    assert found["clusters"] == ["A", "C"]
    assert found["simulations"] == len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 10
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "figure-8.png",
        "figure-8.svg",
        "results.jsonl",
    ]


def test_wrong_figures_and_cells(sim: Omega) -> None:
    assert sim.error("sim", "figure", "12") == "figure 12: is drawn from a trace; give --trace DIRECTORY"
    assert "no such preset; known: A, B, C" in sim.error("sim", "figure", "5", "--cluster", "A", "D")


@pytest.mark.chaos
def test_the_report_is_a_page_with_its_figures(sim: Omega, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "FIGURES", {number: catalogue.FIGURES[number] for number in (3, 8)})
    page, results = tmp_path / "docs" / "page.md", tmp_path / "results.jsonl"
    words = (
        "sim",
        "report",
        "--days",
        "0.001",
        "--machines",
        "40",
        "--cluster",
        "A",
        "--seeds",
        "1",
        "--workers",
        "1",
        "--revision",
        "commit 0123456",
        "--output",
        str(page),
        "--figures",
        str(tmp_path / "docs" / "figures"),
        "--results",
        str(results),
    )
    found = sim.json(*words)
    text = page.read_text()
    assert found["page"] == str(page)
    assert set(found["verdicts"]) >= {"service-longer", "saturation-a"}
    assert {found["verdicts"][name] for name in ("saturation-a", "batch-by-arrivals")} == {"no verdict"}
    assert found["verdicts"]["service-longer"] == "holds", "read off the tables: no run is smaller"
    assert "figures and no verdict" in text
    assert "\nomega sim report --days 0.001 --cluster A --machines 40 --seeds 1\n" in text
    assert "commit 0123456" in text
    assert "(figures/figure-8.svg)" in text
    assert sorted(path.name for path in (tmp_path / "docs" / "figures").iterdir()) == ["figure-3.svg", "figure-8.svg"]
    lines = results.read_text()
    assert len(lines.splitlines()) == 9
    again = sim.text(*words)
    assert results.read_text() == lines, "it went on where it stopped: nothing was left to simulate"
    assert page.read_text() == text
    assert "no verdict: " in again


def test_sizing_policies_by_the_model_and_by_the_loop(sim: Omega) -> None:
    words = ("sim", "mapreduce", "--machines", "200", "--days", "0.004")
    for more, deviation in ((("--fill", "1"), True), (("--loop",), False)):
        found = sim.json(*words, *more)["outcomes"]
        assert [each["policy"] for each in found] == ["as-asked", "max-parallelism", "relative-size", "global-cap"]
        assert found[0]["benefit"] == 0.0
        assert ("deviation" in found[0]["utilisation"]["cpu"]) is deviation
    assert "max-parallelism" in sim.text(*words, "--loop")
    assert "--fill needs the aggregate model" in sim.error(*words, "--loop", "--fill", "1", code=2)

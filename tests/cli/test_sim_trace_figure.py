"""`omega sim figure --trace` and `omega sim high-fidelity`: figures, tables, resumed runs, errors in a line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Omega
from tests.figures.made_trace import write_made

WORKERS = ("--workers", "1")


@pytest.fixture
def sim() -> Omega:
    """The program; nothing here needs a store."""
    return Omega(None)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_made(tmp_path_factory.mktemp("made"))


@pytest.mark.chaos
def test_a_figure_prints_points_with_intervals_and_claims(sim: Omega, trace: Path, tmp_path: Path) -> None:
    words = (
        "sim",
        "figure",
        "13",
        "--trace",
        str(trace),
        "--quick",
        "--factor",
        "1",
        "--output",
        str(tmp_path),
        *WORKERS,
    )
    found = sim.json(*words)
    assert (found["figure"], found["kind"], found["seeds"]) == (13, "batch", 1)
    for point in found["points"]:
        assert point["busyness"]["low"] <= point["busyness"]["value"] <= point["busyness"]["high"]
        assert point["jobs"] == 300
    one, three = found["saturation"]
    assert one["low"] < 4.0 < one["high"] * 1.03
    assert 2.8 < (three["low"] + three["high"]) / (one["low"] + one["high"]) < 3.2
    assert {each["name"]: each["verdict"] for each in found["claims"]}["hifi-saturation"] == "holds"
    assert [Path(file).name for file in found["files"]] == ["figure-13.svg", "figure-13.png"]
    results = tmp_path / "trace-results.jsonl"
    lines = results.read_text().splitlines()
    assert len(lines) == found["simulations"]
    text = sim.text(*words)
    assert results.read_text().splitlines() == lines
    assert "saturated from between" in text
    assert "hifi-saturation: holds" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.chaos
def test_the_sizing_figures_need_no_swim_file(sim: Omega, trace: Path, tmp_path: Path) -> None:
    words = ("--trace", str(trace), "--hours", "0.3", "--quick", "--output", str(tmp_path))
    found = sim.json("sim", "figure", "16", *words)
    assert {point["cell"] for point in found["points"]} == {"A", "C", "D"}
    assert [each["name"] for each in found["claims"]] == ["hifi-mapreduce-varies"]
    assert (tmp_path / "figure-16.svg").exists()


@pytest.mark.parametrize(
    ("code", "words", "says"),
    [
        (1, ("11",), "figure 11: is drawn from a trace; give --trace DIRECTORY"),
        (2, ("5", "--quick"), "--quick is for runs of a trace"),
        (1, ("5", "--trace", "{trace}"), "figure 5: is not drawn from a trace; want 11 to 16"),
        (2, ("11", "--trace", "{trace}", "--days", "1"), "--cluster, --days and --machines are for figures without"),
        (1, ("12", "--trace", "{trace}/none"), "o such file or directory"),
        (1, ("12", "--trace", "{empty}"), "no trace of a supported format"),
        (2, ("12", "--trace", "{trace}", "--swim", "x.tsv"), "--swim is for figures 15 and 16"),
        (2, ("15", "--trace", "{trace}", "--copies", "2"), "are for figures 11 to 14"),
        (1, ("15", "--trace", "{trace}", "--swim", "{trace}/none.tsv"), "none.tsv"),
        (1, ("13", "--trace", "{trace}", "--hours", "0.0000001"), "no job arrives in it"),
    ],
)
def test_errors_are_one_line(
    sim: Omega, trace: Path, tmp_path: Path, code: int, words: tuple[str, ...], says: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    given = [word.format(trace=trace, empty=empty) for word in words]
    text = sim.error("sim", "figure", *given, "--output", str(tmp_path / "out"), code=code)
    assert says in text
    assert len(text.strip().splitlines()) <= 3


@pytest.mark.chaos
def test_the_page_has_every_claim(sim: Omega, trace: Path, tmp_path: Path) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "figures"
    options = ("--output", str(page), "--figures", str(figures), "--results", str(tmp_path / "r.jsonl"))
    found = sim.json(
        "sim",
        "high-fidelity",
        str(trace),
        "--quick",
        "--hours",
        "0.3",
        *options,
        "--revision",
        "commit 0123456",
        *WORKERS,
    )
    text = page.read_text()
    assert {each["figure"] for each in found["claims"]} == {11, 12, 13, 14, 15, 16}
    for each in found["claims"]:
        assert f"`{each['name']}`" in text
        assert f"**{each['verdict']}**" in text
        assert not each["reason"] or each["reason"] in text
    for number in range(11, 17):
        assert f"(figures/high-fidelity-{number}.svg)" in text
        assert (figures / f"high-fidelity-{number}.svg").exists()
    assert "omega sim high-fidelity DIRECTORY --quick --hours 0.3\n" in text
    assert "commit 0123456" in text

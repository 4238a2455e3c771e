"""Every figure of the paper in small form, and the page that reports them."""

from pathlib import Path, PurePosixPath

import pytest

from omega.experiments import arrivals, decision_time, offers, sizing, surface
from omega.experiments.experiment import Form, Sweeping, nothing
from omega.experiments.figures import FIGURES
from omega.experiments.plots.draw import draw
from omega.experiments.plots.look import LOOKS
from omega.experiments.report import judged, page
from tests.figures.conftest import Small

SMALL: dict[int, tuple[Sweeping, Form]] = {
    2: (nothing, Form(0.01, 0, ("C",))),
    3: (nothing, Form(0.01, 0, ("A", "C"))),
    4: (nothing, Form(0.01, 0, ("C",))),
    5: (decision_time.sweep, decision_time.SMALL),
    6: (decision_time.sweep, decision_time.SMALL),
    7: (offers.sweep, offers.SMALL),
    8: (arrivals.sweep, arrivals.SMALL),
    9: (arrivals.shared_sweep, arrivals.SMALL_SHARED),
    10: (surface.sweep, surface.SMALL),
    15: (nothing, sizing.NONE),
    16: (nothing, sizing.NONE),
}
SAYS = {
    2: ["C (measured)", "memory × time"], 3: ["A (calibrated)", "gap between jobs (s)"], 4: ["tasks per job"],
    5: ["mean job wait (s)", "SLO 30 s", "shared state (Omega)"], 6: ["busyness"], 7: ["jobs not scheduled"],
    8: ["paper 2.5×"], 9: ["conflict fraction", "32 schedulers"], 10: ["t_task(service) (s)", "two-level (Mesos)"],
    15: ["times as fast as asked", "global-cap"], 16: ["memory in use", "hours"],
}  # fmt: skip


@pytest.mark.parametrize("number", FIGURES)
def test_a_figure_is_drawn_in_both_forms(number: int, small: Small, tmp_path: Path) -> None:
    sweep, form = SMALL[number]
    paths = [tmp_path / f"figure{ending}" for ending in (".svg", ".png")]
    draw(FIGURES[number], small.records(sweep, form), form, *paths)
    text = paths[0].read_text()
    for words in SAYS[number]:
        assert words in text
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    again = tmp_path / "again.svg"
    draw(FIGURES[number], small.records(sweep, form), form, again)
    assert again.read_text() == text


def test_architectures_can_be_told_apart() -> None:
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.marker for look in LOOKS.values()}) == len(LOOKS)


def test_the_page_has_every_claim_and_its_command(small: Small) -> None:
    parts = [judged(what, SMALL[number][1], small.records(*SMALL[number])) for number, what in FIGURES.items()]
    text = page(parts, PurePosixPath("figures"), "omega sim report --days 7")
    for part in parts:
        assert f"`omega sim figure {part.figure.number}`" in text
        assert f"(figures/figure-{part.figure.number}.svg)" in text
        for name, finding in part.findings.items():
            assert f"`{name}` | " in text
            assert finding.measured in text
    assert "omega sim report --days 7\n" in text
    assert "calibrated" in text

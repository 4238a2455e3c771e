"""Every figure of the paper in small form, and the page that reports them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from omega.experiments import arrivals, decision_time, offers, sizing, surface
from omega.experiments.catalogue import EXPERIMENTS, FIGURES, of_figure
from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Extent, Sweeping, nothing
from omega.experiments.finding import Conclusion
from omega.experiments.plots.draw import draw
from omega.experiments.plots.style import STYLES
from omega.experiments.report import RANGE, ReportSection, carried_out, page
from omega.experiments.results import Record
from tests.figures.conftest import Small
from tests.tiers import one_of

SMALL: dict[int, tuple[Sweeping, Extent]] = {
    2: (nothing, Extent(0.01, 0, ("C",))),
    3: (nothing, Extent(0.01, 0, ("A", "C"))),
    4: (nothing, Extent(0.01, 0, ("C",))),
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
    2: ["C (measured)", "memory × time"],
    3: ["A (calibrated)", "gap between jobs (s)"],
    4: ["tasks per job"],
    5: ["mean job wait (s)", "SLO 30 s", "shared state (Omega)"],
    6: ["busyness"],
    7: ["batch jobs", "abandoned"],
    8: ["saturates in the paper", "busyness of batch"],
    9: ["conflict fraction", "32 schedulers"],
    10: ["t_task(service) (s)", "two-level (Mesos)"],
    15: ["speed-up over requested workers", "global-cap"],
    16: ["memory in use (%)", "max-parallelism: ", "hours"],
}


@pytest.mark.parametrize("number", one_of(4, FIGURES))
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
    assert len({look.colour for look in STYLES.values()}) == len(STYLES)
    assert len({look.marker for look in STYLES.values()}) == len(STYLES)


@pytest.mark.chaos
def test_the_page_has_every_claim_and_its_command(small: Small) -> None:
    parts = []
    for number, what in FIGURES.items():
        runs = [carried_out(each, each.small, small.simulate) for each in of_figure(number)]
        parts.append(ReportSection(what, SMALL[number][1], small.records(*SMALL[number]), runs))
    text = page(parts, PurePosixPath("figures"), "omega sim report --days 7", "commit 0123456")
    for part in parts:
        assert f"`omega sim figure {part.figure.number}`" in text
        assert f"(figures/figure-{part.figure.number}.svg)" in text
        for run in part.runs:
            assert f"`{run.experiment.name}` | " in text
            measured = run.finding.measured.split("; ")
            assert "<br>".join(RANGE.sub(r"(\1–\2)", each) for each in measured) in text
            if run.finding.verdict is not Conclusion.UNKNOWN:
                assert re.search(rf"`omega experiment run [^`]*\b{run.experiment.name}\b[^`]*` · ", text)
    assert "omega sim report --days 7\n" in text
    assert "commit 0123456" in text
    fitted = [run for part in parts for run in part.runs if run.experiment.fitted]
    assert {run.experiment.name for run in fitted} == {
        "saturation-a",
        "saturation-b",
        "mapreduce-benefit",
        "mapreduce-faster",
    }
    assert f"of {len(EXPERIMENTS) - len(fitted)} claims" in text
    assert f"{len(fitted)} more are no evidence" in text


def test_a_verdict_that_changes_with_the_length_does_not_hold(small: Small) -> None:
    experiment = EXPERIMENTS["shared-schedules-all"]
    form = replace(experiment.small, seeds=2)

    def simulate(wanted: Sequence[Configuration]) -> list[Record]:
        """All jobs are scheduled; in longer runs one is counted as abandoned."""
        found = small.simulate([replace(each, days=form.days, seed=0) for each in wanted])
        lost = int(wanted[0].days > form.days)
        return [
            {
                **record,
                "seed": each.seed,
                "result": {
                    **record["result"],
                    "jobs": record["result"]["jobs"] | {"submitted": 100, "scheduled": 100, "abandoned": lost},
                },
            }
            for each, record in zip(wanted, found, strict=True)
        ]

    run = carried_out(experiment, form, simulate, verdict=True)
    assert (run.finding.verdict, run.verdict) == (Conclusion.HOLDS, Conclusion.FAILS)
    text = page([ReportSection(FIGURES[5], form, [], [run])], PurePosixPath("figures"), "omega sim report")
    assert "With the first seed, 4 times as long: `shared-schedules-all` does not hold (" in text

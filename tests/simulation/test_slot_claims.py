"""The claims of the paper on delay scheduling: each can fail, and its simulation measures what it names."""

from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from omega.experiments import slot_claims as claims
from omega.experiments.catalogue import find
from omega.experiments.finding import Conclusion, Measurements
from omega.experiments.report import ExperimentRun
from omega.experiments.slot_report import FIGURES, page
from omega.experiments.slot_runs import Analysed, BinResult, Compared, analysed, macro, sensitivity, small_jobs
from omega.schedulers.comparisons.delay_analysis import predicted_locality


def bins(*node: float, seconds: float = 10.0) -> list[BinResult]:
    return [BinResult(each, 1.0, [seconds] * 2) for each in node]


GROWING, WHOLE = bins(0.1, 0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 0.9), bins(*[0.995] * 9)
SLOW = bins(*[0.5] * 9, seconds=40.0)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (lambda m: claims.judge_locality(m, GROWING, WHOLE), lambda m: claims.judge_locality(m, WHOLE, WHOLE)),
        (lambda m: claims.judge_locality(m, GROWING, WHOLE), lambda m: claims.judge_locality(m, GROWING, GROWING)),
        (
            lambda m: claims.judge_small(m, 3, Compared((0.1, 0.5), (0.75, 0.94), (12.0, 10.0))),
            lambda m: claims.judge_small(m, 3, Compared((0.1, 0.5), (0.75, 0.93), (12.0, 10.0))),
        ),
        (
            lambda m: claims.judge_throughput(m, 10, Compared((0, 0), (1, 1), (17.0, 10.0))),
            lambda m: claims.judge_throughput(m, 10, Compared((0, 0), (1, 1), (20.0, 10.0))),
        ),
        (
            lambda m: claims.judge_speed_up(m, SLOW, GROWING, (2.0, 6.0)),
            lambda m: claims.judge_speed_up(m, GROWING, SLOW, (0.1, 6.0)),
        ),
        (
            lambda m: claims.judge_delay_gain(m, bins(*[0.5] * 9, seconds=14.4), WHOLE),
            lambda m: claims.judge_delay_gain(m, SLOW, WHOLE),
        ),
        (
            lambda m: claims.judge_waiting(m, [SLOW[0], *GROWING[1:]], GROWING),
            lambda m: claims.judge_waiting(m, SLOW, GROWING),
        ),
        (
            lambda m: claims.judge_sensitivity(m, {0.0: (0.05, 0.11), 5.0: (0.98, 1.0), 10.0: (1.0, 0.98)}),
            lambda m: claims.judge_sensitivity(m, {0.0: (0.05, 0.11), 5.0: (0.97, 1.0), 10.0: (1.0, 0.98)}),
        ),
        (
            lambda m: claims.judge_heartbeats(m, {3.0: (0.68, 0.8), 5.0: (0.5, 0.6), 10.0: (0.2, 0.3)}),
            lambda m: claims.judge_heartbeats(m, {3.0: (0.68, 0.8), 5.0: (0.7, 0.6), 10.0: (0.2, 0.3)}),
        ),
        (lambda m: claims.judge_hot_spots(m, 0.5, 0.95), lambda m: claims.judge_hot_spots(m, 0.5, 0.94)),
        (
            lambda m: claims.judge_analysis(m, 10, 0.50, 0.519, 0.02),
            lambda m: claims.judge_analysis(m, 10, 0.50, 0.521, 0.02),
        ),
    ],
)
def test_a_claim_holds_or_fails_by_what_was_measured(
    good: Callable[[Measurements], None], bad: Callable[[Measurements], None]
) -> None:
    for judge, verdict in ((good, Conclusion.HOLDS), (bad, Conclusion.FAILS)):
        measured = Measurements()
        judge(measured)
        assert measured.finding().verdict is verdict


def test_delay_makes_jobs_of_every_bin_and_size_more_local() -> None:
    plain, late = (macro(0, policy, 2.0, 0.01) for policy in ("fair", "delay"))
    assert sum(each.node for each in late) > sum(each.node for each in plain) + 1
    found = small_jobs(0, 10, 300)
    assert found.with_delay[0] > found.without[0] + 0.3
    assert found.gain > 1.1


def test_a_longer_wait_gives_more_locality() -> None:
    assert sensitivity(0, 4, 0.0, 3.0, 70) + 0.5 < sensitivity(0, 4, 5.0, 3.0, 70)


def test_simulated_offers_agree_with_the_formula() -> None:
    local, offers = analysed(Analysed(skips=10, jobs=300, machines=40, slots=4, rate=10.0), 0)
    assert local == pytest.approx(predicted_locality(3 / 40, 11), abs=0.08)
    assert 4 < offers < 11


def test_the_page_has_a_row_for_each_claim_and_its_figures() -> None:
    computed = find(["delay-facebook", "delay-releases"], claims.EXPERIMENTS)
    runs = [ExperimentRun(each, each.form, (), each.evaluate((), each.form)) for each in computed]
    text = page(runs, PurePosixPath("figures"), "omega sim slots")
    assert "1 task left 73%, 2 left 93%, 10 left 100%; a job of 10 maps 96%".replace("; ", "<br>") in text
    assert all(f"figures/{name}.svg" in text for name in FIGURES)
    assert text.count("| **") == 2

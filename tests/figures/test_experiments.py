"""Every experiment in small form: the claim holds there too, except where only whole cells can show it."""

import gzip
from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput
from omega.experiments.catalogue import EXPERIMENTS, FIGURES, figure, find, of_figure
from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Extent, logarithmic, nothing
from omega.experiments.finding import Conclusion, Measurements, SeedFinding, concluded
from omega.experiments.results import Record
from tests.figures.conftest import Small

ELSEWHERE = {
    "single-path-one-line": "a handful of service jobs is no sample",
    "slo-on-b": "a calibrated B is not overloaded at 0.1 s, whole cells neither",
    "batch-by-arrivals": "too few service jobs to meet a conflict",
    "surface": "too short for work to be left over under two-level",
    "offers-abandon": "a thousand attempts take longer; test_two_level_abandons has shorter ones",
    "saturation-a": "the largest jobs are cut in a small cell, so decisions take less",
    "saturation-b": "as saturation-a",
    "saturation-c": "as saturation-a",
    "shared-schedules-all": "service jobs of B arrive faster than decisions of 100 s are made, in whole cells too",
    "surface-two-level": "too short for work to be left over",
}
"""Claims that the small form does not show, and why."""


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
@pytest.mark.chaos
def test_the_claim_in_small(experiment: Experiment, small: Small) -> None:
    finding = experiment.evaluate(small.of(experiment))
    assert finding.measured
    if experiment.expectation == "never disclosed" or finding.verdict is Conclusion.UNKNOWN:
        assert finding.reason
        return
    assert (finding.verdict is Conclusion.HOLDS) or experiment.name in ELSEWHERE, finding.measured


@pytest.mark.chaos
def test_two_level_abandons_and_shared_state_does_not() -> None:
    start = Configuration(workload="A", days=0.01, machines=12, t_job_service=100.0, t_job_batch=0.01, t_task=0.0)
    two_level = start.but({"architecture": "two-level"}).run()
    assert sum(kind.jobs_abandoned for kind in two_level.kinds.values()) > 0
    shared = start.run()
    assert sum(kind.jobs_abandoned for kind in shared.kinds.values()) == 0
    assert shared.kinds["batch"].jobs_scheduled > two_level.kinds["batch"].jobs_scheduled


def test_an_experiment_can_fail(small: Small) -> None:
    # Records of the wrong architecture must not satisfy a claim.
    slow = EXPERIMENTS["shared-independent"]
    records = [
        {**record, "configuration": {**record["configuration"], "architecture": "shared-state"}}
        for record in small.of(slow)
        if record["configuration"]["architecture"] == "monolithic-multi"
    ]
    assert slow.evaluate(records).verdict is Conclusion.FAILS


def test_every_figure_has_claims_and_names_are_found() -> None:
    assert set(FIGURES) == {*range(2, 11), 15, 16}
    for number in FIGURES:
        assert of_figure(number)
    assert [experiment.name for experiment in find(["surface"])] == ["surface"]
    assert len(find([])) == len(EXPERIMENTS)
    with pytest.raises(BadInput, match="unknown experiment 'magic'; known: machines-of-c"):
        find(["magic"])
    with pytest.raises(BadInput, match="figures 2 to 10, 15 and 16"):
        figure(11)


def test_forms() -> None:
    even = Extent(0.5, 3, ("A", "C"), even=True)
    assert even.lengths == {"A": 0.066, "C": 0.5}
    assert even.but(7.0).lengths == {"A": 7.0, "C": 7.0}
    assert figure(5).sized(cells=["B"], machines=100).start("B").machines == 100
    assert logarithmic(0.01, 100.0, 5) == [0.01, 0.1, 1.0, 10.0, 100.0]
    assert len(figure(5).sweep(figure(5).sized(7.0, ["C"]))) == 15
    assert figure(8).sized(scale=4).lengths == {"A": 0.043, "B": 0.1, "C": 0.32}
    assert figure(2).sized(scale=4).days == figure(2).form.days, "a workload is looked at as long as it was measured"
    with pytest.raises(BadInput, match="no such preset"):
        figure(5).sized(cells=["D"])


def seen(*values: float, holds: bool = True) -> list[SeedFinding]:
    found = []
    for value in values:
        each = Measurements()
        each.want(holds)
        each.say("A: {:.1f} s", value)
        found.append(each.finding("because"))
    return found


def test_a_claim_holds_when_it_holds_for_every_seed() -> None:
    finding = concluded(seen(1.0, 3.0, 2.0))
    assert (finding.verdict, finding.held, finding.seeds) == (Conclusion.HOLDS, 3, 3)
    assert (finding.measured, finding.reason) == ("A: 2.0 (1.0 to 3.0) s", "")
    mixed = concluded([*seen(1.0, 1.0), *seen(1.0, holds=False)])
    assert (mixed.verdict, mixed.held, mixed.reason, mixed.measured) == (Conclusion.FAILS, 2, "because", "A: 1.0 s")
    assert concluded([]).verdict is Conclusion.UNKNOWN


def alike(value: float, other: float, most: float) -> SeedFinding:
    found = Measurements()
    found.equal(value, [value, other], most)
    return found.finding()


def test_a_tolerance_is_no_looser_than_the_spread_between_seeds() -> None:
    wide = [alike(100.0, 104.0, 0.05), alike(120.0, 120.0, 0.05), alike(110.0, 110.0, 0.05)]
    assert concluded(wide).verdict is Conclusion.HOLDS
    narrow = [alike(100.0, 104.0, 0.05), alike(101.0, 101.0, 0.05), alike(102.0, 102.0, 0.05)]
    assert concluded(narrow).verdict is Conclusion.FAILS
    assert concluded(narrow[:1]).verdict is Conclusion.HOLDS, "one seed has no spread"
    assert concluded([alike(100.0, 106.0, 0.05)]).verdict is Conclusion.FAILS


def as_records(**figures: tuple[float, ...]) -> list[Record]:
    """Records of one seed of figure 9: the conflict fractions, busyness and waits of 1, 2, … schedulers."""
    columns = zip(*figures.values(), strict=True)
    return [
        {
            "seed": 0,
            "configuration": {"rate": 1.0, "batch": 2**i},
            "result": {"batch": {**dict(zip(figures, column, strict=True)), "jobs_submitted": 9, "jobs_scheduled": 9}},
        }
        for i, column in enumerate(columns)
    ]


@pytest.mark.parametrize(
    ("conflicts", "busy", "verdict"),
    [
        ((0.0, 0.1, 0.2), (0.5, 0.3, 0.1), Conclusion.HOLDS),
        ((0.0, 0.2, 0.2), (0.5, 0.3, 0.1), Conclusion.FAILS),
        ((0.0, 0.0, 0.0), (0.5, 0.3, 0.1), Conclusion.FAILS),
        ((0.0, 0.1, 0.2), (0.5, 0.5, 0.1), Conclusion.FAILS),
    ],
)
def test_ties_confirm_nothing(conflicts: tuple[float, ...], busy: tuple[float, ...], verdict: Conclusion) -> None:
    records = as_records(conflict_fraction=conflicts, busyness_median=busy)
    assert EXPERIMENTS["many-schedulers"].evaluate(records).verdict is verdict


def test_as_long_a_wait_is_no_shorter_one() -> None:
    figures = {"busyness_median": (0.5, 0.3)}
    evaluate = EXPERIMENTS["many-schedulers-wait"].evaluate
    assert evaluate(as_records(wait_mean=(2.0, 1.9), **figures)).verdict is Conclusion.HOLDS
    assert evaluate(as_records(wait_mean=(2.0, 2.0), **figures)).verdict is Conclusion.FAILS


def test_the_page_takes_five_seeds_of_what_is_drawn() -> None:
    for experiment in EXPERIMENTS.values():
        once = experiment.form.seeds == 1
        assert experiment.form.seeds == (1 if once else 5)
        assert experiment.sweep is nothing if once else True
        assert len({each.seed for each in experiment.simulations(experiment.form)}) in (0, 5)


def test_offers_stay_within_the_paper_s_decision_times() -> None:
    for name in ("offers-busy", "offers-wait", "offers-abandon"):
        experiment = EXPERIMENTS[name]
        assert max(each.t_job_service for each in experiment.simulations(experiment.form)) == 100.0


def test_the_machines_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = EXPERIMENTS["machines-of-c"]
    monkeypatch.setenv("OMEGA_SHARED", str(tmp_path))
    assert experiment.evaluate([], experiment.form).verdict is Conclusion.UNKNOWN
    table = tmp_path / "traces" / "google-2011" / "machine_events" / "part-00000-of-00001.csv.gz"
    table.parent.mkdir(parents=True)
    table.write_bytes(gzip.compress(b"".join(b"0,%d,0,platform,0.5,0.5\n" % i for i in range(12_477))))
    assert experiment.evaluate([], experiment.form).verdict is Conclusion.HOLDS
    table.write_bytes(gzip.compress(b"0,1,0,platform,0.5,0.5\n"))
    assert experiment.evaluate([], experiment.form).verdict is Conclusion.FAILS

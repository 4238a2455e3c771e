"""Every experiment in small form: the claim holds there too, except where only whole cells can show it."""

import pytest

from cellstate.errors import BadInput
from omega.experiments.catalogue import EXPERIMENTS, find, of_figure
from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Finding, Form, Verdict, logarithmic
from omega.experiments.figures import FIGURES, figure
from tests.figures.conftest import Small

ELSEWHERE = {
    "service-share": "the tables have less memory in service jobs than the paper",
    "single-path-one-line": "a handful of service jobs is no sample",
    "offers-abandon": "a thousand attempts take longer; test_two_level_abandons has shorter ones",
    "saturation-a": "the largest jobs are cut in a small cell, so decisions take less",
    "saturation-b": "as saturation-a",
    "saturation-c": "as saturation-a",
    "surface-two-level": "too short for work to be left over",
}
"""Claims that the small form does not show, and why."""


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_the_claim_in_small(experiment: Experiment, small: Small) -> None:
    finding = experiment.judge(small.of(experiment))
    assert finding.measured
    if experiment.expectation == "never disclosed" or finding.verdict is Verdict.UNKNOWN:
        assert finding.reason
        return
    assert (finding.verdict is Verdict.HOLDS) or experiment.name in ELSEWHERE, finding.measured


def test_two_level_abandons_and_shared_state_does_not() -> None:
    start = Configuration(workload="A", days=0.0027, machines=12, t_job_service=100.0, t_job_batch=0.01, t_task=0.0)
    two_level = start.but({"architecture": "two-level"}).run()
    assert sum(kind.jobs_abandoned for kind in two_level.kinds.values()) > 0
    shared = start.run()
    assert sum(kind.jobs_abandoned for kind in shared.kinds.values()) == 0
    assert shared.kinds["batch"].jobs_scheduled > two_level.kinds["batch"].jobs_scheduled


def test_a_judge_can_fail(small: Small) -> None:
    # Records of the wrong architecture must not satisfy a claim.
    slow = EXPERIMENTS["shared-independent"]
    records = [
        {**record, "configuration": {**record["configuration"], "architecture": "shared-state"}}
        for record in small.of(slow)
        if record["configuration"]["architecture"] == "monolithic-multi"
    ]
    assert slow.judge(records).verdict is Verdict.FAILS


def test_every_figure_has_claims_and_names_are_found() -> None:
    assert set(FIGURES) == {*range(2, 11), 15, 16}
    for number in FIGURES:
        assert of_figure(number)
    assert [experiment.name for experiment in find(["surface"])] == ["surface"]
    assert len(find([])) == len(EXPERIMENTS)
    with pytest.raises(BadInput, match="unknown experiment 'magic'; there is machines-of-c"):
        find(["magic"])
    with pytest.raises(BadInput, match="figures 2 to 10, 15 and 16"):
        figure(11)


def test_forms() -> None:
    even = Form(0.5, 3, ("A", "C"), even=True)
    assert even.lengths == {"A": 0.069, "C": 0.5}
    assert even.but(7.0).lengths == {"A": 7.0, "C": 7.0}
    assert figure(5).sized(cells=["B"], machines=100).start("B").machines == 100
    assert logarithmic(0.01, 100.0, 5) == [0.01, 0.1, 1.0, 10.0, 100.0]
    assert len(figure(5).simulations(figure(5).sized(7.0, ["C"]))) == 36
    assert figure(8).sized(scale=4).lengths == {"A": 0.14, "B": 0.33, "C": 1.0}
    assert figure(2).sized(scale=4).days == figure(2).form.days, "a workload is looked at as long as it was measured"
    with pytest.raises(BadInput, match="no such preset"):
        figure(5).sized(cells=["D"])


def test_a_finding_reads_as_a_sentence() -> None:
    assert Finding.when(True, "1 s", "never").reason == ""
    assert Finding.when(False, "1 s", "because").reason == "because"

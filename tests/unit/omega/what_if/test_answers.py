"""Answers to what-if questions: the two checks, effects, and what cannot be told."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import Limits
from omega.recording.history import history_of
from omega.schedulers.loop import think_seconds
from omega.what_if.answers import Answers, Questions, each_combination
from omega.what_if.cell import other_cell
from omega.what_if.metrics import TOLERANCES, Tolerance, tolerance
from omega.what_if.schedulers import NAMES, Change, Setup, built, changed
from omega.workload.workload import LimitEvent, MachineEvent
from tests.contract.trace_samples import SAMPLES
from tests.unit.omega.what_if.forging import forged


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SAMPLES["omega"].write(tmp_path_factory.mktemp("recording"))


@pytest.fixture(scope="module")
def answers(recording: Path) -> Answers:
    changes = [Change(words={"t-job": "1.5"}), Change(words={"batch": "+1", "detection": "coarse"})]
    return Questions(recording, seeds=1).ask(changes)


def test_a_recording_is_judged_and_run_as_recorded(answers: Answers) -> None:
    assert answers.judgement.ok
    assert answers.judgement.judged == answers.judgement.transactions > 200
    assert answers.agrees("wait_mean")
    assert {kind: setup.number for kind, setup in answers.setups.items()} == {"batch": 1}


def test_an_effect_larger_than_the_tolerance_is_told(answers: Answers) -> None:
    slow, _ = answers.runs
    effect = answers.effect(slow, "wait_mean")
    assert effect is not None
    assert effect > tolerance("wait_mean").of(answers.base.metrics["wait_mean"])
    assert answers.as_json()["runs"][0]["effect"]["wait_mean"] == effect


def test_decision_times_are_drawn_from_the_recording(answers: Answers) -> None:
    calls = history_of(answers.recording.longest).decisions["batch"].calls
    assert len(answers.setups["batch"].t_jobs) == calls > 100
    batch = replace(answers.setups["batch"], t_job=0.2, t_jobs=(0.1, 0.3))
    schedulers, _ = built({"batch": batch})
    work = SimpleNamespace(left=(3,))
    drawn = [think_seconds(schedulers[0], [work]) for _ in range(200)]  # type: ignore[list-item]
    assert set(drawn) == {0.1, 0.3}, "not their mean"
    slow, _ = built(changed({"batch": batch}, Change(words={"t-job": "1.5"})))
    assert slow[0].t_jobs == ()


def test_a_small_effect_cannot_be_told(answers: Answers) -> None:
    _, more = answers.runs
    assert abs(more.metrics["wait_mean"] - answers.base.metrics["wait_mean"]) < 0.25
    assert answers.effect(more, "wait_mean") is None


def test_without_agreement_no_effect_is_told(answers: Answers) -> None:
    real = replace(answers.happened, metrics={**answers.happened.metrics, "wait_mean": 9.0})
    doubtful = replace(answers, happened=real)
    assert not doubtful.agrees("wait_mean")
    assert doubtful.effect(doubtful.runs[0], "wait_mean") is None
    assert doubtful.effect(doubtful.runs[0], "wait_p90") is not None, "each metric has a check of its own"


def test_of_another_number_of_schedulers_nothing_is_told_unless_conflicts_agree(answers: Answers) -> None:
    slow, _ = answers.runs
    more = replace(slow, change=Change(words={"batch": "+1"}))
    apart = dict(answers.base.metrics) | {"conflict_fraction": answers.base.metrics["conflict_fraction"] + 1.0}
    other = replace(answers, base=replace(answers.base, metrics=apart))
    assert answers.effect(more, "wait_mean") is not None
    assert other.effect(more, "wait_mean") is None
    assert other.effect(slow, "wait_mean") is not None, "not of this number"


def test_the_tolerance_is_the_larger_bound() -> None:
    assert Tolerance(0.5, 0.1).of(2.0) == 0.5
    assert Tolerance(0.5, 0.1).of(-20.0) == 2.0
    page = (Path(__file__).parents[4] / "docs/decisions/0058-tolerance-of-what-if-answers.md").read_text("utf-8")
    for each in TOLERANCES.values():
        assert f"| {each.absolute:g}" in page
        assert f"| {100 * each.relative:g} %" in page


def test_a_recording_that_judges_otherwise_answers_nothing(recording: Path, tmp_path: Path) -> None:
    path = forged(recording, tmp_path / "forged.rec.gz", "place 41 4 j40", "place 99 4 j40")
    with pytest.raises(Refused, match="differences between recording and twin, the first: version"):
        Questions(path, seeds=1).ask([])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"batch": "two"}, "is no number"), ({"batch": "0"}, "want 1 to 64"), ({"batch": "-1"}, "want 1 to 64"),
        ({"t-job": "-1"}, "want seconds"), ({"colour": "red"}, "unknown; known: batch"),
    ],
)  # fmt: skip
def test_impossible_changes_are_refused(words: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        changed({"batch": Setup(number=1)}, Change(words=words))


@pytest.mark.parametrize(
    ("words", "said"),
    [({"placement": "nowhere"}, "unknown placement"), ({"detection": "rough"}, "fine or coarse"),
     ({"commit": "some"}, "incremental or gang"), ({"pools": "/absent.yaml"}, "absent.yaml")],
)  # fmt: skip
def test_unknown_policies_are_named(recording: Path, words: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Questions(recording, seeds=1).ask([Change(words=words)])


def test_combinations_vary_the_last_name_fastest() -> None:
    changes = each_combination({"batch": ["1", "2"], "commit": ["gang", "incremental"]})
    assert [each.label for each in changes] == [
        "batch=1 commit=gang", "batch=1 commit=incremental", "batch=2 commit=gang", "batch=2 commit=incremental",
    ]  # fmt: skip
    assert each_combination({}) == []
    assert all(name in NAMES for name in ("batch", "commit"))


def test_fewer_machines_and_lower_limits(answers: Answers) -> None:
    workload = answers.trace.workload
    limit = LimitEvent(0.0, "batch", Limits((3_000, None), 9))
    workload = replace(workload, events=[limit, MachineEvent(1.0, workload.machines[-1], up=False), *workload.events])
    words = {"machines": f"-{len(workload.machines) - 2}", "limits": "50%"}
    changed_cell = other_cell(workload, Change(words=words))
    assert changed_cell.machines == workload.machines[:2]
    assert changed_cell.events[0] == LimitEvent(0.0, "batch", Limits((1_500, None), 4))
    assert not [each for each in changed_cell.events if isinstance(each, MachineEvent)]
    assert changed_cell.capacity == (
        sum(each.capacity[0] for each in workload.machines[:2]),
        sum(each.capacity[1] for each in workload.machines[:2]),
    )


def test_a_cell_of_half_the_machines_is_used_more(recording: Path) -> None:
    found = Questions(recording, seeds=1).ask([Change(words={"machines": "-50%"})])
    effect = found.effect(found.runs[0], "utilisation_cpu")
    assert effect is not None
    assert effect > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [({"machines": "20%"}, "-20%"), ({"machines": "0"}, "want 1 to"), ({"machines": "-100%"}, "want 1 to"),
     ({"machines": "999999"}, "want 1 to"), ({"limits": "0.5"}, "50%"), ({"limits": "-50%"}, "50%")],
)  # fmt: skip
def test_impossible_cells_are_refused(answers: Answers, words: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        other_cell(answers.trace.workload, Change(words=words))

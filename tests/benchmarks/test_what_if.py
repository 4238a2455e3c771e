"""The benchmark of what-if answers: what is a true effect, and three pairs of cells, live."""

import json
from typing import Any

import pytest

from benchmarks.agreement import case
from benchmarks.what_if import PAIRS, Settings, judged, measure, sign


def row(told: float | None, before: list[float], after: list[float]) -> dict[str, Any]:
    return {"effects": {"wait_mean": {"told": told, "before": before, "after": after, "true": sign(before, after)}}}


LESS, MORE = [1.0, 2.0, 3.0], [3.5, 4.0, 9.0]


def test_a_true_effect_is_outside_the_range_of_the_other_side() -> None:
    assert (sign(LESS, MORE), sign(MORE, LESS), sign(LESS, [3.0, 4.0, 5.0])) == (1, -1, 0)


def test_no_sign_may_be_wrong_and_half_of_the_true_effects_are_told() -> None:
    told, missed, wrong = row(1.0, LESS, MORE), row(None, MORE, LESS), row(-1.0, LESS, MORE)
    assert judged([told, missed]) == {"true": 2, "told": 1, "wrong": 0, "unseen": 0, "met": True}
    assert not judged([told, missed, missed])["met"]
    assert judged([told, wrong]) == {"true": 2, "told": 1, "wrong": 1, "unseen": 0, "met": False}
    assert judged([row(1.0, LESS, LESS)]) == {"true": 0, "told": 0, "wrong": 0, "unseen": 1, "met": True}


def test_there_are_ten_pairs_with_answers_half_of_them_in_a_full_cell() -> None:
    assert sorted(pair.before.use for pair in PAIRS.values()) == [0.7] * 5 + [0.94] * 5
    kept = json.loads(case("what_if.json").read_text("utf-8"))
    assert kept["answers"].keys() == PAIRS.keys()


@pytest.mark.server
@pytest.mark.chaos
@pytest.mark.parametrize("name", ["schedulers 4 to 1", "decisions ten times as long", "machines less 20 %"])
def test_no_answer_has_the_wrong_sign(name: str) -> None:
    found: Any = measure(Settings(part="both", pairs=[name], seconds=15.0))
    assert found["wrong"] == 0, found["pairs"]

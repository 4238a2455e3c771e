"""The partition of a job's tasks: prefixes by start, the task that crosses a bound protected (§10)."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omega.cellstate.errors import BadInput
from omega.schedulers.fairshare.partition import Bounds, Preemptible, Thresholds
from omega.schedulers.fairshare.satisfaction import partition

N, A, Y = Preemptible.NO, Preemptible.AGGRESSIVELY, Preemptible.YES


def split(share: float, demand: float, tasks: list[float], thresholds: Thresholds | None = None) -> list[Preemptible]:
    thresholds = thresholds or Thresholds()
    bounds = Bounds(thresholds, thresholds.guard(("cpu",)), np.array([share]), np.array([demand]))
    return [bounds.kind(np.array([sum(tasks[:number])])) for number in range(len(tasks))]


def test_prefixes() -> None:
    halves = Thresholds(1.0, 0.5)
    assert split(0.4, 1.0, [0.1] * 6, halves) == [N, N, A, A, Y, Y]
    assert split(0.35, 1.0, [0.1] * 6, halves) == [N, N, A, A, Y, Y], "tasks that cross 0.175 and 0.35 are protected"
    assert split(0.0, 1.0, [0.1] * 2) == [Y, Y]


def test_a_job_that_gets_all_it_wants_has_no_task_in_the_last_partition() -> None:
    assert split(0.3, 0.3, [0.1] * 4, Thresholds(1.0, 0.5)) == [N, N, A, A]


def test_protected_amounts() -> None:
    assert split(0.0, 1.0, [0.1] * 4, Thresholds(protected={"cpu": 0.25})) == [N, N, N, Y]
    assert split(0.0, 1.0, [0.1] * 4, Thresholds(protected={"memory": 0.1})) == [N, N, N, N]


@given(
    st.lists(st.integers(0, 20), max_size=12),
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 200),
    st.integers(0, 60),
)
def test_it_agrees_with_the_function(
    tasks: list[int], share: int, more: int, aggressive: int, ordinary: int, guard: int
) -> None:
    thresholds = Thresholds(max(aggressive, ordinary) / 100, aggressive / 100, {"cpu": guard / 100})
    found = split(share / 100, (share + more) / 100, [task / 100 for task in tasks], thresholds)
    element = (np.array([share / 100]), np.array([(share + more) / 100]), np.array([sum(tasks) / 100]))
    first, second = partition(
        np.array([[task / 100] for task in tasks]).reshape(-1, 1),
        element,
        (thresholds.aggressive, thresholds.ordinary),
        np.array([guard / 100]),
    )
    assert (found.count(N), found.count(A)) == (first, second)


@pytest.mark.parametrize("wrong", [{"ordinary": 0.1}, {"ordinary": -1.0}, {"aggressive": float("nan")}])
def test_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Thresholds(**wrong)

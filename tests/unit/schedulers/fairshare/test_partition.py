"""The partition of a job's tasks: prefixes by start, the task that crosses a bound protected (§10)."""

from math import inf

import numpy as np
from hypothesis import given, strategies as st

from omega.schedulers.fairshare.satisfaction import Bounds, Preemptible, partition

N, A, Y = Preemptible.NO, Preemptible.AGGRESSIVELY, Preemptible.YES


def split(
    share: float, demand: float, tasks: list[float], thresholds: tuple[float, float] = (0.2, 1.0), guard: float = 0.0
) -> list[Preemptible]:
    bounds = Bounds(
        np.array([share]), np.array([demand]),
        aggressive=thresholds[0], ordinary=thresholds[1], guard=np.array([guard]),
    )  # fmt: skip
    return [bounds.kind(np.array([sum(tasks[:number])])) for number in range(len(tasks))]


def test_prefixes() -> None:
    halves = (0.5, 1.0)
    assert split(0.4, 1.0, [0.1] * 6, halves) == [N, N, A, A, Y, Y]
    assert split(0.35, 1.0, [0.1] * 6, halves) == [N, N, A, A, Y, Y], "tasks that cross 0.175 and 0.35 are protected"
    assert split(0.0, 1.0, [0.1] * 2) == [Y, Y]


def test_a_job_that_gets_all_it_wants_has_no_task_in_the_last_partition() -> None:
    assert split(0.3, 0.3, [0.1] * 4, (0.5, 1.0)) == [N, N, A, A]


def test_protected_amounts() -> None:
    assert split(0.0, 1.0, [0.1] * 4, guard=0.25) == [N, N, N, Y]
    assert split(0.0, 1.0, [0.1] * 4, guard=inf) == [N, N, N, N]


@given(
    st.lists(st.integers(0, 20), max_size=12),
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 200),
    st.integers(0, 60),
)
def test_the_lists_are_prefixes_that_end_behind_their_bounds(
    tasks: list[int], share: int, more: int, aggressive: int, ordinary: int, guard: int
) -> None:
    unit = 1 / 128  # its multiples are exact: neither side rounds
    thresholds = (aggressive * unit, max(aggressive, ordinary) * unit)
    element = (np.array([share * unit]), np.array([(share + more) * unit]), np.array([sum(tasks) * unit]))
    sizes = np.array(tasks, float).reshape(-1, 1) * unit
    counts, used, all_due = [0, 0, 0], 0, share > 0 and not more
    for task in tasks:
        protected = used < guard or used * 128 < share * aggressive
        aggressively = all_due or used * 128 < share * max(aggressive, ordinary)
        counts[0 if protected else 1 if aggressively else 2] += 1
        used += task
    assert partition(sizes, element, thresholds, np.array([guard * unit])) == (counts[0], counts[1])

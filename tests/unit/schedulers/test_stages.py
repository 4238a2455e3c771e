"""Preemption on one machine: stages, reasons, minimal sets, the back-off by accepted evictions, warnings (§11)."""

import numpy as np

from schedulers.fairshare.partition import Preemptible
from schedulers.fairshare.starvation import Status
from schedulers.preemption.stages import (
    Backoff,
    Candidate,
    Chosen,
    Exchanges,
    Reason,
    Warnings,
    for_capacity,
    for_limits,
    for_task,
)

N, A, Y = Preemptible.NO, Preemptible.AGGRESSIVELY, Preemptible.YES
HERE = [Candidate(f"{kind.name.lower()}{at}", (at,), at, kind) for at, kind in ((1, N), (2, A), (3, A), (4, Y), (5, Y))]


def names(found: list[Chosen] | None) -> list[object] | None:
    return None if found is None else [each.name for each in found]


def test_stages() -> None:
    assert names(for_task(HERE, (1,), Status.NORMAL)) is None
    assert names(for_task(HERE, (5,), Status.STARVING)) == ["yes5"], "the newest first"
    assert names(for_task(HERE, (9,), Status.STARVING)) == ["yes5", "yes4"]
    assert names(for_task(HERE, (10,), Status.STARVING)) is None, "the others are aggressively preemptible"
    assert names(for_task(HERE, (12,), Status.AGGRESSIVELY_STARVING)) == ["yes5", "yes4", "aggressively3"]
    assert names(for_task(HERE, (15,), Status.AGGRESSIVELY_STARVING)) is None, "the oldest is protected"
    assert for_task(HERE, (0,), Status.STARVING) == []


def test_a_set_holds_nothing_that_is_not_needed() -> None:
    here = [Candidate("small", (1,), 2, Y), Candidate("large", (6,), 1, Y)]
    assert names(for_task(here, (6,), Status.STARVING)) == ["large"]


def test_a_machine_over_its_capacity_keeps_the_oldest_and_least_preemptible() -> None:
    assert [each.name for each in for_capacity(HERE, (3,))] == ["yes5"]
    assert {each.reason for each in for_capacity(HERE, (12,))} == {Reason.OVER}
    assert [each.name for each in for_capacity(HERE, (12,))] == ["aggressively3", "yes4", "yes5"]


def test_a_violated_limit_takes_preemptible_units_of_its_owner() -> None:
    here = [each._replace(owner="a" if each.order != 5 else "b") for each in HERE]
    assert for_limits(here, {"a": (2,)}) == [Chosen("yes4", Reason.LIMIT)]
    assert [each.name for each in for_limits(here, {"a": (100,)})] == ["yes4", "aggressively3", "aggressively2"]
    assert for_limits(here, {}) == []


def test_a_machine_rests_after_an_accepted_eviction() -> None:
    rest = Backoff(0.5)
    assert not rest.rests(1, 0.0)
    rest.evicted(1, 10.0)
    assert rest.rests(1, 10.499)
    assert not rest.rests(1, 10.5)
    assert not rest.rests(2, 10.1)
    rest.evicted(1, 9.0)
    assert rest.rests(1, 10.4), "an older one that is seen late does not shorten it"


def test_warned_tasks_get_their_time_once() -> None:
    warned = Warnings(10)
    assert warned.warn("t", 5) == 15
    assert warned.warn("t", 9) == 15
    assert warned.due(14.9) == []
    warned.warn("u", 6)
    warned.ended("u")
    assert warned.due(20) == ["t"]
    assert warned.due(30) == []


def test_an_exchange_on_a_machine_is_an_eviction_by_somebody() -> None:
    """A number one higher and the same use: tasks went and others started in one transaction; else nothing is known."""
    seen = Exchanges()
    rows = np.array(
        [[0, 1, 2, 3], [5, 5, 5, 5], [0, 0, 0, 0], [1, 1, 1, 1], [4, 4, 4, 4], [4, 4, 4, 4]], dtype=np.int64
    )
    assert seen.seen(rows) == []
    rows[1] += [1, 1, 2, 0]
    rows[5, 1] = 3
    assert seen.seen(rows) == [0], "use fell on the second, the third changed twice, the fourth not at all"
    assert seen.seen(rows) == []
    assert seen.seen(np.concatenate([rows, rows], axis=1)) == [], "machines that joined"

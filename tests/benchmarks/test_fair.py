"""``omega bench fair``: what it reads from a log."""

from benchmarks.fair_log import Convergence
from omega.cellstate.events import Fact, parse
from tests.benchmarks.test_command import run

JOBS = {"a": "p0", "b": "p1"}


def fact(version: int, at_ms: int, *words: str) -> Fact:
    return Fact(version, at_ms, "batch/0", parse(" ".join(words))[0])


def place(version: int, at_ms: int, placement: int, job: str, tasks: str) -> Fact:
    return fact(version, at_ms, "place", str(placement), "0", job, "0", tasks, "1,0")


def evict(version: int, at_ms: int, placement: int, job: str, tasks: str) -> Fact:
    return fact(version, at_ms, "evicted", str(placement), "0", job, "0", tasks, "1", "0,0", "fair-share:b")


def asserted(version: int, at_ms: int, before: int, after: int, left: int) -> Fact:
    pools = f"p1,;{before},0;{after},0;4000,0", f"p0,;8000,0;{left},0;4000,0"
    return fact(version, at_ms, "assert", "b", *pools)


def story(*facts: Fact) -> Convergence:
    found = Convergence(shares={"p0": 4.0, "p1": 4.0}, begin_ms=1_000)
    found.follow(facts, JOBS)
    return found


FULL = place(1, 0, 1, "a", "0-7")


def test_a_pool_that_comes_late_reaches_its_share() -> None:
    found = story(
        FULL,
        asserted(2, 3_000, 0, 2_000, 6_000),
        evict(2, 3_000, 1, "a", "6-7"),
        place(2, 3_000, 2, "b", "0-1"),
        asserted(3, 4_500, 2_000, 4_000, 4_000),
        evict(3, 4_500, 1, "a", "4-5"),
        place(3, 4_500, 3, "b", "2-3"),
    )
    assert found.outside == 3.5
    assert (found.held, found.evictions, found.undone) == ({"p0": 4, "p1": 4}, 4, 0)
    assert found.wasted_seconds == 2 * 3.0 + 2 * 4.5
    assert (found.sets, found.not_improved) == (2, 0)
    assert (found.overshoot, found.undershoot) == (0, 0)


def test_shares_that_are_never_reached_or_left_again() -> None:
    assert story(FULL, place(2, 3_000, 2, "b", "0-1")).outside is None
    found = story(
        FULL,
        evict(2, 3_000, 1, "a", "2-7"),
        place(2, 3_000, 2, "b", "0-5"),
        evict(3, 4_000, 2, "b", "4-5"),
        place(3, 4_000, 3, "a", "2-3"),
    )
    assert found.outside == 3.0
    assert (found.overshoot, found.undershoot) == (2, 2)


def test_evictions_that_are_undone_soon() -> None:
    late = asserted(2, 3_000, 0, 2_000, 6_000), evict(2, 3_000, 1, "a", "6-7"), place(2, 3_000, 2, "b", "0-1")
    assert story(FULL, *late, place(3, 7_999, 3, "a", "6")).undone == 1, "the victim is placed again"
    assert story(FULL, *late, place(3, 8_001, 3, "a", "6")).undone == 0
    assert story(FULL, *late, evict(3, 7_999, 2, "b", "0-1")).undone == 2, "the task in its room is evicted"
    assert story(FULL, *late, evict(3, 8_001, 2, "b", "0-1")).undone == 0
    free = place(2, 3_000, 2, "b", "0-1")
    assert story(FULL, free, evict(3, 4_000, 2, "b", "0-1")).undone == 0, "it was started in free room"


def test_sets_that_do_not_improve_the_largest_ratio() -> None:
    assert story(FULL, asserted(2, 3_000, 3_000, 9_000, 2_000)).not_improved == 1
    assert story(FULL, asserted(2, 3_000, 3_000, 8_000, 3_000)).not_improved == 1
    assert story(FULL, asserted(2, 3_000, 3_000, 7_999, 3_001)).not_improved == 0


def test_wrong_usage_is_told() -> None:
    assert run("fair", "--schedulers", "0").exit_code == 2

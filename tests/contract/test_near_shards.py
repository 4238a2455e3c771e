"""Shards near a worker: it claims those of the first of its sets that has any, also after failures and losses."""

import pytest

from omega.cellstate.shards import Errand, Worker
from tests.contract.conftest import AnyCell, Member
from tests.contract.test_shards import claim, end, lose, placed


@pytest.fixture
def workers(cell: AnyCell, member: Member) -> list[Worker]:
    """Three live workers of job a, on machines 0, 0 and 1."""
    return placed(cell, member)


def test_a_worker_takes_the_best_set_that_has_shards(cell: AnyCell, workers: list[Worker]) -> None:
    first, second, other = workers
    near = ("4-5", "-", "1,9")
    for expected in (4, 5, 1, 9):
        assert claim(cell, first, 10, near=near) == Errand("map", expected)
        assert end(cell, first, "map", expected)
    assert claim(cell, first, 10, near=near) == Errand("far")
    assert claim(cell, first, 10, near=("-",)) == Errand("far"), "there are some, and it takes none"
    assert claim(cell, first, 10, near=near) == Errand("far"), "nothing was claimed"
    assert claim(cell, second, 10, near=("7", "0-3")) == claim(cell, second, 10) == Errand("map", 7)
    assert claim(cell, other, 10, near=("7", "0-3")) == Errand("map", 0)


def test_a_worker_waits_for_shards_of_its_sets_that_others_hold(cell: AnyCell, workers: list[Worker]) -> None:
    first, second, other = workers
    for worker, shard in ((first, 0), (second, 1), (other, 2)):
        assert claim(cell, worker) == Errand("map", shard)
    assert end(cell, second, "map", 1)
    assert claim(cell, second, near=("0",)) == Errand("wait"), "nothing is left for anybody"
    lose(cell, first)
    assert claim(cell, second, near=("1-2",)) == Errand("far"), "the shard of a lost worker is free"
    assert claim(cell, second, near=("1-2", "0")) == Errand("map", 0)


def test_the_shard_of_a_lost_worker_is_found_among_others(cell: AnyCell, workers: list[Worker]) -> None:
    first, second, _ = workers
    assert claim(cell, first, 9, near=("5",)) == Errand("map", 5)
    assert claim(cell, second, 9, near=("5",)) == Errand("far")
    lose(cell, first)
    assert claim(cell, second, 9, near=("5",)) == Errand("map", 5)


def test_a_failed_shard_keeps_its_set(cell: AnyCell, workers: list[Worker]) -> None:
    bad, _, good = workers
    for shard in (1, 2):
        assert claim(cell, bad, 4, near=(str(shard),)) == Errand("map", shard)
        assert end(cell, bad, "map", shard, failed=True)
    assert claim(cell, good, 4, at_ms=0, near=("1-2",)) == Errand("far"), "its delay is not over; 0 and 3 are there"
    assert claim(cell, good, 4, near=("2", "1", "0")) == Errand("map", 0), "shards that never failed come first"
    assert end(cell, good, "map", 0)
    assert claim(cell, good, 4, near=("2", "1", "0")) == Errand("map", 2)
    assert end(cell, good, "map", 2)
    assert claim(cell, bad, 4, near=("1-2",)) == Errand("far")
    assert claim(cell, bad, 4, near=("3",)) == Errand("map", 3)
    assert end(cell, bad, "map", 3)
    assert claim(cell, good, 4, near=("0,2",)) == Errand("far"), "1 may be tried, elsewhere"
    assert claim(cell, bad, 4, near=("0-3",)) == Errand("wait"), "1 failed here, and there is another machine"
    assert claim(cell, good, 4, near=("0,2", "1")) == Errand("map", 1)


def test_reduces_have_no_sets(cell: AnyCell, workers: list[Worker]) -> None:
    assert claim(cell, workers[0], 1, near=("0",)) == Errand("map", 0)
    assert end(cell, workers[0], "map", 0)
    assert claim(cell, workers[0], 1, near=("-",)) == Errand("reduce", 0)


def test_finished_maps_are_counted_by_level(cell: AnyCell, workers: list[Worker]) -> None:
    first, *_ = workers
    for shard, level in enumerate((0, 2, None, 0, 2)):
        assert claim(cell, first, 5) == Errand("map", shard)
        if shard == 3:
            assert cell.shards.end("a", "words", first, "map", shard, 1, failed_ms=0, level=level)
            continue
        for _ in range(2):
            assert cell.shards.end("a", "words", first, "map", shard, 1, level=level)
    progress = cell.shards.progress("a")
    assert progress is not None
    assert (progress.levels, progress.unclaimed) == (((0, 1), (2, 2)), "3")

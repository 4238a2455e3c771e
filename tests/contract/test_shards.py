"""The shards of a MapReduce job: each is finished once, by who holds it, whoever is evicted or lost on the way."""

from collections.abc import Sequence

import pytest

from omega.cellstate.model import MachineState
from omega.cellstate.redis import RedisCell
from omega.cellstate.resources import LARGEST, MOST_TOGETHER
from omega.cellstate.shards import (
    KEPT_MS,
    MOST_IN_A_ROW,
    RETRY_MS,
    TRIES,
    UNSENT_MS,
    Errand,
    PhaseCount,
    Progress,
    ShardDurations,
    Worker,
)
from omega.cellstate.tasks import EndKind, TaskEnd
from tests.contract.conftest import AnyCell, Member, job


@pytest.fixture
def workers(cell: AnyCell, member: Member) -> list[Worker]:
    """See `placed`."""
    return placed(cell, member)


def placed(cell: AnyCell, member: Member) -> list[Worker]:
    """Three live workers of job a, on machines 0, 0 and 1."""
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    assert member.place("a", (0, 2), (1, 1)).accepted
    placements = {run.machine: run.placement for run in cell.machines.runs([0, 1])}
    return [Worker(0, placements[0], 0), Worker(0, placements[0], 1), Worker(1, placements[1], 2)]


LATER_MS = 10**12
"""Long after anything that failed at 0."""


def claim(
    cell: AnyCell, worker: Worker, maps: int = 3, reduces: int = 2, at_ms: int = LATER_MS, near: Sequence[str] = ()
) -> Errand:  # fmt: skip
    return cell.shards.claim("a", worker, maps, reduces, at_ms, near)


def end(cell: AnyCell, worker: Worker, phase: str, shard: int, milliseconds: int = 10, *, failed: bool = False) -> bool:
    return cell.shards.end("a", "words", worker, phase, shard, milliseconds, failed_ms=0 if failed else None)


def finish_all(cell: AnyCell, worker: Worker, milliseconds: int = 10) -> list[Errand]:
    """Let one worker do all there is."""
    errands = []
    while (errand := claim(cell, worker)).what in ("map", "reduce"):
        errands.append(errand)
        assert end(cell, worker, errand.what, errand.shard, milliseconds)
    return errands


def lose(cell: AnyCell, worker: Worker, how: EndKind = EndKind.FAILED) -> None:
    assert cell.executors.end([TaskEnd(worker.machine, worker.placement, how, str(worker.task))], 1, "e0") == [1]


def test_maps_come_first_then_reduces(cell: AnyCell, workers: list[Worker]) -> None:
    errands = finish_all(cell, workers[0])
    assert errands == [Errand("map", 0), Errand("map", 1), Errand("map", 2), Errand("reduce", 0), Errand("reduce", 1)]
    assert claim(cell, workers[0]) == claim(cell, workers[1]) == Errand("done")


def test_no_two_hold_the_same_shard(cell: AnyCell, workers: list[Worker]) -> None:
    assert [claim(cell, worker).shard for worker in workers] == [0, 1, 2]


def test_reduces_wait_for_the_last_map(cell: AnyCell, workers: list[Worker]) -> None:
    first, second, _ = workers
    for shard in (0, 1, 2):
        assert claim(cell, first if shard < 2 else second) == Errand("map", shard)
        if shard < 2:
            assert end(cell, first, "map", shard)
    assert claim(cell, first) == Errand("wait")
    assert end(cell, second, "map", 2)
    assert claim(cell, first) == Errand("reduce", 0)


def test_asking_again_gives_the_same_shard(cell: AnyCell, workers: list[Worker]) -> None:
    assert claim(cell, workers[0]) == claim(cell, workers[0]) == Errand("map", 0)


def test_sums_of_durations_stay_exact_and_never_fall(cell: AnyCell, workers: list[Worker]) -> None:
    for milliseconds in (-5, LARGEST + 1, LARGEST):
        errand = claim(cell, workers[0])
        assert end(cell, workers[0], "map", errand.shard, milliseconds)
    found = cell.shards.progress("a")
    assert found is not None
    assert found.map == PhaseCount(total=3, waiting=0, done=3, milliseconds=2 * LARGEST)


def test_the_sum_of_durations_has_a_most(cell: AnyCell, workers: list[Worker]) -> None:
    count = MOST_TOGETHER // LARGEST + 2
    for _ in range(count):
        errand = claim(cell, workers[0], count)
        assert end(cell, workers[0], "map", errand.shard, LARGEST)
    found = cell.shards.progress("a")
    assert found is not None
    assert found.map.milliseconds == MOST_TOGETHER


def test_ending_again_has_no_second_effect(cell: AnyCell, workers: list[Worker]) -> None:
    claim(cell, workers[0])
    assert end(cell, workers[0], "map", 0)
    before = cell.shards.progress("a")
    assert end(cell, workers[0], "map", 0)
    assert cell.shards.progress("a") == before


@pytest.mark.parametrize("how", [EndKind.FAILED, EndKind.LOST, EndKind.EVICTED, EndKind.STOPPED, EndKind.FINISHED])
def test_the_shard_of_a_worker_that_is_gone_goes_back(cell: AnyCell, workers: list[Worker], how: EndKind) -> None:
    for worker in workers:
        claim(cell, worker)
    lose(cell, workers[1], how)
    assert end(cell, workers[0], "map", 0)
    assert claim(cell, workers[0]) == Errand("map", 1)


def test_and_the_worker_that_is_gone_can_no_longer_end_it(cell: AnyCell, workers: list[Worker]) -> None:
    for worker in workers:
        claim(cell, worker)
    lose(cell, workers[1], EndKind.EVICTED)
    assert end(cell, workers[0], "map", 0)
    claim(cell, workers[0])
    assert not end(cell, workers[1], "map", 1)
    assert claim(cell, workers[1]) == Errand("fenced")
    assert end(cell, workers[0], "map", 1)
    assert cell.shards.finishers("a", "map", 3) == [workers[0].mark, workers[0].mark, None]


def test_what_one_that_was_evicted_finished_in_time_counts(cell: AnyCell, workers: list[Worker]) -> None:
    claim(cell, workers[0])
    lose(cell, workers[0], EndKind.EVICTED)
    assert end(cell, workers[0], "map", 0)


def test_a_machine_that_goes_gives_its_shards_back(cell: AnyCell, workers: list[Worker]) -> None:
    for worker in workers:
        claim(cell, worker)
    cell.machines.set_state(0, MachineState.DOWN, 1, "ada")
    assert end(cell, workers[2], "map", 2)
    assert [errand for errand in finish_all(cell, workers[2]) if errand.what == "map"] == [
        Errand("map", 0),
        Errand("map", 1),
    ]


def test_a_worker_of_another_job_is_fenced(cell: AnyCell, member: Member, workers: list[Worker]) -> None:
    cell.jobs.submit([job("b")], 0, "ada")
    assert member.place("b", (2, 1)).accepted
    (run,) = cell.machines.runs([2])
    stranger = Worker(2, run.placement, 0)
    assert claim(cell, stranger) == Errand("fenced")
    for wrong in (Worker(0, workers[0].placement, 2), Worker(1, workers[0].placement, 0), Worker(7, 99, 0)):
        assert claim(cell, wrong) == Errand("fenced")
    assert cell.shards.progress("a") is None


def test_nobody_ends_what_another_holds(cell: AnyCell, workers: list[Worker]) -> None:
    for worker in workers[:2]:
        claim(cell, worker)
    assert not end(cell, workers[1], "map", 0)
    assert not end(cell, workers[2], "map", 2)
    assert not end(cell, workers[0], "reduce", 0)


def test_a_late_end_of_a_map_does_not_end_the_reduce_of_its_number(cell: AnyCell, workers: list[Worker]) -> None:
    first, second, _ = workers
    for shard in (0, 1, 2):
        claim(cell, first)
        assert end(cell, first, "map", shard)
    assert claim(cell, second) == Errand("reduce", 0)
    assert not end(cell, second, "map", 0)
    assert not end(cell, second, "map", 0, failed=True)
    assert claim(cell, second) == Errand("reduce", 0)


def test_a_shard_that_fails_too_often_fails_the_job(cell: AnyCell, workers: list[Worker]) -> None:
    """On both machines it is tried, and on one of them again when it failed everywhere."""
    for shard in (0, 2):
        assert claim(cell, workers[0], 3) == Errand("map", shard if shard == 0 else 1)
        assert end(cell, workers[0], "map", shard if shard == 0 else 1)
    for worker in (workers[0], workers[2], workers[0], workers[2]):
        assert claim(cell, worker) == Errand("map", 2)
        assert end(cell, worker, "map", 2, failed=True)
    assert claim(cell, workers[0]) == claim(cell, workers[2]) == Errand("failed", 2, "map")
    progress = cell.shards.progress("a")
    assert progress is not None
    assert (progress.failed, progress.phase) == ("map 2", "failed")


def test_a_shard_that_failed_comes_last_and_on_another_machine(cell: AnyCell, workers: list[Worker]) -> None:
    bad, _, good = workers
    assert claim(cell, bad) == Errand("map", 0)
    assert end(cell, bad, "map", 0, failed=True)
    assert claim(cell, good) == Errand("map", 1), "what never failed comes first"
    assert end(cell, good, "map", 1)
    assert claim(cell, good) == Errand("map", 2)
    assert end(cell, good, "map", 2)
    assert claim(cell, bad) == Errand("wait"), "it failed here, and there is another machine"
    assert claim(cell, good) == Errand("map", 0)


def test_a_shard_that_failed_is_tried_again_after_a_while_only(cell: AnyCell, workers: list[Worker]) -> None:
    lose(cell, workers[2], EndKind.FINISHED)
    (worker, other, _), now = workers, 0
    for shard in (0, 1):
        assert claim(cell, other, 3) == Errand("map", shard)
        assert end(cell, other, "map", shard)
    for failures in range(TRIES - 1):
        assert claim(cell, worker, at_ms=now) == Errand("map", 2), "the job has no other machine"
        assert cell.shards.end("a", "words", worker, "map", 2, 1, failed_ms=now)
        until = now + RETRY_MS * 2**failures
        for each in (worker, other):
            assert claim(cell, each, at_ms=until - 1) == Errand("wait")
        now = until
    assert claim(cell, other, at_ms=now) == Errand("map", 2)


def test_a_machine_where_shard_after_shard_fails_is_left_out(cell: AnyCell, workers: list[Worker]) -> None:
    bad, _, good = workers
    for shard in range(MOST_IN_A_ROW):
        assert claim(cell, bad, 5) == Errand("map", shard)
        assert end(cell, bad, "map", shard, failed=True)
    assert claim(cell, bad) == claim(cell, workers[1]) == Errand("out")
    progress = cell.shards.progress("a")
    assert progress is not None
    assert (progress.failing, progress.left_out) == (((0, MOST_IN_A_ROW),), [0])
    assert [errand.shard for errand in finish_all(cell, good)] == [3, 4, 0, 1, 2, 0, 1]
    assert claim(cell, bad) == Errand("done")


def test_the_last_machine_of_a_job_is_not_left_out(cell: AnyCell, workers: list[Worker]) -> None:
    for shard in range(MOST_IN_A_ROW):
        assert claim(cell, workers[0], 5) == Errand("map", shard)
        assert end(cell, workers[0], "map", shard, failed=True)
    lose(cell, workers[2])
    assert claim(cell, workers[0]) == Errand("map", 3)
    assert end(cell, workers[0], "map", 3)
    progress = cell.shards.progress("a")
    assert progress is not None
    assert progress.failing == (), "one that was done ends the row"


def test_failures_are_counted_by_shard(cell: AnyCell, workers: list[Worker]) -> None:
    first, second, other = workers
    for worker, shard in ((first, 0), (second, 1), (other, 2), (other, 0), (other, 1), (first, 2)):
        assert claim(cell, worker) == Errand("map", shard)
        assert end(cell, worker, "map", shard, failed=True)
    progress = cell.shards.progress("a")
    assert progress is not None
    assert (progress.failed, progress.failing) == ("", ()), "each failed on both machines: the shards are to blame"
    assert len(finish_all(cell, workers[0])) == 5


def test_a_shard_that_fails_on_a_second_machine_is_blamed_instead_of_the_machines(
    cell: AnyCell, workers: list[Worker]
) -> None:
    first, _, other = workers

    def failing() -> tuple[tuple[int, int], ...]:
        progress = cell.shards.progress("a")
        assert progress is not None
        return progress.failing

    for shard in (0, 1):
        assert claim(cell, first, 2) == Errand("map", shard)
        assert end(cell, first, "map", shard, failed=True)
    assert failing() == ((0, 2),)
    assert claim(cell, other) == Errand("map", 0)
    assert end(cell, other, "map", 0, failed=True)
    assert failing() == ((0, 1),), "shard 1 is still the machine's"
    assert claim(cell, first) == Errand("map", 0), "it failed on every machine"
    assert end(cell, first, "map", 0, failed=True)
    assert failing() == ((0, 1),)


def test_progress(cell: AnyCell, workers: list[Worker]) -> None:
    assert cell.shards.progress("a") is None
    claim(cell, workers[0])
    claim(cell, workers[1])
    assert end(cell, workers[0], "map", 0, 1_500)
    progress = cell.shards.progress("a")
    assert progress is not None
    assert progress == Progress(
        PhaseCount(total=3, waiting=1, done=1, milliseconds=1_500),
        PhaseCount(total=2, waiting=2, done=0, milliseconds=0),
        ((workers[1].placement, workers[1].task, 1),),
        unclaimed="2",
    )
    assert (progress.phase, progress.map.mean, progress.reduce.mean) == ("map", 1.5, None)
    assert end(cell, workers[1], "map", 1)
    finish_all(cell, workers[0])
    progress = cell.shards.progress("a")
    assert progress is not None
    assert (progress.phase, progress.map.done, progress.reduce.done, progress.working) == ("done", 3, 2, 0)


def test_who_finished(cell: AnyCell, workers: list[Worker]) -> None:
    assert cell.shards.finishers("a", "map", 2) == [None, None]
    for worker in workers:
        claim(cell, worker)
    assert end(cell, workers[1], "map", 1)
    assert cell.shards.finishers("a", "map", 3) == [None, f"{workers[1].placement}-1", None]
    assert cell.shards.finishers("a", "reduce", 2) == [None, None]


def test_what_is_learnt_of_durations(cell: AnyCell, member: Member, workers: list[Worker]) -> None:
    assert cell.shards.durations("words") is None
    while (errand := claim(cell, workers[0])).what != "done":
        assert end(cell, workers[0], errand.what, errand.shard, 100 if errand.what == "map" else 31)
    assert cell.shards.durations("words") == ShardDurations(1, 100, 31)
    assert cell.shards.durations("other") is None
    for number in range(12):
        cell.jobs.submit([job(f"r{number}", kind="mapreduce", need=(0, 0))], 0, "ada")
        assert member.place(f"r{number}", (2, 1)).accepted
        worker = Worker(2, cell.machines.runs([2])[-1].placement, 0)
        for phase in ("map", "reduce"):
            assert cell.shards.claim(f"r{number}", worker, 1, 1, 0) == Errand(phase, 0)
            assert cell.shards.end(f"r{number}", "words", worker, phase, 0, 200)
    learnt = cell.shards.durations("words")
    assert learnt is not None
    assert learnt.runs == 13
    assert 150 < learnt.map_ms < 200
    assert 120 < learnt.reduce_ms < learnt.map_ms


def test_what_was_agreed_on_first_counts(cell: AnyCell, workers: list[Worker]) -> None:
    claim(cell, workers[0], maps=3, reduces=2)
    claim(cell, workers[1], maps=30, reduces=20)
    progress = cell.shards.progress("a")
    assert progress is not None
    assert (progress.map.total, progress.reduce.total) == (3, 2)


# Jobs that may go to several cells


def test_a_job_goes_to_the_cell_that_was_named_first(cell: AnyCell) -> None:
    assert cell.jobs.claim(["x", "y"], "east", expire_ms=60_000) == ["east", "east"]
    assert cell.jobs.claim(["y", "z"], "west", expire_ms=60_000) == ["east", "west"]
    assert cell.jobs.claim([], "west", expire_ms=60_000) == []
    assert cell.jobs.get("x") is None, "it is not submitted"


# Output directories


def test_an_output_directory_belongs_to_one_live_job(stored: RedisCell) -> None:
    stored.jobs.submit([job("x"), job("y")], 0, "ada")
    assert stored.shards.claim_directory("/data/ü out", "x", expire_ms=KEPT_MS) is None
    assert stored.shards.claim_directory("/data/ü out", "x", expire_ms=KEPT_MS) is None, "a repeated call"
    assert stored.shards.claim_directory("/data/ü out", "y", expire_ms=UNSENT_MS) == "x"
    for around in ("/data", "/data/ü out/a/b"):
        assert stored.shards.claim_directory(around, "y", expire_ms=UNSENT_MS) == "x", "one contains the other"
    assert stored.shards.claim_directory("/data/ü", "y", expire_ms=UNSENT_MS) is None, (
        "the same letters are no directory"
    )
    assert stored.shards.directories() == {"/data/ü out": "x", "/data/ü": "y"}
    stored.shards.claim_directory("/data/ü out", "y", expire_ms=0)
    assert stored.shards.claim_directory("/data/ü out", "y", expire_ms=UNSENT_MS) == "x", "only its job gives it up"
    stored.jobs.stop("x", 1, "ada")
    assert stored.shards.claim_directory("/data", "y", expire_ms=KEPT_MS) is None, (
        "it is released when its job has ended"
    )
    assert stored.shards.directories() == {"/data/ü": "y", "/data": "y"}


def test_a_directory_is_claimed_before_its_job_is_submitted(stored: RedisCell) -> None:
    assert stored.shards.claim_directory("/data", "new", expire_ms=UNSENT_MS) is None
    assert stored.shards.claim_directory("/data", "other", expire_ms=UNSENT_MS) == "new"
    stored.shards.claim_directory("/data", "new", expire_ms=0)
    assert stored.shards.claim_directory("/data", "other", expire_ms=KEPT_MS) is None
    assert stored.shards.claim_directory("/data", "new", expire_ms=UNSENT_MS) is None, "the other is stored no longer"

"""The history of a job in `omega job status`: attempts, conflicts and who won, evictions, losses, changes by people."""

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Mode, Position, Transaction
from tests.cli.conftest import Omega, join


class Hand:
    """A scheduler moved by hand."""

    def __init__(self, cell: RedisCell, member: str) -> None:
        self.cell, self.number = cell, 0
        self.membership: Membership = cell.schedulers.register(member, "n", 60_000, 1_000)

    def claim(self, job: str, *claims: Claim, at_ms: int, coarse: bool = False) -> None:
        self.number += 1
        detection = Detection.COARSE if coarse else Detection.FINE
        made = [Transaction(job, claims, Mode.INCREMENTAL, detection)]
        self.cell.schedulers.commit(
            CommitRequest(self.membership, self.number, made, self.cell.schedulers.sync(Position()).position, at_ms)
        )


@pytest.fixture
def lived(omega: Omega, cell: RedisCell) -> RedisCell:
    """Job crawl lost a race on m0, was evicted from m1 for a more important one, and lost what ran on m2."""
    join(cell, 3)
    group = (TaskGroup((2000, 10), 4),)
    jobs = [JobSpec("c" * 8, "crawl", "batch", group), JobSpec("r" * 8, "rival", "batch", group, 9)]
    cell.jobs.submit(jobs, 1_000, "ada")
    mine, other = Hand(cell, "batch/0"), Hand(cell, "batch/1")
    other.claim("r" * 8, Claim(0, 0, 2), at_ms=2_000)
    mine.claim("c" * 8, Claim(0, 0, 1), Claim(1, 0, 2), at_ms=3_000)
    other.claim("r" * 8, Claim(1, 0, 1, seen=0, evict=((2, 1),)), at_ms=4_000)
    mine.claim("c" * 8, Claim(2, 0, 2), at_ms=5_000)
    (run,) = cell.machines.runs([2])
    cell.executors.end([TaskEnd(2, run.placement, EndKind.LOST)], 6_000, "here")
    cell.jobs.hold("c" * 8, 7_000, "bob")
    return cell


def test_the_history_tells_attempts_conflicts_evictions_and_changes(omega: Omega, lived: RedisCell) -> None:
    said = omega.text("job", "status", "crawl")
    assert "conflict of crawl (cccc) on m0: full (batch/1 placed rival (rrrr) there before, version 6) · placed" in said
    assert "1 task of crawl (cccc) evicted on m1 for rival (rrrr)" in said
    assert "2 tasks of crawl (cccc) lost on m2" in said
    assert "bob      held crawl (cccc)" in said
    assert "2 transactions by batch/0, 1 conflict · 1 task placed again · first placed after 2.0 s" in said


def test_the_history_as_values(omega: Omega, lived: RedisCell) -> None:
    found = omega.json("job", "status", "crawl")
    history = found["history"]
    assert (history["attempts"], history["conflicts"], history["lost"], history["placed_again"]) == (2, 1, 2, 1)
    conflict = next(event for event in history["events"] if event["kind"] == "conflict")
    won = conflict["winner"]
    assert (conflict["machine"], conflict["verdict"], won["by"], won["kind"], won["job"]) == (
        0,
        "full",
        "batch/1",
        "place",
        "r" * 8,
    )
    assert won["version"] < conflict["version"]
    kinds = [event["kind"] for event in history["events"]]
    assert kinds == ["submit", "conflict", "place", "evicted", "place", "lost", "hold"]
    assert found["summary"] == {
        "pending": 3,
        "starting": 0,
        "running": 1,
        "stopping": 0,
        "failed": 0,
        "finished": 0,
        "stopped": 0,
        "lost": 2,
    }


def test_a_machine_that_moved_won_as_well(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    cell.jobs.submit([JobSpec("c" * 8, "crawl", "batch", (TaskGroup((1, 1), 1),))], 1_000, "ada")
    cell.machines.set_capacity(0, (5000, 5000), 2_000, "eve")
    Hand(cell, "batch/0").claim("c" * 8, Claim(0, 0, 1, seen=1), at_ms=3_000, coarse=True)
    assert "conflict of crawl (cccc) on m0: moved (eve changed the machine there before" in omega.text(
        "job", "status", "crawl"
    )


def test_tasks_that_wait_for_what_leaves_are_starting(omega: Omega, lived: RedisCell) -> None:
    assert omega.json("job", "status", "rival")["summary"]["starting"] == 1
    assert "tasks         4 · 1 pending, 1 starting, 2 running" in omega.text("job", "status", "rival")
    leaving = next(run for run in lived.machines.runs([1]) if run.leaving)
    lived.executors.end([TaskEnd(1, leaving.placement, EndKind.LEFT)], 8_000, "here")
    assert omega.json("job", "status", "rival")["summary"]["running"] == 3


def test_a_long_history_is_cut_unless_all_is_asked_for(omega: Omega, cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 1),))], 1_000, "ada")
    for at_ms in range(20):
        cell.jobs.resize("a", {0: at_ms + 2}, 2_000 + at_ms, "ada")
    assert omega.text("job", "status", "a").count("resized a") == 10
    assert omega.text("job", "status", "a", "--verbose").count("resized a") == 20

"""When a running task gets a copy, and where: the rules, and a scheduler that follows them."""

from collections.abc import Sequence
from typing import Any

import pytest

from omega.cellstate.digest.step import digest
from omega.cellstate.errors import BadInput
from omega.cellstate.model import BUCKETS, JobSpec, TaskGroup, bucket_of
from omega.cellstate.replies import Original
from omega.cellstate.tasks import EndKind, TaskEnd, TaskProgress
from omega.schedulers.process.copies import MOST_COPIES, Copies
from omega.schedulers.speculation import Running, Speculation, cell_budget
from tests.unit.schedulers.rig import Rig

ALL = "1" * BUCKETS
"""All buckets of jobs: those of the only scheduler of its kind."""
RULES = {
    # rules, how long the finished of four tasks ran, how long a task may run
    "nothing has finished": (Speculation(), [], None),
    "less than half have finished": (Speculation(), [1.0], None),
    "twice the upper quartile": (Speculation(), [1.0, 2.0], 4.0),
    "the quartile of four": (Speculation(), [4.0, 1.0, 2.0, 3.0], 6.0),
    "a time alone": (Speculation(after=5.0), [], 5.0),
    "whatever is shorter": (Speculation(after=5.0), [1.0, 2.0], 4.0),
    "other numbers": (Speculation(factor=1.5, quantile=0.5, finished=0.25), [2.0], 3.0),
}


@pytest.mark.parametrize("case", RULES)
def test_the_rules(case: str) -> None:
    rules, finished, limit = RULES[case]
    running = [Running(3.5, "a"), Running(4.5, "b"), Running(9.0, "c")]
    slow = rules.slow(running, finished, 4)
    assert [each.task for each in slow] == [n for e, n in ((9.0, "c"), (4.5, "b"), (3.5, "a")) if limit and e > limit]


PROGRESS: dict[str, tuple[list[tuple[float, float | None]], list[float], list[int]]] = {
    # (elapsed, progress) of the running tasks of four, how long the finished ran, which are slow
    "nobody has finished, and one is slower than the others": ([(60, 0.6), (60, 0.5), (60, 0.6), (60, 0.1)], [], [3]),
    "a report may be 15 s old": ([(18, 0.6), (18, 0.6), (18, 0.6), (18, 0.05)], [], []),
    "it stands still": ([(600, 0.3)], [60.0, 60.0, 60.0], [0]),
    "it takes long, and ends before a copy would": ([(600, 0.95)], [60.0, 60.0, 60.0], []),
    "one that reports nothing is compared by elapsed time": ([(210, None), (60, 0.6), (60, 0.6)], [], [0]),
    "the one that runs on the longest is first": ([(400, 0.5), (300, 0.2)], [60.0, 60.0], [1, 0]),
    "too little is known of the first percents": ([(90, 0.05), (60, 0.09), (60, 0.09), (90, 0.01)], [], []),
    "less than half report": ([(60, 0.6), (900, None)], [], []),
}


@pytest.mark.parametrize("case", PROGRESS)
def test_tasks_that_report_progress_are_compared_by_how_long_they_take(case: str) -> None:
    reported, finished, expected = PROGRESS[case]
    running = [Running(elapsed, number, part) for number, (elapsed, part) in enumerate(reported)]
    assert [each.task for each in Speculation().slow(running, finished, 4)] == expected


@pytest.mark.parametrize("words", [{"after": 0.0}, {"factor": 0.9}, {"quantile": 0.0}, {"finished": 1.5}])
def test_rules_that_would_copy_everything_are_refused(words: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="speculation"):
        Speculation(**words)  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", [None, True, [], {"x": 1}, {"after": "3"}, {"copies": "x"}, {"factor": None}])
def test_rules_that_no_job_file_stores_are_none(stored: object) -> None:
    assert Speculation.of({"speculation": stored}) is None


def test_the_budgets_grow_with_the_job_and_the_cell() -> None:
    assert [Speculation().budget(n) for n in (1, 19, 20, 100)] == [1, 1, 2, 10]
    assert Speculation(copies=3).budget(100) == 3
    assert [cell_budget(n) for n in (1, 80, 1_000)] == [8, 8, 100]


def test_a_scheduler_places_a_copy_of_a_slow_task_on_another_machine() -> None:
    rig, copies = Rig((100, 100), (100, 100), (100, 100)), Copies()
    assert copies.request(rig.other, ALL, 3, rig.clock.seconds, "batch/0") == 0, "a heartbeat before the job comes"
    groups = TaskGroup((100, 100), 2), TaskGroup((100, 100), 0, copies=True)
    rig.submit(JobSpec("a", "a", "batch", groups, spec={"speculation": {"factor": 2.0}}))
    rig.until(lambda: rig.left("a") == 0)
    rig.rest()
    machines = {placement: machine for placement, machine, _ in rig.job("a").groups[0].runs}
    rig.clock.seconds += 10
    rig.other.executors.end([TaskEnd(machines[1], 1, EndKind.FINISHED)], int(rig.clock.seconds * 1000), "e")

    def look() -> int:
        digest(rig.other, int(rig.clock.seconds * 1000))
        return copies.request(rig.other, ALL, 3, rig.clock.seconds, "batch/0")

    assert look() == 0, "it has not run twice as long yet"
    rig.clock.seconds += 15
    assert look() == 1
    assert look() == 0, "it has one"
    rig.until(lambda: rig.job("a").groups[1].placed == 1)
    ((_, machine, _),) = rig.job("a").groups[1].runs
    assert machine != machines[2]
    restarted = Copies()
    assert restarted.request(rig.other, ALL, 3, rig.clock.seconds + 99, "batch/0") == 0, "read from the store"
    rig.end("a")
    assert rig.job("a").groups[0].finished == 2
    rig.check()


def test_a_copy_without_room_on_another_machine_waits_and_evicts_nothing() -> None:
    rig, copies = Rig((200, 200)), Copies()
    groups = TaskGroup((100, 100), 1), TaskGroup((100, 100), 0, copies=True)
    rig.submit(JobSpec("a", "a", "batch", groups, spec={"speculation": {"after": 5.0}}))
    rig.until(lambda: rig.left("a") == 0)
    rig.rest()
    rig.clock.seconds += 60
    digest(rig.other, int(rig.clock.seconds * 1000))
    assert copies.request(rig.other, ALL, 1, rig.clock.seconds, "batch/0") == 1
    for _ in range(20):
        rig.step()
    assert (rig.job("a").groups[1].placed, rig.figures.conflicts) == (0, 0), "the machine of its original is left out"
    rig.end("a")
    assert rig.job("a").groups[1].total == 0
    rig.check()


def test_a_task_whose_copies_fail_gets_only_so_many() -> None:
    rig, copies = Rig((100, 100), (100, 100)), Copies()
    groups = TaskGroup((100, 100), 1), TaskGroup((100, 100), 0, copies=True)
    rig.submit(JobSpec("a", "a", "batch", groups, spec={"speculation": {"after": 5.0}}))
    rig.until(lambda: rig.left("a") == 0)
    rig.rest()
    rig.clock.seconds += 60
    digest(rig.other, int(rig.clock.seconds * 1000))
    for number in range(MOST_COPIES + 2):
        asked = copies.request(rig.other, ALL, 2, rig.clock.seconds, "batch/0")
        assert asked == (number < MOST_COPIES)
        if asked:
            rig.until(lambda: rig.job("a").groups[1].placed == 1)
            ((placement, machine, _),) = rig.job("a").groups[1].runs
            rig.other.executors.end([TaskEnd(machine, placement, EndKind.FAILED)], int(rig.clock.seconds * 1000), "e")
    rig.end("a")
    rig.check()


def test_only_requests_that_the_store_took_count_for_a_run() -> None:
    """The first of two slow tasks ends before the request arrives: the second run has had one copy, the first none."""
    rig, copies = Rig((100, 100), (100, 100), (100, 100)), Copies()
    groups = TaskGroup((100, 100), 2), TaskGroup((100, 100), 0, copies=True)
    rig.submit(JobSpec("a", "a", "batch", groups, spec={"speculation": {"after": 5.0}}))
    rig.until(lambda: rig.left("a") == 0)
    rig.rest()
    rig.clock.seconds += 60
    digest(rig.other, int(rig.clock.seconds * 1000))
    asked, speculate = list[Original](), rig.other.jobs.speculate

    def late(job: str, originals: Sequence[Original], *words: Any) -> list[Original]:
        if originals and not asked:
            asked.extend(originals)
            machine, placement, _ = originals[0]
            rig.other.executors.end([TaskEnd(machine, placement, EndKind.FINISHED)], int(rig.clock.seconds * 1000), "e")
        return speculate(job, originals, *words)

    rig.other.jobs.speculate = late  # type: ignore[method-assign, assignment]
    assert copies.request(rig.other, ALL, 20, rig.clock.seconds, "batch/0") == 1
    assert copies._requested["a"] == {asked[1][1:]: 1}


def test_a_scheduler_takes_over_the_jobs_of_another_one_that_ended() -> None:
    rig, copies = Rig((100, 100), (100, 100), (100, 100)), Copies()
    groups = TaskGroup((100, 100), 1), TaskGroup((100, 100), 0, copies=True)
    rig.submit(JobSpec("a", "a", "batch", groups, spec={"speculation": {"after": 5.0}}))
    rig.until(lambda: rig.left("a") == 0)
    rig.rest()
    rig.other.jobs.submit([JobSpec(f"n{n}", f"n{n}", "service", groups[:1]) for n in range(1_001)], 0, "ada")
    rig.clock.seconds += 60
    digest(rig.other, int(rig.clock.seconds * 1000))
    others = "".join("0" if bucket == bucket_of("a") else "1" for bucket in range(BUCKETS))

    def look(owned: str) -> int:
        return copies.request(rig.other, owned, 3, rig.clock.seconds, "batch/1")

    assert look(others) == 0, "the job is of another scheduler, which lives"
    slow, rig.clock.seconds = rig.clock.seconds, 0.0
    assert look(ALL) == 0, "it takes the job over, which is not slow yet"
    rig.clock.seconds = slow
    assert look(others) == 0, "a scheduler has joined, which looks at the job"
    assert look(ALL) == 1
    assert rig.other.jobs.copied("batch") == ["a"]
    rig.end("a")
    assert look(ALL) == 0
    assert rig.other.jobs.copied("batch") == [], "a job that ended is looked at no more"


def test_a_scheduler_reads_the_progress_of_tasks_before_one_has_finished() -> None:
    rig, copies = Rig((100, 100), (100, 100), (100, 100)), Copies()
    groups = TaskGroup((100, 100), 2), TaskGroup((100, 100), 0, copies=True)
    rig.submit(JobSpec("a", "a", "batch", groups, spec={"speculation": {}}))
    rig.until(lambda: rig.left("a") == 0)
    rig.rest()
    digest(rig.other, int(rig.clock.seconds * 1000))
    rig.clock.seconds += 60
    where = {int(run.tasks): run.machine for run in rig.other.machines.runs([0, 1, 2])}

    def look() -> int:
        return copies.request(rig.other, ALL, 2, rig.clock.seconds, "batch/0")

    assert look() == 0
    for task, percent in ((0, 50), (1, 5)):
        rig.other.tasks.report_progress("a", where[task], [TaskProgress(0, task, percent)])
    assert look() == 1
    assert rig.job("a").groups[1].waiting == "1", "the slower one is copied"
    rig.check()

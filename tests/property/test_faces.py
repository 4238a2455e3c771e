"""Every face shows the same numbers of a job: texts, ``--json``, HTTP, console and ``top``, in random cells."""

import json
import os
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from omega.cellstate import ranges
from omega.cellstate.digest.hours import Position as Digested
from omega.cellstate.digest.step import digest
from omega.cellstate.errors import OmegaError
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Job, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pages import own_groups
from omega.cellstate.replies import Budget, CommitRequest, Original
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cli.job.follow import as_json
from omega.cli.job.list import _rows
from omega.cli.top.panes import panes
from omega.live.waiting import waited_json
from omega.queries.explanations import Explained
from omega.queries.job_state import STATES
from omega.queries.job_status import JobStatus
from omega.queries.job_times import job_times
from omega.queries.jobs import job_json, keep, list_jobs
from omega.queries.mirror import CellMirror, JobFilter
from omega.queries.mirror.overviews import Overviews
from omega.queries.overview import listed_json
from omega.queries.room import Room
from omega.queries.task_results import job_tasks
from omega.schedulers.rolling import Target, resized, targets

MANY = Budget(10, 10)
TIMES = "started_ms", "ended_ms", "elapsed_ms"
STEPS = ("submit", *["place"] * 4, *["copy"] * 2, "end", "hold", "resize", "stop", "update")
SPEC: dict[str, Any] = {"groups": [{"name": "a"}, {"name": "a"}], "speculation": True}


class Life:
    """A cell in which jobs run, are copied, lost, held, resized, stopped and ended at random."""

    def __init__(self, seed: str) -> None:
        self.rng, self.cell, self.now = Random(seed), MemoryCell(), 1_000
        self.mirror, self.digests = CellMirror(self.cell, "store"), Random(f"{seed}/digests")
        self.cell.executors.register("here", "n", 600_000_000, 0)
        self.cell.machines.join("here", [MachineSpec(f"m{i}", (4000, 4096)) for i in range(4)], 0)
        self.me = self.cell.schedulers.register("batch/0", "n", 600_000_000, 0)
        self.number = self.copies = 0

    def jobs(self) -> list[Job]:
        return list(self.cell.jobs.all())

    def step(self) -> None:
        self.now += 10
        what = self.rng.choice(STEPS)
        with suppress(OmegaError):
            getattr(self, what)()
        if self.digests.random() < 0.1:
            digest(self.cell, self.now, self.digests.randint(1, 20))

    def submit(self) -> None:
        self.number += 1
        count, name = self.rng.randint(1, 5), f"j{self.number}"
        groups = TaskGroup((1000, 256), count), TaskGroup((1000, 256), 0, copies=True)
        self.cell.jobs.submit([JobSpec(name, name, "batch", groups, spec=SPEC)], self.now, "ada")

    def place(self) -> None:
        waits = [(job, i) for job in self.jobs() for i, group in enumerate(job.groups) if group.unplaced]
        if waits:
            job, group = self.rng.choice(waits)
            self.number += 1
            claim = Claim(self.rng.randrange(4), group, self.rng.randint(1, 2))
            transaction = Transaction(job.id, (claim,))
            self.cell.schedulers.commit(CommitRequest(self.me, self.number, [transaction], Position(), self.now))

    def copy(self) -> None:
        runs = [run for run in self.cell.machines.runs(range(4)) if run.group == 0 and not run.leaving]
        if runs:
            run = self.rng.choice(runs)
            task = int(run.tasks.split(",")[0].split("-")[0])
            asked = [Original(0, run.placement, task)]
            self.copies += len(self.cell.jobs.speculate(run.job, asked, MANY, self.now, "batch/0"))

    def end(self) -> None:
        runs = [run for run in self.cell.machines.runs(range(4)) if not run.leaving]
        if runs:
            run = self.rng.choice(runs)
            how = self.rng.choice([EndKind.FINISHED, EndKind.FAILED, EndKind.LOST, EndKind.EVICTED])
            self.cell.executors.end([TaskEnd(run.machine, run.placement, how, "*", "drain")], self.now, "here")

    def hold(self) -> None:
        job = self.rng.choice(self.jobs())
        (self.cell.jobs.release if job.held else self.cell.jobs.hold)(job.id, self.now, "ada")

    def resize(self) -> None:
        job = self.rng.choice(self.jobs())
        totals = resized(job, targets(job)[0], self.rng.randint(1, 6))
        self.cell.jobs.resize(job.id, totals, self.now, "ada", job.modified)

    def update(self) -> None:
        """Replace the tasks, as a scheduler that steps at random does."""
        job = self.rng.choice(self.jobs())
        groups = TaskGroup((1000, 256), 2), TaskGroup((1000, 256), 0, copies=True)
        said = [*(job.spec["groups"]), *SPEC["groups"]]
        first = len(job.groups)
        goal = Target(first, 2, tuple(range(0, first, 2)))
        self.cell.jobs.update(job.id, groups, {**job.spec, "groups": said, "targets": [goal.row()]}, self.now, "ada")

    def stop(self) -> None:
        if self.rng.random() < 0.3:
            self.cell.jobs.stop(self.rng.choice(self.jobs()).id, self.now, "ada")


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def started_and_ended(cell: MemoryCell, job: str) -> tuple[int | None, int | None]:
    """What the log says up to the position of the digest: the first placement of a task, and the end of the job."""
    read = Digested.unpack(cell.digest.position()).version
    facts = [fact for fact in cell.log.facts(0, 100_000) if fact.version <= read]
    starts = (fact.at_ms for fact in facts if fact.event[0] == "place" and fact.event[3] == job)
    ends = (fact.at_ms for fact in facts if fact.event[:2] == ("done", job))
    return next(starts, None), next(ends, None)


def compare_times(life: Life, now: int, said: dict[str, Any], text: dict[str, object], seen: Counter[str]) -> None:
    """Compare when a job started and ended with the log, and the document with the text."""
    started, ended = started_and_ended(life.cell, said["id"])
    over = said["state"] not in ("pending", "running", "held") and not said["counts"]["placed"]
    until = ended if over else now
    elapsed = None if started is None or until is None else until - started
    assert (said["started_ms"], said["ended_ms"], said["elapsed_ms"]) == (started, ended, elapsed), said
    for heading, value in (("started", started), ("ended", ended), (">elapsed", elapsed)):
        assert bool(text.get(heading)) == (value is not None), heading
        seen[f"{heading} {value is not None}"] += 1


def compare(life: Life, now: int) -> Counter[str]:
    """Compare all that shows a job's state, reason, number of tasks, restarts and times; return how often each was."""
    cell, seen = life.cell, Counter[str]()
    room, mirror = Room(cell), CellMirror(cell, "store")
    mirror.read(now)
    life.mirror.read(now)
    assert plain(life.mirror.jobs()) == plain(mirror.jobs()), "a mirror that saw all of it"
    page = cell.jobs.page()
    listed, http = list_jobs(cell, page, now)["jobs"], {row["id"]: row for row in mirror.jobs()["jobs"]}
    texts = {str(row["id"]): row for row in _rows(cell, page, now)}
    overview = Overviews(cell, mirror.held, "store").make(now)
    pane = panes(overview)[0]
    titles = "placed", "restarts", "started", "elapsed"
    placed, again, began, took = (next(each for each in pane.columns if each.title == title) for title in titles)
    on_top = {each.job.id: each for each in overview.shown_jobs}
    for job in cell.jobs.all():
        said = job_json(job, room, now, job_times(cell, [job])[job.id])
        numbers, state = said["counts"], said["state"]
        row = next(each for each in listed if each["id"] == job.id)
        assert plain(row) == plain(said) == plain(http[job.id]) == plain(mirror.job_row(job.id)), job
        text, followed, waited = texts[job.id], as_json(job, "submitted"), waited_json(cell, job, 0)
        assert (text[">tasks"], text[">placed"], text["state"]) == (numbers["total"], numbers["placed"], state)
        assert (followed["counts"], followed["tasks"], followed["state"]) == (numbers, numbers["total"], state)
        assert (waited["counts"], waited["state"]) == (numbers, state)
        status = JobStatus(cell, job)
        summary = status.summary
        assert plain(status.as_json(now)["counts"]) == plain(numbers)
        assert summary["starting"] >= 0
        assert summary["running"] + summary["starting"] == numbers["placed"]
        assert summary["pending"] == numbers["pending"]
        tasks = job_tasks(cell, job).document(cell, None, now)["tasks"]
        assert said["restarts"] == sum(row["restarts"] * ranges.count(row["tasks"]) for row in tasks), job
        assert said["restarts"] == int(str(text.get(">restarts", 0)))
        compare_times(life, now, said, text, seen)
        losses = plain(status.as_json(now)["losses"])
        assert said["restarts"] == sum(
            (each["lost"] + each["failures"]) * ranges.count(each["tasks"]) for each in losses
        )
        if job.pending and state == "pending":
            head = Explained.of(cell, job).head
            assert (head["unplaced"], head["total"]) == (numbers["pending"], numbers["total"])
        if each := on_top.get(job.id):
            assert listed_json(each, now)["counts"] == numbers
            assert (again.show(each) or "0") == f"{said['restarts']:,}"
            assert listed_json(each, now)["restarts"] == said["restarts"]
            assert [listed_json(each, now)[name] for name in TIMES] == [said[name] for name in TIMES]
            assert [column.show(each) != "" for column in (began, took)] == [
                said[name] is not None for name in TIMES[::2]
            ]
            assert placed.show(each) == f"{numbers['placed']:,}/{numbers['total']:,}"
    for word in STATES:
        found = {job.id for job in cell.jobs.page(None, None, keep(None, word)).jobs}
        shown = {each for each, row in http.items() if row["state"] == word}
        assert found == shown, word
        assert shown == {row["id"] for row in mirror.jobs(JobFilter(state=word))["jobs"]}, word
        assert cell.sums().jobs[word] == len(found), word
    waits = [http[row["id"]]["counts"]["pending"] for row in mirror.jobs(sort="waiting")["jobs"]]
    assert waits == sorted(waits)
    sums = mirror.cell_status()["tasks"]
    for name in ("total", "pending", "placed", "finished", "failed", "stopped"):
        assert sums[name] == sum(row["counts"][name] for row in http.values()), name
    seen["restarts"] = sum(row["restarts"] for row in http.values())
    return seen


@pytest.mark.parametrize("seed", range(6))
def test_all_faces_show_the_same_numbers(seed: int) -> None:
    life = Life(f"{seed}/faces")
    life.submit()
    seen = Counter[str]()
    for _ in range(12):
        for _ in range(8):
            life.step()
        seen += compare(life, life.now)
    assert life.copies
    assert seen["restarts"]
    assert seen["started True"]
    assert seen["started False"]


def test_a_job_that_ends_as_the_digest_comes_further_has_its_end_in_the_mirror() -> None:
    life = Life("134/long faces")
    life.submit()
    for _ in range(21):
        life.step()
        compare(life, life.now)
    (job,) = (row for row in life.mirror.jobs()["jobs"] if row["id"] == "j1")
    assert (job["state"], job["ended_ms"]) == ("finished", 1080)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(int(os.environ.get("EXAMPLES", "300"))))
def test_all_faces_show_the_same_numbers_in_long_lives(seed: int) -> None:
    life = Life(f"{seed}/long faces")
    life.submit()
    for _ in range(100):
        life.step()
        compare(life, life.now)


def times(life: Life, job_id: str, now: int) -> list[Any]:
    """The times of a job in the list, which all faces have."""
    compare(life, now)
    (row,) = (row for row in list_jobs(life.cell, life.cell.jobs.page(), now)["jobs"] if row["id"] == job_id)
    return [row[name] for name in TIMES]


def test_start_and_end_are_shown_once_the_digest_of_the_log_has_reached_them() -> None:
    life, groups = Life("times"), (TaskGroup((1000, 256), 2),)
    life.cell.jobs.submit([JobSpec(name, name, "batch", groups) for name in ("a", "b")], 1_000, "ada")

    life.cell.schedulers.commit(CommitRequest(life.me, 1, [Transaction("a", (Claim(0, 0, 1),))], Position(), 2_000))
    life.cell.schedulers.commit(CommitRequest(life.me, 2, [Transaction("a", (Claim(1, 0, 1),))], Position(), 3_000))
    assert times(life, "a", 5_000) == [None, None, None]
    digest(life.cell, 5_000)
    assert times(life, "a", 5_500) == [2_000, None, 3_500], "of a job that runs until now"
    runs = life.cell.machines.runs([0, 1])
    life.cell.executors.end([TaskEnd(run.machine, run.placement, EndKind.FINISHED, "*") for run in runs], 6_000, "here")
    assert times(life, "a", 9_000) == [2_000, None, None], "it has ended, and it is not known when"
    digest(life.cell, 9_000)
    assert times(life, "a", 9_500) == [2_000, 6_000, 4_000]
    life.cell.jobs.stop("b", 9_600, "ada")
    digest(life.cell, 9_700)
    assert times(life, "b", 9_800) == [None, 9_600, None], "it never started"


def test_times_cost_a_list_two_reads_whatever_the_number_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    life, groups, calls = Life("reads"), (TaskGroup((10, 10), 1),), Counter[str]()
    names = [f"j{number}" for number in range(60)]
    life.cell.jobs.submit([JobSpec(name, name, "batch", groups) for name in names], 1_000, "ada")
    claims = [Transaction(name, (Claim(0, 0, 1),)) for name in names]
    life.cell.schedulers.commit(CommitRequest(life.me, 1, claims, Position(), 2_000))
    digest(life.cell, 3_000)

    def count(part: object, name: str) -> None:
        read = getattr(part, name)

        def counted(*given: Any) -> Any:
            calls[name] += 1
            return read(*given)

        monkeypatch.setattr(part, name, counted)

    for name in ("position", "histories", "job_history", "result_records"):
        count(life.cell.digest, name)
    for name in ("newest_facts", "facts"):
        count(life.cell.log, name)
    rows = list_jobs(life.cell, life.cell.jobs.page(50), 4_000)["jobs"]
    assert [row["started_ms"] for row in rows] == [2_000] * 50
    assert calls == {"position": 1, "histories": 1}


def test_a_job_with_copies_has_its_own_tasks_alone() -> None:
    """Four tasks in a list as in a table: two run, each with a copy that waits; held, it still runs."""
    life = Life("few")
    groups = TaskGroup((1000, 256), 2), TaskGroup((1000, 256), 0, copies=True)
    life.cell.jobs.submit([JobSpec("a", "a", "batch", groups, spec=SPEC)], 0, "ada")
    claims = Transaction("a", (Claim(0, 0, 2),))
    life.cell.schedulers.commit(CommitRequest(life.me, 1, [claims], Position(), 1))
    (run,) = life.cell.machines.runs([0])
    life.cell.jobs.speculate("a", [Original(0, run.placement, task) for task in (0, 1)], MANY, 1, "batch/0")
    life.cell.jobs.hold("a", 2, "ada")
    job = life.cell.jobs.get("a")
    assert job is not None
    assert [sum(group.total for group in groups) for groups in (job.groups, own_groups(job))] == [4, 2]
    row = _rows(life.cell, life.cell.jobs.page(), 10)[0]
    assert (row[">tasks"], row[">placed"], row["state"], row["reason"]) == (2, 2, "running", "")
    compare(life, 10)


def test_a_running_task_is_not_starting_because_its_copy_waits() -> None:
    """The copy waits for a task that leaves its machine; the task itself runs."""
    life = Life("leaving")
    life.number = 1
    groups = TaskGroup((1000, 256), 1), TaskGroup((1000, 256), 0, copies=True)
    life.cell.jobs.submit([JobSpec("a", "a", "batch", groups, spec=SPEC)], 0, "ada")
    life.cell.jobs.submit([JobSpec("b", "b", "batch", (TaskGroup((4000, 256), 1),))], 0, "ada")
    claims = [Transaction("a", (Claim(0, 0, 1),)), Transaction("b", (Claim(1, 0, 1),))]
    life.cell.schedulers.commit(CommitRequest(life.me, 1, claims, Position(), 1))
    first, other = life.cell.machines.runs([0, 1])
    life.cell.jobs.speculate("a", [Original(0, first.placement, 0)], MANY, 1, "batch/0")
    life.cell.executors.end([TaskEnd(1, other.placement, EndKind.EVICTED, "*", "drain")], 2, "ada")
    life.cell.schedulers.commit(CommitRequest(life.me, 2, [Transaction("a", (Claim(1, 1, 1),))], Position(), 3))
    assert [(run.job, run.leaving) for run in life.cell.machines.runs([1])] == [("b", True), ("a", False)]
    job = life.cell.jobs.get("a")
    assert job is not None
    summary = JobStatus(life.cell, job).summary
    assert (summary["running"], summary["starting"]) == (1, 0)

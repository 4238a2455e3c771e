"""What an update does with each field of a job, with groups for copies, and with counts after it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from omega.cellstate import ranges
from omega.cellstate.errors import BadInput
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Job, JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify
from omega.changes import change_json, resize
from omega.jobfile.form import JobForm, Tasks, Update
from omega.schedulers.rolling import Rollouts, started_with
from omega.schedulers.speculation import with_copies
from omega.updating import GROUP_FIELDS, JOB_FIELDS, Effect, job_update
from omega.versions import find, present

EVERY = "1" * 256
FRAMES = TaskGroup((1, 1), 4, 3_600_000, {"name": "frames", "repeatable": True})
COPIED: dict[str, Any] = {"speculation": {}}


class Place:
    """A cell with room, a scheduler that places what waits, and its updates."""

    def __init__(self, groups: tuple[TaskGroup, ...], spec: Mapping[str, Any], kind: str = "batch") -> None:
        self.cell = MemoryCell("c", Dimensions(("cpu", "memory")))
        self.cell.executors.register_agent("m0", "n", 10**9, 0)
        self.cell.machines.join("agent/m0", [MachineSpec("m0", (100, 100))], 0)
        self.membership = self.cell.schedulers.register(f"{kind}/0", "n", 10**9, 0)
        self.kind, self.now, self.number = kind, 0, 0
        self.rollouts = Rollouts(kind, f"{kind}/0")
        self.cell.jobs.submit([self.spec(groups, spec)], 0, "ada")
        self.place()

    def spec(self, groups: tuple[TaskGroup, ...], spec: Mapping[str, Any]) -> JobSpec:
        health = {"update": {"health": {"healthy_after": 0}}} if "update" not in spec else {}
        return JobSpec("a", "a", self.kind, groups, spec=dict(health) | dict(spec))

    @property
    def job(self) -> Job:
        found = self.cell.jobs.get("a")
        assert found is not None
        return found

    def place(self) -> None:
        for number, group in enumerate(self.job.groups):
            if group.ready and not group.copies:
                self.number += 1
                wanted = Transaction("a", (Claim(0, number, group.ready),))
                self.cell.schedulers.commit(CommitRequest(self.membership, self.number, [wanted], Position(), self.now))

    def update(self, groups: tuple[TaskGroup, ...], spec: Mapping[str, Any], steps: int = 60) -> int:
        again = self.cell.jobs.update_state("a").startswith("stalled")
        wanted = job_update(self.job, self.spec(groups, spec), 1, "ada", again=again)
        self.cell.jobs.update("a", wanted.groups, wanted.spec, self.now, "ada", self.job.modified)
        for _ in range(steps):
            if self.cell.jobs.update_state("a") != "rolling":
                break
            self.now += 1_000
            self.rollouts.step(self.cell, EVERY, self.now)
            self.place()
            gone = [run for run in self.cell.machines.runs([0]) if run.leaving]
            self.cell.executors.end([TaskEnd(run.machine, run.placement, EndKind.LEFT) for run in gone], self.now, "e")
        return wanted.replaced

    def own(self) -> dict[str, int]:
        groups = [group for group in self.job.groups if not group.copies and group.placed]
        return {str(group.duration_ms): group.placed for group in groups}

    def end(self, task: int, how: EndKind) -> None:
        (run,) = [run for run in self.cell.machines.runs([0]) if run.group == 0 and not run.leaving]
        self.cell.executors.end([TaskEnd(0, run.placement, how, str(task))], self.now, "e")


def test_speculation_is_added_to_running_tasks() -> None:
    place = Place((FRAMES,), {})
    before = [run.placement for run in place.cell.machines.runs([0])]
    assert place.update(with_copies([FRAMES]), COPIED) == 0
    assert (place.job.state, place.own()) == (JobState.ACTIVE, {"3600000": 4})
    assert [run.placement for run in place.cell.machines.runs([0])] == before
    assert place.cell.jobs.copied("batch") == ["a"]
    assert (place.cell.jobs.update_state("a"), verify(place.cell).violations) == ("", ())


@pytest.mark.parametrize("replaced", [(), ("frames",), ("sound",)])
def test_speculation_is_not_added_to_running_tasks_of_several_groups(replaced: tuple[str, ...]) -> None:
    groups = [FRAMES, replace(FRAMES, spec={"name": "sound"})]
    place = Place(tuple(groups), {})
    after = [replace(each, duration_ms=5) if each.spec["name"] in replaced else each for each in groups]
    with pytest.raises(BadInput, match=r"speculation cannot be added to the running tasks of group (frames|sound)"):
        place.update(with_copies(after), COPIED)
    assert (place.cell.jobs.copied("batch"), place.own()) == ([], {"3600000": 4})


def test_speculation_is_added_to_several_groups_whose_tasks_are_all_replaced() -> None:
    groups = [FRAMES, replace(FRAMES, spec={"name": "sound"})]
    place = Place(tuple(groups), {})
    assert place.update(with_copies([replace(each, duration_ms=5) for each in groups]), COPIED) == 8
    assert [(group.copies, group.placed) for group in place.job.groups[2:]] == [(False, 4), (True, 0)] * 2
    assert (place.cell.jobs.update_state("a"), verify(place.cell).violations) == ("", ())


@pytest.mark.parametrize("name", ["", "frames"])
@pytest.mark.parametrize("case", ["duration", "count", "removed"])
def test_a_job_with_speculation_is_updated(name: str, case: str) -> None:
    group = replace(FRAMES, spec={"name": name} if name else {})
    place = Place(with_copies([group]), COPIED)
    after = {"duration": replace(group, duration_ms=5), "count": replace(group, count=6), "removed": group}[case]
    groups, spec = ((after,), {}) if case == "removed" else (with_copies([after]), COPIED)
    assert place.update(groups, spec) == (4 if case == "duration" else 0)
    assert place.own() == {str(after.duration_ms): after.count}
    assert (place.cell.jobs.update_state("a"), verify(place.cell).violations) == ("", ())


def test_a_resize_after_an_update_counts_finished_tasks_once() -> None:
    place = Place((FRAMES,), {})
    place.end(0, EndKind.FINISHED)
    place.end(1, EndKind.FINISHED)
    place.update((replace(FRAMES, duration_ms=5),), {})
    assert place.own() == {"5": 2}
    before = place.job
    after = resize(place.cell, before, None, 4, 9, "ada", None)
    assert (change_json(before, after)["totals"], sum(group.unplaced for group in place.job.groups)) == ([4], 0)
    after = resize(place.cell, place.job, None, 5, 9, "ada", None)
    assert (present(place.job).groups[0].count, sum(group.unplaced for group in place.job.groups)) == (5, 1)


def test_a_resize_while_a_stalled_update_has_old_tasks_is_kept() -> None:
    place = Place((FRAMES,), {})
    place.update((replace(FRAMES, duration_ms=5),), {}, steps=1)
    place.cell.jobs.settle("a", "fails", place.now, "batch/0")
    resize(place.cell, place.job, None, 6, 9, "ada", None)
    assert (present(place.job).groups[0].count, place.job.groups[0].placed > 0) == (6, True)
    place.update((replace(FRAMES, duration_ms=7),), {})
    assert find(place.job, None).groups[0].count == 6


@pytest.mark.parametrize("changed", [{"environment": {"LEVEL": "debug"}}, {"directory": "/d2"}])
def test_fields_that_orders_are_made_of_replace_the_tasks(changed: dict[str, Any]) -> None:
    spec = {"environment": {"LEVEL": "info"}, "directory": "/d1"}
    place = Place((FRAMES,), spec, "service")
    assert place.update((FRAMES,), spec | changed, steps=1) == 4
    assert started_with(place.job, 0)["environment"] == {"LEVEL": "info"}, "a lost old task starts as before"
    assert started_with(place.job, 0)["directory"] == "/d1"
    (new,) = [i for i, group in enumerate(place.job.groups) if i and group.total]
    assert started_with(place.job, new)["environment"] == (spec | changed)["environment"]


def test_a_change_in_place_replaces_nothing() -> None:
    place = Place((FRAMES,), {"annotations": {"a": "b"}})
    assert place.update((replace(FRAMES, spec={"name": "frames"}),), {"annotations": {"a": "c"}}) == 0
    assert (place.job.spec["annotations"], place.own()) == ({"a": "c"}, {"3600000": 4})


def test_the_same_file_again_is_no_new_version() -> None:
    place = Place((FRAMES,), {})
    same = job_update(place.job, place.spec((FRAMES,), {}), 1, "ada")
    assert (same.replaced, same.groups, same.spec.get("version")) == (0, (), place.job.spec.get("version"))
    other = job_update(place.job, place.spec((replace(FRAMES, count=5),), {}), 1, "ada")
    assert other.spec["version"] != place.job.spec.get("version")


def _fields(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)


def test_each_field_of_a_job_file_has_an_effect() -> None:
    update = {f"update.{name}" for name in _fields(Update)}
    assert set(JOB_FIELDS) == (_fields(JobForm) - {"tasks", "update"}) | update
    assert set(GROUP_FIELDS) == _fields(Tasks)
    assert set(JOB_FIELDS.values()) == set(Effect)


def test_the_page_says_what_a_change_of_each_field_does() -> None:
    page = (Path(__file__).parents[3] / "docs/services.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ")]
    said = {
        cells[0].strip().partition(":")[0]: [set(re.findall(r"`([\w.]+)`", cell)) for cell in cells[1:]]
        for cells in rows
    }
    for effect in Effect:
        fields = [{name for name, its in table.items() if its is effect} for table in (JOB_FIELDS, GROUP_FIELDS)]
        assert said["finds the job that is updated" if effect is Effect.FINDS else effect.value] == fields


@pytest.mark.parametrize("array", [{"first": 1, "step": 1}, {"first": 0, "step": 2}, None])
def test_an_update_keeps_the_indices_of_an_array(array: dict[str, int] | None) -> None:
    group = replace(FRAMES, spec={"name": "frames", "array": {"first": 0, "step": 1}})
    place = Place((group,), {})
    with pytest.raises(BadInput, match="an update keeps the indices of an array, and group frames would have others"):
        place.update((replace(group, spec={"name": "frames"} | ({"array": array} if array else {})),), {})
    assert place.update((replace(group, count=6),), {}) == 0, "the end of its range may change"
    assert place.own() == {"3600000": 6}


def test_an_array_of_a_service_keeps_one_of_each_index() -> None:
    group = replace(FRAMES, duration_ms=1, spec={"name": "frames", "array": {"first": 0, "step": 1}})
    place = Place((group,), {}, "service")
    place.update((replace(group, duration_ms=2, count=5),), {})
    place.update((replace(group, duration_ms=3, count=5),), {})
    tasks = sorted(
        task for run in place.cell.machines.runs([0]) if not run.leaving for task in ranges.indices(run.tasks)
    )
    assert (tasks, place.own(), verify(place.cell).violations) == ([0, 1, 2, 3, 4], {"3": 5}, ())

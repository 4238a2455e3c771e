"""Which directories of ended tasks an agent keeps."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omega.live.agent import output
from omega.live.agent.output import EndedTasks, disk_bytes
from omega.live.agent.places import AgentPlaces, PlacementKey

BLOCKS = 1 << 16


class Cell:
    """A cell that stores jobs, some of which have ended."""

    def __init__(self, going: set[str], over: set[str]) -> None:
        self.going, self.over, self.asked = going, over, 0
        self.jobs = self

    def by_id(self, ids: list[str]) -> dict[str, Any]:
        assert len(ids) <= output.AT_ONCE
        self.asked += 1
        left = {
            job: SimpleNamespace(groups=[SimpleNamespace(unplaced=0, placed=1)]) for job in ids if job in self.going
        }
        return left | {job: SimpleNamespace(groups=[]) for job in ids if job in self.over}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentPlaces:
    free(monkeypatch, 50)
    made = AgentPlaces(tmp_path, "main", "h1")
    made.make()
    return made


def free(monkeypatch: pytest.MonkeyPatch, percent: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=100, free=percent))


def end(ended: EndedTasks, job: str, task: int = 0, size: int = BLOCKS, where: str = "stdout.0") -> PlacementKey:
    key = PlacementKey(job, 0, task, 1)
    place = ended.places.task(key)
    (place / "work").mkdir(parents=True)
    (place / where).write_bytes(os.urandom(size))
    ended.add(key)
    return key


def kept(ended: EndedTasks) -> set[str]:
    return {key.job for key in ended.places.task_keys()}


def test_the_output_of_more_than_200_ended_tasks_is_kept(places: AgentPlaces) -> None:
    ended, cell = EndedTasks(places), Cell({"j"}, set())
    for task in range(260):
        end(ended, "j", task, 10)
        ended.bound(cell)  # type: ignore[arg-type]
    assert len(list(places.task_keys())) == 260
    assert cell.asked <= 1, "the cell is not asked for each end"


def test_output_of_ended_jobs_goes_first_and_the_oldest_first(places: AgentPlaces) -> None:
    ended, cell = EndedTasks(places, 5 * BLOCKS), Cell({"going"}, {"a", "b", "c"})
    for job in ("going", "a", "b", "c"):
        end(ended, job)
    ended.bound(cell)  # type: ignore[arg-type]
    assert kept(ended) == {"going", "a", "b", "c"}
    end(ended, "c", 1)
    ended.bound(cell)  # type: ignore[arg-type]
    assert kept(ended) == {"going", "b", "c"}
    ended.live_bytes = 4 * BLOCKS
    ended.bound(cell)  # type: ignore[arg-type]
    assert kept(ended) == set(), "then what ended of other jobs"


def test_all_files_of_a_directory_count(places: AgentPlaces) -> None:
    ended, cell = EndedTasks(places, 3 * BLOCKS), Cell(set(), {"a", "b"})
    end(ended, "a", size=2 * BLOCKS, where="work/result.bin")
    end(ended, "b", size=2 * BLOCKS, where="work/result.bin")
    ended.bound(cell)  # type: ignore[arg-type]
    assert kept(ended) == {"b"}


def test_a_tenth_of_the_disk_stays_free(places: AgentPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, cell = EndedTasks(places), Cell(set(), {"a", "b"})
    end(ended, "a")
    end(ended, "b")
    free(monkeypatch, 10)
    ended.bound(cell)  # type: ignore[arg-type]
    assert kept(ended) == {"a", "b"}
    free(monkeypatch, 9)
    ended.bound(cell)  # type: ignore[arg-type]
    assert kept(ended) == set()


def test_output_goes_with_the_record_of_its_job(places: AgentPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, cell = EndedTasks(places), Cell(set(), {"a", "b"})
    monkeypatch.setattr(output, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(output, "AT_ONCE", 2)
    for job in ("a", "b", "c", "d"):
        end(ended, job)
    for _ in range(2):
        ended.bound(cell)  # type: ignore[arg-type]
    assert kept(ended) == {"a", "b"}


def test_the_next_agent_knows_sizes_and_order(places: AgentPlaces) -> None:
    ended = EndedTasks(places)
    for at, job in enumerate(("b", "a", "c")):
        told = places.task(end(ended, job)) / "told"
        os.utime(told, (at, at))
    (places.tasks / "j.0.0.7").mkdir()
    after = EndedTasks(places, 2 * BLOCKS + BLOCKS // 2)
    assert after.find() == [PlacementKey("j", 0, 0, 7)], "a task whose end was not reported"
    shutil.rmtree(places.tasks / "j.0.0.7")
    after.bound(Cell({"a", "b", "c"}, set()))  # type: ignore[arg-type]
    assert kept(ended) == {"a", "c"} or kept(ended) == {"c"}
    assert disk_bytes(places.tasks) >= BLOCKS

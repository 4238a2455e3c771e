"""The recorder, on the twin and on servers: pages, trimmed logs, deleted jobs, lost versions, cut files."""

from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.cuts import Sightings
from omega.cellstate.errors import BadInput
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.recording.file import Writer
from omega.recording.judge import judge
from omega.recording.recorder import PAGE, Recorder
from omega.recording.recording import Recording, load
from tests.taken_back import copied

AnyCell = MemoryCell | RedisCell


class Busy:
    """A cell whose scheduler places a task of a new job, which then ends."""

    def __init__(self, cell: AnyCell, path: Path) -> None:
        self.cell, self.path, self.number, self.jobs = cell, path, 0, 0
        cell.executors.register("simulated", "n", 60_000, 0)
        cell.machines.join("simulated", [MachineSpec(f"m{i}", (4000, 4000)) for i in range(4)], 0)
        self.member = cell.schedulers.register("batch/0", "n", 60_000, 0, {"kind": "batch"})
        self.file = path.open("wb")
        self.gaps: list[str] = []
        self.recorder = Recorder(cell, Writer(self.file), on_gap=self.gaps.append)

    def submit(self, tasks: int = 1) -> str:
        self.jobs += 1
        name = f"j{self.jobs}"
        self.cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((100, 10), tasks),))], self.now(), "ada")
        return name

    def now(self) -> int:
        return self.cell.store_ms()

    def place(self, job: str, machine: int = 0, count: int = 1) -> int:
        self.number += 1
        transaction = Transaction(job, (Claim(machine, 0, count),))
        position = self.cell.schedulers.sync(Position()).position
        self.cell.schedulers.commit(CommitRequest(self.member, self.number, [transaction], position, self.now()))
        return next(run.placement for run in self.cell.machines.runs([machine]) if run.job == job)

    def live(self, jobs: int = 1) -> None:
        """Jobs that are submitted, placed and finished."""
        for _ in range(jobs):
            placement = self.place(self.submit())
            self.cell.executors.end([TaskEnd(0, placement, EndKind.FINISHED)], self.now(), "simulated")

    def end(self) -> Recording:
        self.recorder.end("time")
        self.file.close()
        return load(self.path)

    def trim(self) -> None:
        """Trim the log to its newest entry."""
        if isinstance(self.cell, MemoryCell):
            while len(self.cell.entries) > 1:
                self.cell.entries.popleft()
        else:
            self.cell.client.xtrim(f"{self.cell.prefix}log", maxlen=1, approximate=False)


@pytest.fixture
def busy(cell: AnyCell, tmp_path: Path) -> Busy:
    return Busy(cell, tmp_path / "a.rec.gz")


def checked(recording: Recording) -> None:
    for segment in recording.segments:
        judgement = judge(segment, recording.dimensions)
        assert judgement.ok, judgement.differences
        assert not judgement.stopped


def test_a_recording_has_a_picture_and_what_came_after_it(busy: Busy) -> None:
    before = busy.submit(3)
    placement = busy.place(before, count=2)
    busy.recorder.begin()
    busy.live(2)
    assert not busy.recorder.step()
    busy.live()
    recording = busy.end()
    (segment,) = recording.segments
    assert [row[:5] for row in segment.runs] == [[0, placement, before, 0, "0-1"]]
    assert segment.runs[0][6] == pytest.approx(busy.now(), abs=60_000), "since when it runs"
    assert set(segment.submitted) == {"j2", "j3", "j4"}
    assert [entry.version for entry in segment.entries] == list(
        range(segment.picture["version"] + 1, segment.entries[-1].version + 1)
    )
    assert recording.end is not None
    assert (recording.end["missing"], recording.end["gaps"], recording.end["behind"]) == (0, 0, 0)
    checked(recording)


def test_a_job_that_is_deleted_between_two_pages_is_counted(busy: Busy) -> None:
    busy.recorder.begin()
    if isinstance(busy.cell, MemoryCell):
        busy.cell.keep_jobs = 0
    else:
        busy.cell.client.hset(f"{busy.cell.prefix}meta", "keep_jobs", 0)
    busy.live(2)
    recording = busy.end()
    assert recording.end is not None
    missing = recording.segments[0].missing
    assert recording.end["missing"] == 2
    assert missing == {"j1", "j2"}
    checked(recording)


def test_a_trimmed_log_is_a_gap_and_a_new_picture(busy: Busy) -> None:
    busy.recorder.begin()
    busy.live(2)
    busy.recorder.step()
    busy.live(3)
    busy.trim()
    busy.recorder.step()
    busy.live()
    recording = busy.end()
    assert len(recording.segments) == 2
    assert recording.gaps[0]["lost"] == 8, "nine versions, of which the log had the last"
    assert "8 versions" in busy.gaps[0]
    assert "no longer" not in busy.gaps[0]
    assert any("1 gaps, 8 versions missing" in line for line in recording.notes())
    checked(recording)


def test_long_logs_are_read_in_pages(busy: Busy) -> None:
    busy.recorder.begin()
    busy.live(PAGE // 3 + 1)
    assert busy.recorder.step()
    assert busy.recorder.progress.behind > 0
    assert not busy.recorder.step()
    recording = busy.end()
    assert [window.entries for window in recording.segments[0].windows] == [PAGE, 3 * (PAGE // 3 + 1) - PAGE]
    assert recording.segments[0].windows[1].from_ms is None, "its entries may be older than the read before it"


def test_two_recorders_write_the_same(busy: Busy, tmp_path: Path) -> None:
    other = tmp_path / "b.rec.gz"
    with other.open("wb") as file:
        second = Recorder(busy.cell, Writer(file))
        busy.recorder.begin()
        second.begin()
        busy.live(3)
        busy.recorder.step()
        busy.live()
        second.end("time")
        first = busy.end()
    again = load(other)
    assert first.segments[0].entries == again.segments[0].entries
    assert first.segments[0].submitted == again.segments[0].submitted


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_file_that_was_cut_is_read_up_to_the_cut(busy: Busy, part: float) -> None:
    busy.recorder.begin()
    for _ in range(20):
        busy.live()
        busy.recorder.step()
    whole = busy.end()
    data = busy.path.read_bytes()
    busy.path.write_bytes(data[: int(part * len(data))])
    recording = load(busy.path)
    assert recording.cut
    assert recording.end is None
    assert "cut" in recording.notes()[0]
    entries = recording.segments[0].entries if recording.segments else []
    assert entries == whole.segments[0].entries[: len(entries)]
    assert len(entries) < len(whole.segments[0].entries)


@pytest.mark.parametrize("make", ["fake", "resp2", "resp3"], indirect=True)
@pytest.mark.parametrize("more", [0, 9], ids=["fewer", "more"])
@pytest.mark.parametrize("pause", [False, True])
def test_a_store_that_lost_versions_is_noticed(busy: Busy, more: int, pause: bool) -> None:
    """Also where it has more versions than were read by then: the same numbers are of other changes."""
    busy.recorder.begin()
    busy.live()
    busy.recorder.step()
    back = copied(busy.cell)
    busy.live()
    while busy.recorder.step() or (pause and not busy.recorder._idle):
        pass
    back()
    own, busy.cell.sightings = busy.cell.sightings, Sightings()  # those of the recorder; another process writes on
    busy.live(more)
    busy.cell.sightings = own
    busy.recorder.resume()
    while busy.recorder.step():
        pass
    recording = busy.end()
    assert len(recording.segments) == 2
    assert "lost by the store" in busy.gaps[0]


def test_another_file_is_no_recording(tmp_path: Path) -> None:
    for name, data in {"empty": b"", "text": b"frame\n", "gzip": Writer_of(tmp_path, "page")}.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(BadInput, match="is no recording"):
            load(path)
    with pytest.raises(BadInput, match="No such file"):
        load(tmp_path / "absent")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new"
    path.write_bytes(Writer_of(tmp_path, "header", format=99))
    with pytest.raises(BadInput, match="format 99"):
        load(path)


def test_a_damaged_frame_is_named(busy: Busy) -> None:
    busy.recorder.begin()
    recording = busy.end()
    assert recording.end is not None
    busy.path.write_bytes(busy.path.read_bytes() + b"\x1f\x8bnonsense" * 30)
    with pytest.raises(BadInput, match=r"frame \d+ is damaged"):
        load(busy.path)


def Writer_of(folder: Path, kind: str, **fields: Any) -> bytes:  # noqa: N802 - what a Writer writes
    path = folder / "written"
    with path.open("wb") as file:
        Writer(file).write(kind, **fields)
    return path.read_bytes()

"""The record of `omega up`: who is found by it, who is ended, and who is left alone."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.live.agent.process_tree import started
from omega.live.processes import record as process_record
from omega.live.processes.record import ProcessRecord, end_all, records


@pytest.fixture
def sleepers() -> Iterator[list["subprocess.Popen[bytes]"]]:
    made = [subprocess.Popen(["sh", "-c", f"{trap} sleep 60 & wait"]) for trap in ("", "", "trap '' TERM;")]
    yield made
    for each in made:
        each.kill()
        each.wait()


def recorded(state: Path, cell: str, **pids: int) -> ProcessRecord:
    """The record of an `omega up` of this cell whose processes are these."""
    record = ProcessRecord.begin(state, cell)
    record.note(pids)
    found = json.loads(record.path.read_text())
    found["processes"] = [each for each in found["processes"] if each[0] in pids]
    record.path.write_text(json.dumps(found))
    return record


def test_who_is_recorded_is_ended_and_nobody_else(
    tmp_path: Path, sleepers: list["subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_record, "LEAVING_SECONDS", 0.3)
    ended, other, deaf = sleepers
    recorded(tmp_path, "c", batch=ended.pid, service=deaf.pid)
    recorded(tmp_path, "d", batch=other.pid)
    ended.send_signal(signal.SIGSTOP)
    (record,) = records(tmp_path, "c")
    how = {found.member: killed for found, killed in end_all(record, tmp_path)}
    assert how == {"batch": False, "service": True}, "also one that stands still; one that does not leave is killed"
    assert (ended.wait(10), deaf.wait(10), other.poll()) == (-signal.SIGTERM, -signal.SIGKILL, None)
    assert [found.cell for found in records(tmp_path, None)] == ["d"]


@pytest.mark.parametrize("change", ["started", "boot", "torn"])
def test_a_process_that_only_has_the_number_is_left_alone(
    tmp_path: Path, sleepers: list["subprocess.Popen[bytes]"], change: str
) -> None:
    record = recorded(tmp_path, "c", batch=sleepers[0].pid)
    assert [each.started for each in record.living()] == [started(sleepers[0].pid)]
    said = json.loads(record.path.read_text())
    if change == "started":
        said["processes"][0][2] += "1"
    elif change == "boot":
        said["boot"] = "another"
    record.path.write_text("" if change == "torn" else json.dumps(said))
    assert end_all(record, tmp_path) == []
    assert sleepers[0].poll() is None
    assert not record.path.exists()


def test_the_record_names_this_process(tmp_path: Path) -> None:
    record = ProcessRecord.begin(tmp_path, "c.d")
    assert [(each.member, each.pid) for each in record.living()] == [("up", os.getpid())]
    assert [each.cell for each in records(tmp_path, "c.d")] == ["c.d"]
    record.note({"agent/h1": os.getpid()})
    assert record.agents() == ["h1"]

"""The record of `omega up`: who is found by it, who is ended, and who is left alone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omega.live.agent.process_tree import started
from omega.live.processes import record as process_record
from omega.live.processes.record import ProcessRecord, end_all, records

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
SLEEPS = "import time; print(flush=True); time.sleep(60)"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a Python module as the member of a record, with the command line that a supervisor gives it."""
    made = list[subprocess.Popen[bytes]]()

    def begin(record: ProcessRecord, member: str, text: str = SLEEPS) -> "subprocess.Popen[bytes]":
        (tmp_path / "played.py").write_text("import sys; exec(sys.stdin.readline())")
        command = [sys.executable, "-m", "played", *record.words(member)]
        process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        made.append(process)
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()
        process.stdout.readline()
        return process

    yield begin
    for each in made:
        each.kill()
        each.communicate()


def recorded(state: Path, cell: str) -> ProcessRecord:
    """The record of an `omega up` of this cell that was killed."""
    record = ProcessRecord.begin(state, cell)
    found = json.loads(record.path.read_text())
    found["owner"][2] += "1"
    record.path.write_text(json.dumps(found))
    return record


def test_who_is_recorded_is_ended_and_nobody_else(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_record, "LEAVING_SECONDS", 0.3)
    record, others = recorded(tmp_path, "c"), recorded(tmp_path, "d")
    ended, deaf, other = start(record, "batch/0"), start(record, "service/0", DEAF), start(others, "batch/0")
    reader = subprocess.Popen([sys.executable, "-c", SLEEPS, *record.words("batch/0")], stdout=subprocess.DEVNULL)
    ended.send_signal(signal.SIGSTOP)
    assert {found.member: killed for found, killed in end_all(record, tmp_path)} == {
        "batch/0": False,
        "service/0": True,
    }, "also one that stands still; one that does not leave is killed"
    assert (ended.wait(10), deaf.wait(10), other.poll()) == (-signal.SIGTERM, -signal.SIGKILL, None)
    assert reader.poll() is None, "a command that only names the file"
    reader.kill()
    reader.wait()
    assert [found.cell for found in records(tmp_path, None)] == ["d"]


def test_who_ends_the_others_has_longer_than_they(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_record, "LEAVING_SECONDS", 0.1)
    monkeypatch.setattr(process_record, "OWNER_SECONDS", 30.0)
    late = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), exit())); "
    record = ProcessRecord.begin(tmp_path, "c")
    with subprocess.Popen([sys.executable, "-c", late + SLEEPS], stdout=subprocess.PIPE) as up:
        assert up.stdout
        up.stdout.readline()
        found = json.loads(record.path.read_text())
        found["owner"][1:] = up.pid, started(up.pid)
        record.path.write_text(json.dumps(found))
        assert [(each.member, killed) for each, killed in end_all(record, tmp_path)] == [("up", False)]
        assert up.wait() == 0


@pytest.mark.parametrize("change", ["started", "boot", "torn"])
def test_a_process_that_only_has_the_number_is_left_alone(tmp_path: Path, change: str) -> None:
    record = ProcessRecord.begin(tmp_path, "c")
    assert [each.started for each in record.living()] == [started(os.getpid())]
    said = json.loads(record.path.read_text())
    if change == "started":
        said["owner"][2] += "1"
    elif change == "boot":
        said["boot"] = "another"
    record.path.write_text("" if change == "torn" else json.dumps(said))
    assert end_all(record, tmp_path) == []
    assert not record.path.exists()


def test_the_record_names_this_process(tmp_path: Path) -> None:
    record = ProcessRecord.begin(tmp_path, "c.d")
    assert [(each.member, each.pid) for each in record.living()] == [("up", os.getpid())]
    assert [each.cell for each in records(tmp_path, "c.d")] == ["c.d"]
    record.note(["agent/h1", "batch/0"])
    assert record.agents() == ["h1"]


KILLED = """
import os, subprocess, sys
from pathlib import Path
from omega.live.processes import supervisor
from omega.live.processes.record import ProcessRecord
start = subprocess.Popen
def popen(*words, **options):
    start(*words, **options)
    os.kill(os.getpid(), 9)
supervisor.subprocess.Popen = popen
state = Path(sys.argv[1])
record = ProcessRecord.begin(state, "c")
supervisor.ProcessSupervisor("unix:///none", "c", state / "logs", record=record).start("agent/h1")
"""


def test_a_member_is_found_whose_starter_was_killed_as_it_started_it(tmp_path: Path) -> None:
    """The window in which `omega down` found nothing, held open: killed before the start returns."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (record,) = records(tmp_path, "c")
    assert record.agents() == ["h1"]
    assert [found.member for found, _ in end_all(record, tmp_path)] == ["agent/h1"]

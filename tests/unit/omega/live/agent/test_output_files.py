"""Files of the user that a supervisor writes a task's output to."""

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omega.live.agent import lease_file
from omega.live.agent.output_files import OutputFiles
from omega.live.agent.task_start import account
from tests.unit.omega.live.agent.lone_supervisor import start

TIMEOUT_SECONDS = 30.0


class Task:
    """A task below `top`: its directory, and that of its job."""

    def __init__(self, top: Path) -> None:
        self.place, self.job = top / "task", top / "job"
        for each in (self.place, self.job, self.place / "work"):
            each.mkdir()

    def run(self, text: str, paths: dict[str, str], *, copy: bool = False, **more: Any) -> dict[str, Any]:
        """Run a shell command to its end; returns the result."""
        said = {
            "command": ["sh", "-c", text],
            "environment": {"PATH": os.environ["PATH"]},
            "directory": str(self.place / "work"),
            "restart": {"attempts": 0, "delay_ms": 10, "factor": 2.0},
            "lease": str(self.place / "lease"),
            "cgroup": "",
            "user": None,
            "files": {"directory": str(self.job), "paths": paths, "copy": copy},
        } | {"time_limit_ms": 0, "grace_ms": 200, "log_bytes": 1 << 20, "memory_bytes": 0, "incarnation": 5}
        (self.place / "lease").write_text(f"{lease_file.now() + 600} {lease_file.now() + 700} 5")
        (self.place / "order.json").write_text(json.dumps(said | more))
        start(self.place).wait(TIMEOUT_SECONDS)
        found: dict[str, Any] = json.loads((self.place / "result").read_text())
        return found

    @property
    def files(self) -> dict[str, str]:
        return {str(path.relative_to(self.job)): path.read_text() for path in self.job.rglob("*") if path.is_file()}


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def test_both_streams_have_their_files_and_the_agent_keeps_them_too(task: Task) -> None:
    (task.job / "out").mkdir()
    found = task.run("echo a; echo b >&2", {"stdout": "out/3.txt", "stderr": "3.err"})
    assert found["how"] == "finished"
    assert task.files == {"out/3.txt": "a\n", "3.err": "b\n"}
    assert (task.place / "stdout.0").read_text() == "a\n"


def test_one_file_may_have_both_streams(task: Task) -> None:
    task.run("echo a; sleep 0.2; echo b >&2", {"stdout": "all", "stderr": "all"})
    assert task.files == {"all": "a\nb\n"}


def test_a_large_output_is_whole_in_its_file(task: Task) -> None:
    task.run("seq 1000000", {"stdout": "all"}, log_bytes=1 << 16)
    assert task.files["all"] == "".join(f"{i}\n" for i in range(1, 1_000_001))


AGAIN = "echo $OMEGA_ATTEMPT; test $OMEGA_ATTEMPT -ge 3"


def test_a_new_attempt_begins_the_file_anew(task: Task) -> None:
    assert task.run(AGAIN, {"stdout": "out"}, restart={"attempts": 2, "delay_ms": 1, "factor": 1.0})["attempts"] == 3
    assert task.files == {"out": "3\n"}


def test_or_has_a_file_of_its_own(task: Task) -> None:
    """Two placements of three attempts each: no file is written twice."""
    restart = {"attempts": 2, "delay_ms": 1, "factor": 1.0}
    paths = {"stdout": "out.{attempt}", "stderr": "err.{attempt}"}
    for _ in range(2):
        task.run(AGAIN, paths, restart=restart)
    assert {name: text for name, text in task.files.items() if name.startswith("out")} == {
        "out.1": "1\n", "out.2": "2\n", "out.3": "3\n", "out.4": "1\n", "out.5": "2\n", "out.6": "3\n",
    }  # fmt: skip
    assert sorted(task.files)[:6] == [f"err.{number}" for number in range(1, 7)]


def test_a_directory_that_is_not_there_ends_the_start_and_not_the_task(task: Task) -> None:
    found = task.run(
        f"touch {task.job}/ran", {"stdout": "out/3.txt"}, restart={"attempts": 3, "delay_ms": 1, "factor": 1.0}
    )
    assert (found["how"], found["elsewhere"], found["attempts"]) == ("failed", True, 1)
    assert found["reason"] == f"output {task.job}/out/3.txt: no such file or directory"
    assert task.files == {}


@pytest.mark.parametrize("other", ["a directory", "a pipe"])
def test_what_is_no_file_is_refused(task: Task, other: str) -> None:
    if other == "a pipe":
        os.mkfifo(task.job / "out")
    else:
        (task.job / "out").mkdir()
    found = task.run("echo a", {"stdout": "out"})
    assert (found["how"], found["elsewhere"]) == ("failed", True)


@pytest.mark.parametrize(("text", "left"), [("echo copy", {"out": "copy\n"}), ("echo copy; exit 1", {"out": "task\n"})])
def test_a_copy_has_a_name_of_its_own_until_it_has_finished(task: Task, text: str, left: dict[str, str]) -> None:
    (task.job / "out").write_text("task\n")
    found = task.run(f"test $(cat {task.job}/out) = task && {text}", {"stdout": "out"}, copy=True)
    assert found["how"] == ("finished" if "exit" not in text else "failed")
    assert task.files == left


def test_a_full_disk_fails_the_task(tmp_path: Path) -> None:
    """Its output goes on to be read: the command does not wait for it, nor is it told."""
    files = OutputFiles({"user": None, "umask": 0o22, "files": {"directory": str(tmp_path), "paths": {"stdout": "o"}}})
    files.open()
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, files.handles["stdout"])
    os.close(full)
    files.take("stdout", b"a")
    files.take("stdout", b"b")
    assert files.failed == f"output {tmp_path}/o: no space left on device"
    files.close()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that other users may enter, which those of pytest are not."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    yield top
    shutil.rmtree(top)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start tasks as another user")
def test_the_files_are_opened_as_the_tasks_user(shared: Path) -> None:
    task, nobody = Task(shared), account("nobody")
    (task.job / "theirs").mkdir()
    os.chown(task.job / "theirs", nobody["uid"], nobody["gid"])
    found = task.run("id -un", {"stdout": "mine"}, user=nobody, directory="/")
    assert found["reason"] == f"output {task.job}/mine: permission denied"
    found = task.run("id -un", {"stdout": "theirs/a"}, user=nobody, directory="/", copy=True)
    assert (found["how"], task.files) == ("finished", {"theirs/a": "nobody\n"})
    assert pwd.getpwuid((task.job / "theirs" / "a").stat().st_uid).pw_name == "nobody"

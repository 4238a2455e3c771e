"""A task supervisor: it runs one task as ordered, reads what it says, and ends it in time."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omega.file_lock import take_lock
from omega.live.agent import lease_file, process_tree
from omega.live.agent.output import StreamReader, files, tail
from omega.live.agent.task_output import Output
from tests.unit.omega.live.agent.lone_supervisor import listen, start

TIMEOUT_SECONDS = 30.0
Order = Callable[..., Path]


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """Write an order into a directory of its own; what is not said is harmless."""

    def write(*command: str, lease: tuple[float, float] = (600.0, 700.0), **more: Any) -> Path:
        (tmp_path / "work").mkdir(exist_ok=True)
        said = {
            "command": command,
            "environment": {"PATH": os.environ["PATH"]},
            "directory": str(tmp_path / "work"),
            "restart": {"attempts": 0, "delay_ms": 10, "factor": 2.0},
            "lease": str(tmp_path / "lease"),
            "cgroup": "",
            "user": None,
        } | {"time_limit_ms": 0, "grace_ms": 200, "log_bytes": 1 << 20, "memory_bytes": 0, "incarnation": 5}
        (tmp_path / "lease").write_text(" ".join(str(lease_file.now() + seconds) for seconds in lease) + " 5")
        (tmp_path / "order.json").write_text(json.dumps(said | more))
        return tmp_path

    return write


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not true():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


def catches(pid: int, number: int) -> bool:
    found = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def ended(process: "subprocess.Popen[bytes]", place: Path) -> tuple[str, str]:
    """How the task ended, and why."""
    process.wait(TIMEOUT_SECONDS)
    found = json.loads((place / "result").read_text())
    return found["how"], found["reason"]


def kept(place: Path) -> tuple[str, str]:
    return ended(start(place), place)


def said(place: Path, stream: str = "stdout") -> str:
    return b"".join(StreamReader(place, stream).more()).decode()


def test_it_runs_a_command_and_keeps_what_it_says(order: Order) -> None:
    place = order("sh", "-c", "echo out; echo err >&2; echo $A; pwd", environment={"PATH": "/bin:/usr/bin", "A": "b"})
    assert kept(place) == ("finished", "")
    assert said(place) == f"out\nb\n{place.resolve()}/work\n"
    assert said(place, "stderr") == "err\n"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("sh", "-c", "exit 3"), "exit 3"),
        (("sh", "-c", "kill -9 $$"), "killed by SIGKILL"),
        (("no-such-command",), "command not found: no-such-command"),
        (("/dev/null",), "not executable: /dev/null"),
    ],
)
def test_why_it_failed(order: Order, command: tuple[str, ...], reason: str) -> None:
    assert kept(order(*command)) == ("failed", reason)


def test_what_no_system_takes_as_a_command(order: Order) -> None:
    assert kept(order("echo", "a\0b")) == ("failed", "cannot run 'echo': embedded null byte")


def test_a_working_directory_that_is_not_there(order: Order) -> None:
    place = order("true", directory="/no/such/place", restart={"attempts": 9, "delay_ms": 60_000, "factor": 1})
    assert kept(place) == ("failed", "directory /no/such/place: no such file or directory")


def test_what_fails_is_run_again_so_often_and_no_more(order: Order) -> None:
    place = order("sh", "-c", "echo $OMEGA_ATTEMPT; exit 1", restart={"attempts": 2, "delay_ms": 1, "factor": 2})
    assert kept(place) == ("failed", "exit 1")
    assert said(place) == "1\n2\n3\n"


def test_what_works_in_the_end_has_finished(order: Order) -> None:
    place = order("sh", "-c", "[ $OMEGA_ATTEMPT = 2 ]", restart={"attempts": 5, "delay_ms": 1, "factor": 2})
    assert kept(place) == ("finished", "")
    assert json.loads((place / "result").read_text())["attempts"] == 2


def test_an_exit_code_that_is_final_ends_the_attempts(order: Order) -> None:
    restart = {"attempts": 5, "delay_ms": 1, "factor": 2}
    place = order("sh", "-c", "[ $OMEGA_ATTEMPT = 1 ] && exit 1; exit 65", restart=restart, final=65)
    assert kept(place) == ("failed", "exit 65")
    assert json.loads((place / "result").read_text())["attempts"] == 2


def test_a_time_limit_holds_for_all_attempts_together(order: Order) -> None:
    place = order("sh", "-c", "exit 1", time_limit_ms=300, restart={"attempts": 9_999, "delay_ms": 20, "factor": 1})
    assert kept(place) == ("failed", "time limit of 0.3 s")


def test_a_task_that_ignores_sigterm_is_killed_with_all_its_children(order: Order) -> None:
    place = order("sh", "-c", "trap '' TERM; sleep 60 & echo $!; while :; do sleep 0.1; done", time_limit_ms=200)
    assert kept(place) == ("failed", "time limit of 0.2 s")
    child = int(said(place))
    until(lambda: not process_tree.started(child) or "Z" in Path(f"/proc/{child}/stat").read_text())


def test_it_is_stopped_with_time_for_its_last_words(order: Order) -> None:
    place = order("sh", "-c", "trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.05; done", grace_ms=60_000)
    process = start(place)
    until(lambda: said(place))
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert ended(process, place) == ("stopped", "exit 0")
    assert said(place) == "hi\nbye\n"


@pytest.mark.parametrize(
    ("grace_ms", "notice", "trap", "output"),
    [(60_000, "0.1", "", "hi\n"), (0, "60", "sleep 0.2; echo bye; exit 0", "hi\nbye\n")],
    ids=["shorter", "longer"],
)
def test_a_notice_replaces_the_grace(order: Order, grace_ms: int, notice: str, trap: str, output: str) -> None:
    place = order("sh", "-c", f"trap '{trap}' TERM; echo hi; while :; do sleep 0.05; done", grace_ms=grace_ms)
    process = start(place)
    until(lambda: said(place))
    (place / "notice").write_text(notice)
    process.send_signal(signal.SIGTERM)
    assert ended(process, place) == ("stopped", "exit 0" if grace_ms == 0 else "killed by SIGKILL")
    assert said(place) == output


def test_it_ends_when_the_lease_is_not_renewed(order: Order) -> None:
    assert kept(order("sleep", "60", lease=(0.1, 0.3)))[0] == "lease"
    assert kept(order("sleep", "60", lease=(-2.0, -1.0))) == ("lease", "")


def test_a_renewed_lease_is_noticed(order: Order) -> None:
    place = order("sleep", "0.6", lease=(0.3, 0.4))
    process = start(place)
    lease_file.write(place / "lease", f"{lease_file.now() + 600} {lease_file.now() + 700} 5")
    assert ended(process, place) == ("finished", "")


def test_the_lease_of_a_later_incarnation_is_none(order: Order) -> None:
    place = order("sleep", "60")
    lease_file.write(place / "lease", f"{lease_file.now() + 600} {lease_file.now() + 700} 6")
    assert kept(place) == ("lease", "")


def test_who_waits_for_another_attempt_can_be_stopped(order: Order) -> None:
    place = order("sh", "-c", "echo $$; exit 1", restart={"attempts": 1, "delay_ms": 60_000, "factor": 1})
    process = start(place)
    until(lambda: said(place) and not process_tree.started(int(said(place))))
    process.send_signal(signal.SIGTERM)
    assert ended(process, place) == ("stopped", "exit 1")


def test_a_task_on_its_way_to_a_supervisor_that_ends_on_sigterm_is_stopped(order: Order) -> None:
    place = order("sleep", "60")
    ours, theirs = socket.socketpair()
    with ours:
        process = listen(theirs)
        theirs.close()
        until(lambda: catches(process.pid, signal.SIGTERM))
        os.kill(process.pid, signal.SIGSTOP)
        lock = take_lock(place / "lock")
        assert lock is not None
        socket.send_fds(ours, [json.dumps({"start": str(place), "store": ""}).encode() + b"\n"], [lock])
        os.close(lock)
        os.kill(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGCONT)
        assert ended(process, place) == ("stopped", "")
        assert json.loads(ours.recv(1 << 12)) == {"ended": str(place), "unfit": False}
        with pytest.raises(BrokenPipeError):
            ours.send(b"{}\n")


def test_a_flood_fills_no_disk_and_stalls_no_task(order: Order) -> None:
    flood = "import sys\nfor i in range(300_000): sys.stdout.write('%09d\\n' % i)"
    place = order(sys.executable, "-c", flood, log_bytes=100_000)
    assert kept(place) == ("finished", "")
    there = files(place, "stdout")
    size = sum(path.stat().st_size for _, path in there)
    assert 50_000 <= size <= 100_000
    assert (there[0][0], there[0][1].stat().st_size) == (0, 25_000), "the beginning stays"
    assert there[-1][0] + there[-1][1].stat().st_size == 3_000_000
    text = b"".join(StreamReader(place, "stdout").more())
    assert text.startswith(b"000000000\n000000001\n")
    assert text.endswith(b"000299999\n")
    assert f"\ncut: {3_000_000 - size:,} bytes after the first 25,000 bytes\n".encode() in text
    assert tail(place, "stdout", 10) == b"000299999\n"


def test_output_that_somebody_else_holds_open_is_not_waited_for(order: Order) -> None:
    place = order("sh", "-c", "echo done; (setsid sleep 60 &)")
    process = start(place)
    assert ended(process, place) == ("finished", "")
    assert said(place) == "done\n"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system has no /proc with children")
@pytest.mark.parametrize(
    "command", ["(setsid sleep 60 & echo $! | tee pid)", "(setsid sh -c 'sleep 60 & echo $! | tee pid; sleep 60' &)"]
)
def test_whoever_leaves_the_group_of_a_task_ends_with_it(order: Order, tmp_path: Path, command: str) -> None:
    place = order("sh", "-c", f"cd {tmp_path}; {command}; until [ -s pid ]; do sleep 0.02; done; sleep 0.3")
    assert kept(place) == ("finished", "")
    assert process_tree.started(int(said(place))) == ""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system has no /proc with children")
def test_those_who_end_after_they_left_leave_no_corpses(order: Order) -> None:
    place = order("sh", "-c", "i=0; while [ $i -lt 20 ]; do (setsid true & echo $!); i=$((i+1)); done; sleep 60")
    process = start(place)
    until(lambda: len(said(place).split()) == 20)
    until(lambda: not any(map(process_tree.started, map(int, said(place).split()))))
    process.send_signal(signal.SIGTERM)
    assert ended(process, place) == ("stopped", "killed by SIGTERM")


def test_a_disk_that_is_full_hides_neither_lease_nor_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    lease_file.write(tmp_path / "lease", "1000.5 2000.5 17", lease_file.ROOM)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        lease_file.write(tmp_path / "lease", "3.5 4.5 7", lease_file.ROOM)
        with pytest.raises(OSError, match="No space"):
            lease_file.write(tmp_path / "nonce", "n")
    assert (tmp_path / "lease").read_text().split() == ["3.5", "4.5", "7"]
    assert (tmp_path / "lease").stat().st_size == lease_file.ROOM
    assert not (tmp_path / "nonce").exists()


def test_memory_is_limited_where_there_is_no_cgroup(order: Order) -> None:
    place = order(sys.executable, "-c", "bytearray(1 << 30)", memory_bytes=256 << 20)
    assert kept(place) == ("failed", "exit 1")
    assert "MemoryError" in said(place, "stderr")


def test_memory_is_limited_in_a_cgroup_that_does_not(order: Order) -> None:
    place = order(sys.executable, "-c", "bytearray(1 << 30)", memory_bytes=256 << 20)
    (place / "cgroup").mkdir()
    place = order(sys.executable, "-c", "bytearray(1 << 30)", memory_bytes=256 << 20, cgroup=str(place / "cgroup"))
    assert kept(place) == ("failed", "exit 1")
    assert "MemoryError" in said(place, "stderr")


@pytest.mark.parametrize(
    ("command", "reason"), [("exit 1", "exit 1"), ("echo oom_kill 2 > $0; exit 1", "out of memory (64 MiB)")]
)
def test_out_of_memory_is_what_died_of_it_in_this_attempt(order: Order, command: str, reason: str) -> None:
    cgroup = order() / "cgroup"
    cgroup.mkdir()
    (cgroup / "memory.max").touch()
    (cgroup / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    place = order("sh", "-c", command, str(cgroup / "memory.events"), memory_bytes=64 << 20, cgroup=str(cgroup))
    assert kept(place) == ("failed", reason)


def test_a_disk_without_room_for_a_file_ends_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(tmp_path, "stdout", 20)
    output.take(b"")
    with monkeypatch.context() as full:
        full.setattr(output, "_open", _no_room)
        output.take(b"0123456789")
        output.take(b"lost")
    output.take(b"abc")
    assert b"".join(StreamReader(tmp_path, "stdout").more()) == b"01234abc"
    output.close()


def _no_room() -> None:
    raise OSError(28, "No space left on device")


def test_reading_on_while_files_give_way(tmp_path: Path) -> None:
    output = Output(tmp_path, "stdout", 20)
    reader, late = StreamReader(tmp_path, "stdout"), StreamReader(tmp_path, "stdout")
    output.take(b"0123456")
    assert b"".join(reader.more()) == b"0123456"
    output.take(b"789abc")
    assert b"".join(reader.more()) == b"789abc"
    assert b"".join(late.more()) == b"0123456789abc"
    output.take(b"defghijklmnopqrstuvwxyz")
    assert b"".join(reader.more()) == b"\ncut: 13 bytes after the first 13 bytes\nqrstuvwxyz"
    assert (reader.at, reader.cut) == (36, 13)
    assert [start for start, _ in files(tmp_path, "stdout")] == [0, 26, 33]
    assert tail(tmp_path, "stdout", 8) == b"stuvwxyz"
    output.close()


# Restarts


def test_attempts_are_counted_within_an_interval(order: Order) -> None:
    restart = {"attempts": 1, "delay_ms": 10, "factor": 1, "interval_ms": 60_000}
    task = order("sh", "-c", "echo >> tries; exit 3", restart=restart)
    assert kept(task) == ("failed", "exit 3")
    assert len((task / "work" / "tries").read_text()) == 2
    again = "echo >> tries; sleep 0.2; test $(wc -l < tries) -gt 7"
    assert kept(order("sh", "-c", again, restart=restart | {"interval_ms": 100})) == ("finished", "")


@pytest.mark.parametrize("limit_ms", [0, 100])
def test_a_failure_is_retried_elsewhere_unless_a_time_limit_ended_it(order: Order, limit_ms: int) -> None:
    restart = {"attempts": 0, "delay_ms": 10, "factor": 1, "elsewhere": True}
    place = order("sh", "-c", "sleep 1; exit 3", restart=restart, time_limit_ms=limit_ms)
    assert kept(place)[0] == "failed"
    assert json.loads((place / "result").read_text())["elsewhere"] is not bool(limit_ms)


# Health


def healthy(
    order: Order, *probe: str, timeout_ms: int = 30_000, task: str = "sleep 60", failures: int = 1, granted: bool = True
) -> Path:
    """An order with a liveness command; with `granted` the store has granted the end of an unhealthy task."""
    alive = {"command": probe, "grace_ms": 20, "every_ms": 50, "timeout_ms": timeout_ms, "failures": failures}
    place = order("sh", "-c", task, checks={"alive": alive, "max_down": 1})
    if granted:
        (place / "grant").write_text(f"{lease_file.now() + 60}")
    return place


def found(place: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((place / "health").read_text())
    return state


def test_an_unhealthy_task_is_ended_as_failed_with_a_grant(order: Order) -> None:
    assert kept(healthy(order, "sh", "-c", "exit 3")) == ("failed", "health command: exit 3")


def test_one_failed_check_of_three_leaves_a_task_alone(order: Order) -> None:
    place = healthy(order, "sh", "-c", "echo >> tries; test $(wc -l < tries) != 2", failures=3)
    process = start(place)
    tries = place / "work" / "tries"
    until(lambda: tries.exists() and len(tries.read_text()) > 5)
    assert process.poll() is None
    assert found(place)["alive"] == "alive"
    process.send_signal(signal.SIGTERM)
    assert ended(process, place)[0] == "stopped"


def test_it_is_unhealthy_after_failures_in_a_row(order: Order) -> None:
    place = healthy(order, "sh", "-c", "echo >> tries; exit 4", failures=3)
    assert kept(place) == ("failed", "health command: exit 4, 3 times in a row")
    assert len((place / "work" / "tries").read_text()) == 3


@pytest.mark.parametrize("expired", [False, True])
def test_without_a_grant_an_unhealthy_task_runs_on(order: Order, *, expired: bool) -> None:
    place = healthy(order, "false", task="sleep 1.5", granted=False)
    if expired:
        (place / "grant").write_text(f"{lease_file.now() - 1}")
    process = start(place)
    until(lambda: (place / "health").exists() and found(place)["alive"] == "unhealthy")
    assert ended(process, place) == ("finished", "")


@pytest.mark.chaos
def test_an_unhealthy_task_is_started_again_within_its_attempts(order: Order) -> None:
    place = healthy(order, "sh", "-c", "test -e twice", task="test -e once && touch twice; touch once; sleep 2")
    known = json.loads((place / "order.json").read_text())
    (place / "order.json").write_text(json.dumps(known | {"restart": {"attempts": 1, "delay_ms": 10, "factor": 1}}))
    assert kept(place) == ("finished", "")
    assert json.loads((place / "result").read_text())["attempts"] == 2


@pytest.mark.chaos
def test_a_task_is_down_after_a_failure_until_the_next_attempt_has_lasted(order: Order) -> None:
    restart = {"attempts": 1, "delay_ms": 300, "factor": 1}
    place = order(
        "sh", "-c", "test -e once && exec sleep 2; touch once; exit 3", restart=restart, checks={"proven_ms": 700}
    )
    process = start(place)
    until(lambda: (place / "health").exists() and found(place)["down"])
    until(lambda: (place / "running").read_text().split()[2:] == ["2"])
    assert found(place)["down"], "it runs, and has not lasted yet"
    until(lambda: not found(place)["down"])
    assert ended(process, place) == ("finished", "")


@pytest.mark.chaos
def test_a_readiness_command_that_fails_ends_nothing(order: Order) -> None:
    ready = {"command": ["test", "-e", "well"], "grace_ms": 20, "every_ms": 50, "timeout_ms": 30_000}
    place = order("sleep", "2", checks={"ready": ready, "max_down": 1})
    (place / "grant").write_text(f"{lease_file.now() + 60}")
    process = start(place)
    (place / "work" / "well").touch()
    until(lambda: (place / "health").exists() and found(place)["ready"])
    (place / "work" / "well").unlink()
    until(lambda: not found(place)["ready"])
    assert process.poll() is None
    assert ended(process, place) == ("finished", "")


def test_a_task_may_become_unhealthy_later(order: Order) -> None:
    place = healthy(order, "test", "-e", "well")
    (place / "work" / "well").touch()
    process = start(place)
    until((place / "running").exists)
    time.sleep(0.3)
    assert process.poll() is None
    (place / "work" / "well").unlink()
    assert ended(process, place) == ("failed", "health command: exit 1")


def test_a_health_command_that_hangs_or_is_not_there_is_no_health(order: Order) -> None:
    assert kept(healthy(order, "sleep", "60", timeout_ms=50)) == ("failed", "health command: no answer in 0.05 s")
    assert kept(healthy(order, "/no/such")) == ("failed", "health command: no such file or directory")


def test_a_task_that_ends_ends_its_health_command(order: Order) -> None:
    task = "until test -s probe; do sleep 0.01; done"
    place = healthy(order, "sh", "-c", "echo $$ > probe; exec sleep 60", task=task)
    assert kept(place) == ("finished", "")
    until(lambda: not process_tree.started(int((place / "work" / "probe").read_text())))


LEFT_BEHIND = {
    "a shell whose child hangs": "timeout 600 sleep {seconds}; true",
    "a double fork that succeeds": "(setsid sleep {seconds} &) ; exit 0",
    "a double fork that fails": "(setsid sleep {seconds} &) ; exit 1",
}


def sleeping(seconds: str) -> int:
    """The number of processes that sleep for this many seconds."""
    lines = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    return sum(line == f"sleep\0{seconds}\0".encode() for line in lines)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("kind", ["ready", "alive"])
@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_a_health_command_started_ends_with_it(order: Order, kind: str, command: str) -> None:
    seconds = f"777.{os.getpid()}"
    command = f"echo >> tries; {command.format(seconds=seconds)}"
    check = {"command": ["sh", "-c", command], "grace_ms": 0, "every_ms": 10, "timeout_ms": 200}
    place = order("sleep", "60", checks={kind: check | {"failures": 1_000}, "max_down": 1})
    process = start(place)
    tries = place / "work" / "tries"
    until(lambda: tries.exists() and len(tries.read_text().split("\n")) > 8)
    assert sleeping(seconds) <= 1
    process.terminate()
    process.wait(TIMEOUT_SECONDS)


def test_its_directory_is_the_one_of_the_task(order: Order) -> None:
    place = order("printenv", "PWD", environment={"PATH": os.environ["PATH"], "PWD": "/elsewhere"})
    assert kept(place) == ("finished", "")
    assert said(place) == f"{place / 'work'}\n"

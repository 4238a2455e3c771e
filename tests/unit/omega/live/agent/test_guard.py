"""A guard: it holds the deadlines of tasks whose supervisors cannot, and leaves nothing of a tree behind."""

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from omega.file_lock import held, take_lock
from omega.live.agent import lease_file, process_tree
from omega.live.agent.guard import LOCK, Guard, Helper, task_group
from omega.live.agent.guard_line import GuardLine
from omega.live.agent.lease_file import ask_to_end
from omega.live.agent.process_tree import ProcessInfo, label, labelled, processes
from omega.live.agent.task_start import account

TIMEOUT_SECONDS = 30.0
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")

ESCAPES = {
    "plain": "sleep 60",
    "own session": "setsid sleep 60",
    "double fork, own session, no environment": "(env -i setsid sh -c 'sleep 60 & sleep 60' &)",
}
"""Ways in which a task starts a process that outlives it."""


class Yard:
    """The files of an agent, and a line to its guard."""

    def __init__(self, top: Path) -> None:
        self.top, self.line = top, GuardLine(top)
        (top / "tasks").mkdir()

    def lease(self, over: float, end: float, incarnation: int = 5) -> None:
        """Let tasks run for so many seconds."""
        at = lease_file.now()
        lease_file.write(self.top / "lease", f"{at + over} {at + end} {incarnation}")

    def guard(self) -> None:
        """Return when the guard has read which processes there are: then it answers."""
        self.line.look()
        until(self.answered)

    def answered(self) -> bool:
        self.line.hear()
        return not self.line._asked

    def start(self, name: str, script: str, *, waits: bool = True, **more: Any) -> Path:
        """Start a task, and return when it runs."""
        place = self.top / "tasks" / name
        (place / "work").mkdir(parents=True)
        order = {
            "command": ["sh", "-c", script],
            "directory": str(place / "work"),
            "grace_ms": 100,
            "environment": {"PATH": os.environ["PATH"], "OMEGA_TASK_DIRECTORY": str(place)},
            "restart": {"attempts": 0, "delay_ms": 10, "factor": 2.0},
            "time_limit_ms": 0,
            "log_bytes": 1 << 16,
            "memory_bytes": 0,
            "cgroup": "",
            "lease": str(self.top / "lease"),
            "incarnation": 5,
            "user": None,
        }
        (place / "order.json").write_text(json.dumps(order | more))
        self.line.start(place, "")
        if waits:
            until((place / "running").exists)
        return place

    def escaping(self, name: str, escape: str, **more: Any) -> tuple[Path, list[int]]:
        """Start a task that starts others in such a way; returns its directory and all its processes."""
        place = self.start(name, f"{escape} & echo on; exec sleep 61", **more)
        until(lambda: len(tree(place)) >= (3 if "double" in escape else 2))
        time.sleep(0.1)  # the shells in between are gone
        return place, tree(place)


def guarded(top: Path) -> bool:
    """Whether a guard lives; they hold the lock together."""
    lock = take_lock(top / LOCK)
    if lock is not None:
        os.close(lock)
    return lock is None


def supervisor(place: Path) -> int:
    return int((place / "supervisor").read_text())


def tree(place: Path) -> list[int]:
    """All that descends from a task's supervisor."""
    table, found = processes(), [supervisor(place)]
    for pid in found:
        found += [child for child, each in table.items() if each.parent == pid and child not in found]
    return [pid for pid in found[1:] if not table[pid].ended]


def alive(pids: list[int]) -> list[int]:
    table = processes()
    return [pid for pid in pids if pid in table and not table[pid].ended]


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not true():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


def result(place: Path) -> str:
    text = (place / "result").read_text().strip() if (place / "result").exists() else ""
    return str(json.loads(text)["how"]) if text else ""


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    made.lease(600, 700)
    yield made
    for place in (tmp_path / "tasks").iterdir():
        with suppress(OSError, ValueError):
            if held(place / "lock"):
                os.kill(supervisor(place), signal.SIGCONT)
                os.kill(supervisor(place), signal.SIGTERM)
    until(lambda: not any(held(place / "lock") for place in (tmp_path / "tasks").iterdir()))
    made.line.close()
    until(lambda: not guarded(tmp_path))


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_the_tree_of_a_halted_supervisor_is_killed_when_the_lease_ends(yard: Yard, escape: str) -> None:
    place, pids = yard.escaping("t1", escape)
    os.kill(supervisor(place), signal.SIGSTOP)
    yard.lease(0.1, 0.25)
    until(lambda: not alive(pids))
    until(lambda: not held(place / "lock"))
    assert result(place) == "", "its supervisor was killed: it must not go on when it wakes"


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_what_a_killed_supervisor_leaves_behind_is_killed_at_once(yard: Yard, escape: str) -> None:
    (place, pids), (other, others) = yard.escaping("t1", escape), yard.escaping("t2", "sleep 60", alone=True)
    os.kill(supervisor(place), signal.SIGKILL)
    until(lambda: not alive(pids))
    assert alive(others) == others
    assert held(other / "lock")


def test_a_task_that_a_killed_supervisor_was_to_take_is_sent_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tasks" / "t1"
    place.mkdir(parents=True)
    (place / "order.json").write_text(json.dumps({"incarnation": 5}))
    guard = Guard(tmp_path, None, -1)
    killed, gone = socket.socketpair()
    lives, taken = socket.socketpair()
    gone.close()
    helpers = iter([Helper(1, killed, "5"), Helper(2, lives, "5")])
    monkeypatch.setattr(guard, "_helper", lambda *_, **__: next(helpers))
    assert guard._start(place, "") == {"started": str(place)}
    line, locks, _, _ = socket.recv_fds(taken, 1 << 12, 1)
    assert json.loads(line) == {"start": str(place), "store": ""}
    assert held(place / "lock"), "by the message alone"
    os.close(locks[0])
    guard.selector.close()
    for each in (killed, lives, taken, guard.wakes, guard.waker):
        each.close()


def unread() -> Any:
    raise AssertionError("reads all processes of the computer")


def test_watching_tasks_of_another_guard_reads_no_processes(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {yard.start(f"t{i}", "exec sleep 60") for i in range(3)}
    for module in ("guard", "process_tree"):
        monkeypatch.setattr(f"omega.live.agent.{module}.processes", unread)
    other = Guard(yard.top, None, -1)
    for _ in range(2):
        other.scanned = other.looked = 0.0
        other.enforce()
        other._scan()
    other.selector.close()
    for each in (other.wakes, other.waker):
        each.close()
    assert other.foreign.keys() == places


def test_a_tree_is_killed_without_reading_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    root = subprocess.Popen(["sh", "-c", "sleep 60 & (sleep 60 & sleep 60) & wait"])
    until(lambda: len(process_tree.tree([root.pid])) >= 4)
    pids = list(process_tree.tree([root.pid]))
    with monkeypatch.context() as patch:
        patch.setattr(process_tree, "processes", unread)
        assert process_tree.kill_trees(lambda: [root.pid])
    root.wait()
    until(lambda: not alive(pids))


def test_tasks_share_a_supervisor_and_end_apart(yard: Yard) -> None:
    """A task ends with all that it left behind; its neighbour, also what that started in the same ways, stays."""
    escape = ESCAPES["double fork, own session, no environment"]
    place, _ = yard.escaping("t1", "sleep 60")
    mine = int((place / "running").read_text().split()[0])
    other = yard.start("t2", f"{escape} & sleep 0.5; echo on")
    assert supervisor(place) == supervisor(other)
    neighbour = tree(place)
    until(lambda: not held(other / "lock"))
    assert result(other) == "finished"
    labels = {labelled(pid) for pid in tree(place)}
    assert (labels, mine in tree(place)) == ({label(place)}, True), "of the neighbour nothing was left, and all of this"
    assert set(tree(place)) <= set(neighbour)
    ask_to_end(place)
    os.kill(supervisor(place), signal.SIGUSR2)
    until(lambda: not held(place / "lock"))
    assert result(place) == "stopped"


def test_the_end_of_a_task_wakes_the_agent_at_once(yard: Yard) -> None:
    yard.guard()
    yard.lease(20, 30)
    place = yard.start("t1", "exit 3")
    while str(place) not in yard.line.ended:  # else it came together with the answer to the start
        assert select.select([yard.line], [], [], TIMEOUT_SECONDS)[0], "the agent is woken"
        yard.line.hear()


def test_a_supervisor_that_ends_in_time_says_how(yard: Yard) -> None:
    yard.guard()
    yard.lease(0.4, 1.0)
    place = yard.start("t1", "trap '' TERM; while :; do sleep 0.05; done")
    until(lambda: not held(place / "lock"))
    assert result(place) == "lease"


def test_what_the_guard_killed_did_not_fail_though_the_lease_was_renewed_since(yard: Yard) -> None:
    place = yard.start("t1", "sleep 60 & wait $!")
    until(lambda: len(tree(place)) == 2)
    pids = tree(place)
    os.kill(supervisor(place), signal.SIGSTOP)
    yard.lease(-29.9, 0.1)
    until(lambda: not alive(pids))
    yard.lease(600, 700)
    os.kill(supervisor(place), signal.SIGCONT)
    until(lambda: not held(place / "lock"))
    assert result(place) == "lease"


def test_a_supervisor_that_wakes_late_kills_first(yard: Yard) -> None:
    yard.guard()
    yard.lease(0.9, 1.0)
    place = yard.start("t1", "trap '' TERM; setsid sleep 60 & while :; do sleep 60; done", grace_ms=60_000)
    until(lambda: len(tree(place)) == 3)
    pids = tree(place)
    os.kill(yard.line.pid, signal.SIGSTOP)
    os.kill(supervisor(place), signal.SIGSTOP)
    time.sleep(1.1)
    assert alive(pids) == pids, "with both halted nobody ends it, as the page says"
    os.kill(supervisor(place), signal.SIGCONT)
    until(lambda: not alive(pids))
    until(lambda: result(place) == "lease")
    yard.line.end()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_guard_that_was_lost_is_replaced_and_the_next_one_watches_its_tasks(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    (place, pids), first = yard.escaping("t1", ESCAPES["double fork, own session, no environment"]), yard.line.pid

    def replaced() -> bool:
        yard.line.look()
        return yard.line.pid not in (0, first)

    os.kill(first, how)
    with monkeypatch.context() as impatient:  # only of the guard that cannot answer: a new one may take long to start
        impatient.setattr("omega.live.agent.guard_line.TIMEOUT_SECONDS", 0.2)
        until(replaced)
    yard.guard()
    os.kill(supervisor(place), signal.SIGSTOP)
    yard.lease(0.1, 0.25)
    until(lambda: not alive(pids))
    until(lambda: not held(place / "lock"))


def test_a_supervisor_without_tasks_ends_with_a_guard_that_is_killed(yard: Yard) -> None:
    yard.lease(60, 60)
    place = yard.start("a", "true", waits=False)
    until(lambda: result(place))
    idle = supervisor(place)
    assert alive([idle]), "it waits for more"
    os.kill(yard.line.pid, signal.SIGKILL)
    until(lambda: not alive([idle]))


def test_a_supervisor_without_tasks_ends_on_sigterm_and_the_next_task_has_another(yard: Yard) -> None:
    place = yard.start("a", "true", waits=False)
    until(lambda: result(place))
    idle = supervisor(place)
    os.kill(idle, signal.SIGTERM)
    began = time.monotonic()
    until(lambda: not alive([idle]))
    assert time.monotonic() - began < 5.0
    other = yard.start("b", "true", waits=False)
    until(lambda: result(other))
    assert (result(other), supervisor(other) == idle) == ("finished", False)


def test_a_supervisor_that_ends_on_sigterm_stops_its_tasks_within_their_grace_and_takes_no_other(yard: Yard) -> None:
    place = yard.start("a", "trap 'exec sleep 1' TERM; while :; do sleep 0.05; done", grace_ms=2_000)
    leaving = supervisor(place)
    os.kill(leaving, signal.SIGTERM)
    time.sleep(0.3)
    other = yard.start("b", "sleep 3; exit 0")
    until(lambda: not alive([leaving]))
    assert (result(place), supervisor(other) == leaving) == ("stopped", False)
    until(lambda: result(other))
    assert result(other) == "finished"


@pytest.mark.chaos
def test_a_supervisor_starts_a_guard_when_agent_and_guard_are_gone(yard: Yard) -> None:
    (place, pids), (other, _) = yard.escaping("t1", ESCAPES["own session"]), yard.escaping("t2", "sleep 60", alone=True)
    yard.line.end()
    assert not guarded(yard.top)
    time.sleep(0.3)
    until(lambda: guarded(yard.top))
    assert (alive(pids), held(other / "lock")) == (pids, True)
    time.sleep(0.1)
    os.kill(supervisor(place), signal.SIGKILL)
    until(lambda: not alive(pids))
    os.kill(supervisor(other), signal.SIGTERM)
    until(lambda: not guarded(yard.top))


def test_a_guard_outlives_its_agent_for_as_long_as_tasks_run(yard: Yard) -> None:
    place, pids = yard.escaping("t1", "sleep 60")
    first = yard.line.pid
    yard.line.close()
    yard.line.ensure()
    second = yard.start("t2", "exec sleep 60")
    assert alive([first]) == [first]
    os.kill(supervisor(place), signal.SIGSTOP)
    os.kill(supervisor(second), signal.SIGSTOP)
    yard.lease(0.1, 0.25)
    until(lambda: not alive([*pids, *tree(second)]))
    until(lambda: not alive([first]))
    os.waitpid(first, 0)


def test_a_guard_without_tasks_of_its_own_leaves_those_of_another_guard_to_it(yard: Yard) -> None:
    _, pids = yard.escaping("t1", "sleep 60")
    first = yard.line.pid
    yard.line.close()
    yard.line.ensure()
    yard.guard()
    second = yard.line.pid
    yard.line.close()
    until(lambda: not alive([second]))
    assert alive([first, *pids]) == [first, *pids]


@pytest.mark.parametrize("user", [None, "nobody"])
def test_the_parents_death_ends_the_task_itself_where_there_is_no_guard(yard: Yard, user: str | None) -> None:
    if user is not None and os.geteuid() != 0:
        pytest.skip("only root runs tasks as another user")
    place, pids = yard.escaping("t1", ESCAPES["plain"], user=user and account(user), directory="/")
    os.kill(yard.line.pid, signal.SIGSTOP)
    direct = int((place / "running").read_text().split()[0])
    os.kill(supervisor(place), signal.SIGKILL)
    until(lambda: not alive([direct]))
    assert alive(pids), "it reaches the direct child alone"
    os.kill(yard.line.pid, signal.SIGCONT)
    until(lambda: not alive(pids))


def test_nothing_starts_under_a_lease_that_ended(yard: Yard) -> None:
    yard.lease(-2, -1)
    place = yard.start("t1", "touch began", waits=False)
    until(lambda: (place / "lock").exists() and not held(place / "lock"))
    assert result(place) in ("lease", ""), "by its own hand, or the guard's"
    assert list((place / "work").iterdir()) == []


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path]:
    """A cgroup of version 2, wherever this system has them mounted."""
    mounts = (line.split(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines())
    found = [Path(before.split()[4]) for before, after in mounts if after.startswith("cgroup2 ")]
    place = (found or [tmp_path])[0] / f"omega-test-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup of version 2: {error}")
    if not (place / "cgroup.kill").exists():
        place.rmdir()
        pytest.skip("no cgroup.kill: no cgroups of version 2, or a kernel before 5.14")
    yield place
    until(lambda: "populated 0" in (place / "cgroup.events").read_text())
    place.rmdir()


def test_a_cgroup_is_killed_as_a_whole_even_where_nothing_else_knows_of_a_process(yard: Yard, cgroup: Path) -> None:
    place, pids = yard.escaping("t1", ESCAPES["double fork, own session, no environment"], cgroup=str(cgroup))
    os.kill(yard.line.pid, signal.SIGSTOP)
    os.kill(supervisor(place), signal.SIGKILL)
    yard.line.end()  # guard and supervisor at the same moment: nobody is the parent of what escaped
    until(lambda: not alive(pids[:1]))
    assert alive(pids)
    yard.line.look()
    until(lambda: not alive(pids))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs tasks as another user")
def test_tasks_of_another_user(yard: Yard) -> None:
    script = "id -un; umask; cat /proc/$PPID/environ; cd / && cat /proc/self/status; exec sleep 60"
    place = yard.start("t1", script, user=account("nobody"), directory="/")
    until(lambda: (place / "stdout.0").exists() and b"NoNewPrivs" in (place / "stdout.0").read_bytes())
    user, umask, *status = (place / "stdout.0").read_text().splitlines()
    assert (user, umask) == ("nobody", f"{_umask():04o}")
    assert {line.split()[1] for line in status if line.startswith(("Uid", "Gid"))} == {"65534"}
    assert (place / "stderr.0").read_text().count("denied") == 1, "the environment of its supervisor"
    assert (place / "stdout.0").stat().st_mode & 0o077 == 0, "its output is not for others"
    os.kill(supervisor(place), signal.SIGSTOP)
    pids = tree(place)
    os.kill(supervisor(place), signal.SIGKILL)
    until(lambda: not alive(pids))


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


@pytest.mark.parametrize(
    ("leader", "expected"), [("100", {7, 8, 9}), (None, {8, 9}), ("200", set())], ids=["runs", "ended", "id used again"]
)
def test_the_group_of_a_task_is_that_of_its_leader(tmp_path: Path, leader: str | None, expected: set[int]) -> None:
    (tmp_path / "running").write_text("7 100 5\n")
    table = {
        8: ProcessInfo(1, 7, 3, "101", ended=False),
        9: ProcessInfo(8, 4, 7, "102", ended=False),
        10: ProcessInfo(1, 2, 2, "103", ended=False),
    }
    if leader is not None:
        table[7] = ProcessInfo(1, 7, 7, leader, ended=False)
    assert task_group(tmp_path, table) == expected


@pytest.mark.parametrize("text", [None, "", "7 100"])
def test_a_task_that_recorded_no_group_has_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "running").write_text(text)
    assert task_group(tmp_path, {7: ProcessInfo(1, 7, 7, "100", ended=False)}) == set()

"""Commands that really run, as a person sees it: followed to their exit codes, read, limited, moved off."""

import json
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.live.agent.agent import Agent
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process import AgentLoop, WakeUp, wait_at_mailbox
from omega.live.runners.runner import Runner
from omega.schedulers.constraints.demands import runner_attribute
from tests.cli.conftest import Omega, eventually, join, scheduler

pytestmark = pytest.mark.server
LEASE_MS = 120_000


@contextmanager
def agent(cell: RedisCell, state: Path, runners: Mapping[str, Runner] = MappingProxyType({})) -> Iterator[Agent]:
    """An agent in a thread, which looks again and again instead of being woken."""
    own = RedisCell.connect(cell.url, cell.name)
    places = AgentPlaces(state, cell.name, "h1")
    places.make()
    machine = MachineSpec("h1", (4_000, 4_096), {runner_attribute(name): "1" for name in runners})
    made, wake_up = Agent(own, machine, places, LEASE_MS, runners=runners), WakeUp()
    watch = AgentLoop(made, wake_up)

    def work() -> None:
        with wake_up.opened():
            # As in an agent's process, nobody waits for its last look, which takes seconds.
            mailbox = threading.Thread(target=wait_at_mailbox, args=(cell.url, cell.name, made, wake_up), daemon=True)
            mailbox.start()
            while not wake_up.stopped:
                watch.step()
                time.sleep(0.02)
            watch.end()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield made
    finally:
        wake_up.stop()
        thread.join(30)
        own.close()


@pytest.fixture
def at_home(cell: RedisCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """An agent on this computer, and a scheduler."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    with scheduler(cell), agent(cell, tmp_path) as made:
        eventually(lambda: cell.machines.index_of("h1") is not None)
        yield made


def test_a_command_is_followed_to_its_exit_code(omega: Omega, at_home: Agent) -> None:
    words = ("--name", "count", "--count", "2", "--env", "WORD=hi", "--follow", "--", "sh", "-c")
    said = omega.run("job", "run", *words, "echo $WORD $OMEGA_TASK; exit $OMEGA_TASK", code=1)
    assert said.stdout.splitlines()[-1].endswith(" 1 finished (exit 0), 1 failed (exit 1)")
    job = omega.json("job", "status", "count")["id"]
    assert said.stderr == f"see omega job logs {job} --task 1 --stderr\n"
    assert omega.json("job", "status", "count")["failures"] == {"exit 1": 1}
    assert "1 task: exit 1" in omega.text("job", "status", "count")
    printed = omega.run("job", "logs", "count", "--task", "1")
    assert (printed.stdout, printed.stderr) == ("hi 1\n", "stdout of task 1 of count\n")
    assert omega.text("job", "run", "--follow", "--", "true").splitlines()[-1].endswith("1 finished (exit 0)")


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        (("--", "no-such-command"), "command not found: no-such-command", 127),
        (("--directory", "/no/such/place", "--", "true"), "directory /no/such/place: no such file or directory", 1),
        (("--time-limit", "50ms", "--restart", "3", "--", "sleep", "60"), "time limit of 0.05 s", 124),
        (("--", "sh", "-c", "kill -9 $$"), "killed by SIGKILL", 137),
    ],
)
def test_why_it_failed(omega: Omega, at_home: Agent, words: tuple[str, ...], reason: str, code: int) -> None:
    omega.run("job", "run", "--name", "bad", "--follow", *words, code=code)
    assert omega.json("job", "status", "bad")["failures"] == {reason: 1}


def test_logs(omega: Omega, at_home: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "echo one; echo two; echo three; echo wrong >&2"
    job = omega.json("job", "run", "--name", "talk", "--follow", "--", "sh", "-c", text)["jobs"][0]["id"]
    assert omega.text("job", "logs", "talk") == "one\ntwo\nthree\n"
    assert omega.text("job", "logs", "talk", "--tail", "2") == "two\nthree\n"
    assert omega.text("job", "logs", "talk", "--follow", "--stderr") == "wrong\n"
    found = {"cell": omega.cell, "job": job, "group": 0, "task": 0, "indices": "0", "task_name": "0[0]"}
    found |= {"generation": 1, "stream": "stdout", "cut_bytes": 0, "missing": None}
    assert omega.json("job", "logs", job) == found | {"source": "files", "text": "one\ntwo\nthree\n"}
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "elsewhere"))
    assert omega.json("job", "logs", job, "--tail", "1") == found | {"source": "agent", "text": "three\n"}
    assert omega.error("job", "logs", "talk", "--task", "1") == "job talk: has no task 1; the last one is 0"
    assert omega.error("job", "logs", "talk", "--group", "x") == "job talk: has no task group 'x'; it has 0"


LONG = "seq -f 'line %06g of some output' 25000"
"""A command, and below what it prints."""
PRINTED = "".join(f"line {number:06} of some output\n" for number in range(1, 25_001))


def test_all_output_is_read_on_another_computer(
    omega: Omega, at_home: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = omega.json("job", "run", "--name", "long", "--follow", "--", "sh", "-c", LONG)["jobs"][0]["id"]
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "elsewhere"))
    found = omega.json("job", "logs", job)
    assert (len(found["text"]), found["text"] == PRINTED) == (675_000, True)
    assert (found["source"], found["cut_bytes"], found["missing"]) == ("agent", 0, None)
    printed = omega.run("job", "logs", job)
    assert (printed.stdout == PRINTED, printed.stderr) == (True, "from its agent\n")


def test_the_output_of_every_task_is_collected(
    omega: Omega, at_home: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {"name": "a", "array": "3,5", "resources": {"cpu": "1m"}}
    task["command"] = ["sh", "-c", "echo $OMEGA_ARRAY_INDEX; test $OMEGA_TASK = 0 || echo wrong >&2"]
    omega.run("job", "submit", "-", "--follow", given=json.dumps({"name": "many", "tasks": [task]}))
    assert omega.text("job", "logs", "many", "--all") == "3\n5\n"
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "elsewhere"))
    found = omega.json("job", "logs", "many", "--all")["logs"]
    assert [(each["indices"], each["source"], each["text"]) for each in found] == [
        ("3", "agent", "3\n"), ("5", "agent", "5\n")
    ]  # fmt: skip
    assert omega.text("job", "logs", "many", "--all", "--to", str(tmp_path / "to")) == f"3 files in {tmp_path}/to\n"
    written = {path.name: path.read_text() for path in (tmp_path / "to").iterdir()}
    assert written == {"a.3.stdout": "3\n", "a.5.stdout": "5\n", "a.5.stderr": "wrong\n"}
    assert "--all takes" in omega.run("job", "logs", "many", "--to", "x", code=2).stderr


def test_what_is_missing_is_said_with_its_reason(
    omega: Omega, cell: RedisCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    with scheduler(cell), agent(cell, tmp_path) as made:
        eventually(lambda: cell.machines.index_of("h1") is not None)
        job = omega.json("job", "run", "--name", "long", "--follow", "--", "sh", "-c", LONG)["jobs"][0]["id"]
        monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "elsewhere"))
        for key in made.places.task_keys():
            shutil.rmtree(made.places.task(key))
        cut = "cut at 4 KiB: 670,904 bytes before it"
        found = omega.json("job", "logs", job)
        assert (found["source"], len(found["text"]), found["cut_bytes"]) == ("store", 4_096, 670_904)
        assert found["missing"] == f"expired; {cut}"
    found = omega.json("job", "logs", job)
    assert (found["source"], found["cut_bytes"], found["missing"]) == ("store", 670_904, f"agent away; {cut}")
    assert omega.run("job", "logs", job).stderr == f"from the store (agent away; {cut})\n"


def test_an_earlier_placement_can_be_read(
    omega: Omega, at_home: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omega.live.agent.agent.BEATS", 1_000)  # it looks after the cell all the time
    omega.run("job", "run", "--name", "web", "--detach", "--", "sh", "-c", "echo $OMEGA_PLACEMENT; exec sleep 60")

    def placements() -> list[int]:
        return sorted(key.placement for key in at_home.places.task_keys())

    eventually(lambda: omega.run("job", "logs", "web").stdout != "")
    omega.run("machine", "drain", "h1", "--deadline", "0")
    eventually(lambda: omega.json("job", "status", "web")["counts"]["pending"] == 1)
    omega.run("machine", "up", "h1")
    eventually(lambda: len(placements()) == 2 and omega.run("job", "logs", "web").stdout == f"{placements()[1]}\n")
    first, second = placements()
    for state in (tmp_path, tmp_path / "elsewhere"):
        monkeypatch.setenv("OMEGA_STATE", str(state))
        assert omega.text("job", "logs", "web") == f"{second}\n"
        assert omega.text("job", "logs", "web", "--previous") == f"{first}\n"
        assert omega.json("job", "logs", "web", "--placement", str(first))["text"] == f"{first}\n"
    assert omega.error("job", "logs", "web", "--placement", "99") == (
        f"job web: no such placement of task 0 is known; known are {first}, {second}"
    )
    omega.run("job", "stop", "web")


@pytest.mark.parametrize("here", [True, False])
def test_logs_are_followed_to_the_end(
    omega: Omega, at_home: Agent, here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not here:
        monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "elsewhere"))
    text = "for i in 1 2 3; do echo $i; sleep 0.2; done"
    omega.run("job", "run", "--name", "slow", "--detach", "--", "sh", "-c", text)
    assert omega.text("job", "logs", "slow", "--follow") == "1\n2\n3\n"


def test_who_follows_is_told_once_what_is_gone(omega: Omega, at_home: Agent) -> None:
    text = "seq 4000; echo half; for i in 1 2 3; do sleep 0.3; echo $i; done"
    group = {"command": ["sh", "-c", text], "keep_output": "8Ki", "resources": {"cpu": "1m"}}
    omega.json("job", "submit", "-", given=json.dumps({"name": "long", "tasks": [group]}))
    eventually(lambda: "half" in omega.run("job", "logs", "long").stdout)
    result = omega.run("job", "logs", "long", "--follow")
    assert result.stdout.endswith("half\n1\n2\n3\n")
    assert result.stdout.startswith("1\n2\n3\n")
    assert (result.stdout.count("\ncut: "), " bytes after the first 1,024 bytes\n" in result.stdout) == (1, True)
    followed = omega.run("job", "logs", "long", "--tail", "1", "--follow")
    assert (followed.stdout, followed.stderr) == ("3\n", "")


def test_each_task_of_an_array_writes_its_file(
    omega: Omega, at_home: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is to be read as any other; `out` is made only after the first start was refused."""
    monkeypatch.chdir(tmp_path)
    text = "echo task $OMEGA_ARRAY_INDEX"
    run = ("job", "run", "--name", "many", "--array", "3,7", "--output", "out/{index}.txt", "--cpu", "1m")
    omega.run(*run, "--detach", "--", "sh", "-c", text)
    reason = f"output {tmp_path}/out/3.txt: no such file or directory"
    eventually(lambda: reason in omega.text("job", "status", "many"))
    assert omega.json("job", "status", "many")["counts"]["failed"] == 0
    (tmp_path / "out").mkdir()
    omega.run("job", "stop", "many")
    omega.run(*run, "--detach", "--", "sh", "-c", text)
    omega.run("job", "wait", "many")
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {
        "3.txt": "task 3\n",
        "7.txt": "task 7\n",
    }
    assert omega.text("job", "logs", "many", "--task", "1") == "task 7\n"
    omega.run("job", "run", "--name", "one", "--output", "one.txt", "--detach", "--", "sleep", "60")
    said = "output: 'one.txt' is one file of 2 tasks; write {index} into it"
    assert omega.error("job", "resize", "one", "2") == said
    assert omega.error("job", "run", "--output", "{user}", "--", "true") == (
        "{user} is not known; a pattern may have {index}, {attempt}, {job}, {id}, {group}"
    )


IGNORES = "trap 'echo asked' TERM; echo up; while [ ! -e {go} ]; do sleep 0.02; done; exit 123"


def test_a_task_is_stopping_until_its_processes_have_ended(omega: Omega, at_home: Agent, tmp_path: Path) -> None:
    """It ignores SIGTERM, and then exits with 123: nothing says that it is over before it is."""
    go = tmp_path / "go"
    omega.run("job", "run", "--name", "slow", "--cpu", "2", "--detach", "--", "sh", "-c", IGNORES.format(go=go))
    eventually(lambda: omega.run("job", "logs", "slow").stdout == "up\n")
    said = omega.text("job", "stop", "slow")
    assert said.endswith("  slow  stopped · 1 running task stopping\n")
    (task,) = omega.json("job", "tasks", "slow")["tasks"]
    assert (task["state"], task["exit_status"], task["ended_ms"]) == ("stopping", None, None)
    assert omega.json("job", "tasks", "slow", "--state", "stopping")["rows"] == 1
    assert "1 stopping" in omega.text("job", "status", "slow")
    held = omega.json("machine", "status", "h1")["stopping"]
    assert (held["tasks"], held["cpu"]) == (1, 2_000)
    assert "stopping  1 task, cpu 2" in " ".join(omega.text("machine", "status", "h1").split(" ")).replace("   ", "  ")
    waited = omega.run("job", "wait", "slow", "--timeout", "1s", code=124)
    assert "stopped, processes still run after 1" in waited.stdout
    go.touch()
    assert "stopped · 1 stopped" in omega.run("job", "wait", "slow", code=1).stdout
    (task,) = omega.json("job", "tasks", "slow")["tasks"]
    assert (task["state"], task["exit_status"], task["reason"]) == ("stopped", 123, "exit 123")
    assert task["ended_ms"] > task["started_ms"]
    assert "asked" in omega.text("job", "logs", "slow")
    assert omega.json("machine", "status", "h1")["stopping"] == {}


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("trap 'exit 7' TERM; echo up; while true; do sleep 0.02; done", 7, "exit 7"),
        ("trap 'exit 0' TERM; echo up; while true; do sleep 0.02; done", 0, "exit 0"),
        ("echo up; exec sleep 60", None, "killed by SIGTERM"),
        ("trap '' TERM; echo up; while true; do sleep 0.02; done", None, "killed by SIGKILL"),
    ],
)
def test_what_a_stopped_task_answered_is_kept(
    omega: Omega, at_home: Agent, text: str, status: int | None, reason: str
) -> None:
    group = {"command": ["sh", "-c", text], "grace": "300ms"}
    omega.json("job", "submit", "-", given=json.dumps({"name": "a", "tasks": [group]}))
    eventually(lambda: omega.run("job", "logs", "a").stdout == "up\n")
    answer = omega.json("job", "stop", "a", "--wait")["jobs"][0]
    assert (answer["ended"], answer["stopping"]) == (1, False)
    assert not at_home.cell.machines.runs([0])
    (task,) = omega.json("job", "tasks", "a")["tasks"]
    assert (task["state"], task["exit_status"], task["reason"]) == ("stopped", status, reason)
    assert omega.json("cell", "verify")["ok"]


def test_what_never_ran_has_no_logs(omega: Omega, cell: RedisCell) -> None:
    omega.run("job", "run", "--name", "later", "--detach", "--", "true")
    said = omega.run("job", "logs", "later")
    assert (said.stdout, said.stderr) == ("", "task 0 of later: no output on stdout (not run yet)\n")


def test_a_drained_machine_is_emptied_by_its_deadline(
    omega: Omega, at_home: Agent, cell: RedisCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omega.live.agent.agent.BEATS", 1_000)  # it looks after the cell all the time
    omega.run("job", "run", "--name", "move", "--detach", "--", "sleep", "60")
    eventually(lambda: omega.json("job", "status", "move")["counts"]["placed"] == 1)
    assert omega.json("machine", "drain", "h1", "--deadline", "1h")["machines"][0]["deadline_ms"] == 3_600_000
    assert "evicted after 1h00m" in omega.text("machine", "drain", "h1", "--deadline", "1h")
    found = omega.json("machine", "status", "h1")
    assert found["agent"]["live"]
    assert 3_500_000 < found["deadline_ms"] <= 3_600_000
    assert "moved off in 59m" in omega.text("machine", "status", "h1")
    assert omega.json("job", "status", "move")["counts"]["placed"] == 1
    omega.run("machine", "drain", "h1", "--deadline", "0")
    eventually(lambda: omega.json("job", "status", "move")["counts"]["pending"] == 1)
    assert [event["reason"] for event in omega.json("events", "--kind", "evicted")["events"]] == ["drain"]
    omega.run("machine", "up", "h1")
    assert cell.machines.deadlines() == {}


def test_a_name_that_is_taken(omega: Omega, cell: RedisCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    cell.executors.register_agent("h1", "another", LEASE_MS, 0)
    said = omega.error("agent", "--name", "h1")
    assert said == "agent h1: another one lives under this name; choose another with --name, or stop it"
    join(cell, 1)
    said = omega.error("agent", "--name", "m0")
    assert said == "agent m0: the machine of this name has another executor; choose another with --name"
    assert omega.error("agent", "--name", "..") == "agent name '..': use 1 to 64 letters, digits, . _ -"

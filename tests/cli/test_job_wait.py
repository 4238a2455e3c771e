"""Waiting for jobs and following them: exit codes, lines, outages."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from shutil import rmtree
from typing import Any

import pytest

from omega.cellstate.errors import Unreachable
from omega.cellstate.model import JobSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cli.job.progress_text import ProgressText
from omega.live import waiting as watch
from tests.cli.conftest import Omega, eventually, executor, join, scheduler
from tests.conftest import absent, find_server, socket_directory, wait_for

ENDED = {"total": 2, "pending": 0, "placed": 0, "finished": 0, "failed": 0, "stopped": 0}


def submit(cell: RedisCell, name: str) -> None:
    """Submit a job of two brief tasks, and wake its scheduler."""
    cell.schedulers.members()
    spec = JobSpec(f"id-{name}", name, "batch", (TaskGroup((100, 100), 2, 20),))
    cell.jobs.submit([spec], time.time_ns() // 1_000_000, "ada")


def test_wait_exits_0_when_all_finished(omega: Omega, cell: RedisCell, at_work: Callable[..., None]) -> None:
    at_work()
    submit(cell, "good")
    found = omega.json("job", "wait", "good", "--timeout", "30")
    assert found.pop("waited_seconds") >= 0
    assert found == {
        "cell": omega.cell,
        "id": "id-good",
        "name": "good",
        "state": "finished",
        "counts": ENDED | {"finished": 2},
        "timed_out": False,
        "submitted_again": 0,
    }
    assert omega.text("job", "wait", "id-g") == "job  id-good  good  finished · 2 finished\n"


def test_wait_takes_many_jobs(omega: Omega, cell: RedisCell, at_work: Callable[..., None]) -> None:
    at_work()
    for name in ("good", "better"):
        submit(cell, name)
    found = omega.json("job", "wait", "good", "id-better", "good", "--timeout", "30")
    assert [(each["name"], each["state"]) for each in found["jobs"]] == [("good", "finished"), ("better", "finished")]
    assert not found["timed_out"]
    cell.jobs.submit([JobSpec("id-stopped", "stopped", "service", (TaskGroup((100, 100), 2),))], 1_000, "ada")
    omega.text("job", "stop", "stopped")
    said = omega.text("job", "wait", "good", "stopped", code=1).splitlines()
    assert [line.split()[2] for line in said] == ["good", "stopped"]


def test_wait_exits_1_when_a_task_failed(omega: Omega, cell: RedisCell, at_work: Callable[..., None]) -> None:
    at_work(simulated=False)
    submit(cell, "bad")
    eventually(lambda: omega.json("job", "status", "bad")["state"] == "running")
    first, *rest = (
        TaskEnd(run.machine, run.placement, EndKind.FAILED, task, "exit:3")
        for run in cell.machines.runs([0, 1, 2])
        for task in ("0", "1")
    )
    cell.executors.end([first, *(ending._replace(how=EndKind.FINISHED, reason="") for ending in rest)], 1, "agent")
    found = omega.json("job", "wait", "bad", code=1)
    assert (found["state"], found["counts"]) == ("failed", ENDED | {"failed": 1, "finished": 1})


def test_wait_exits_1_when_it_was_stopped(omega: Omega, cell: RedisCell) -> None:
    submit(cell, "halt")
    omega.run("job", "stop", "halt")
    assert omega.json("job", "wait", "halt", code=1)["state"] == "stopped"


def test_wait_exits_124_when_the_time_is_over(omega: Omega, cell: RedisCell) -> None:
    submit(cell, "late")
    found = omega.json("job", "wait", "late", "--timeout", "50ms", code=124)
    assert (found["timed_out"], found["state"]) == (True, "pending")
    text = omega.text("job", "wait", "late", "--timeout", "0", code=124)
    assert text.startswith("job  id-late  late  still pending after ")


def test_wait_for_nobody(omega: Omega) -> None:
    said = omega.error("job", "wait", "ghost")
    assert said == f"job 'ghost': not in cell {omega.cell}; see omega job list"
    said = omega.error("job", "wait", "ghost", "--timeout", "soon")
    assert said == "'soon' is not a duration; write for example 30s, 5m, 1h30m or 250ms"


def test_a_job_that_is_forgotten_meanwhile(omega: Omega, cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(cell, "old")
    jobs_of = watch.watch

    def late(*arguments: Any) -> Any:
        cell.client.hdel(f"omega:1:{{{cell.name}}}:jobs", "id-old")
        return jobs_of(*arguments)

    monkeypatch.setattr(watch, "watch", late)
    said = omega.error("job", "wait", "old")
    assert said == f"job id-old: ended long ago, cell {cell.name} does not keep it any more"


def test_follow_tells_what_happens(omega: Omega, cell: RedisCell, at_work: Callable[..., None]) -> None:
    at_work()
    words = (
        "--count",
        "5",
        "--cpu",
        "100m",
        "--duration",
        "300ms",
        "--simulate",
        "--follow",
        "--",
        "python3",
        "crunch.py",
    )
    first, placed, ended = omega.text("job", "run", *words).splitlines()
    assert first.split("  ")[2:] == ["crunch", "submitted · following (Ctrl-C detaches)"]
    assert placed.endswith("5 tasks placed by batch/0 in 1 transaction (0 conflicts)")
    assert ended.endswith("5 finished")


def test_follow_in_json_answers_at_the_end(omega: Omega, at_work: Callable[..., None]) -> None:
    at_work()
    found = omega.json("job", "run", "--name", "a", "--count", "2", "--follow")
    job = found["jobs"][0]
    assert set(found) == {"cell", "jobs", "warnings"}
    assert job.pop("id")
    assert job.pop("modify_index")
    assert job == {
        "name": "a",
        "status": "submitted",
        "tasks": 2,
        "state": "finished",
        "counts": ENDED | {"finished": 2},
    }


def test_follow_many_ends_with_a_table_and_their_fate(omega: Omega, at_work: Callable[..., None]) -> None:
    at_work()
    jobs = "\n".join(f"- {{name: j{i}, tasks: [{{count: 2, resources: {{cpu: 100m}}}}]}}" for i in range(3))
    lines = omega.run("job", "submit", "--follow", "-", given=jobs).stdout.splitlines()
    assert lines[0] == "3 jobs submitted, 6 tasks · following (Ctrl-C detaches)"
    assert lines[1].split() == ["id", "name", "state", "reason", "total", "finished", "failed", "stopped"]
    assert [line.split()[1:4] for line in lines[2:]] == [[f"j{i}", "finished", "2"] for i in range(3)]
    many = "\n".join(f"- {{name: k{i}, tasks: [{{resources: {{cpu: 10m}}}}]}}" for i in range(70))
    lines = omega.run("job", "submit", "--follow", "-", given=many).stdout.splitlines()
    assert lines[1:] == ["70 jobs ended: 70 finished"]


def test_follow_says_why_a_job_waits(omega: Omega, cell: RedisCell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omega.cli.job.follow.EXPLAIN_MS", 50)
    join(cell, 1)
    pending = ProgressText.pending

    def last(*arguments: Any) -> list[str]:
        cell.jobs.stop(next(iter(cell.jobs.names().values())), 1, "ada")
        return pending(*arguments)

    monkeypatch.setattr(ProgressText, "pending", last)
    lines = omega.run("job", "run", "--name", "a", "--follow", code=1).stdout.splitlines()
    assert lines[1].endswith("1 task pending: no scheduler of its kind is live; start one with omega scheduler run")
    assert lines[2].endswith("  1 stopped")


def test_follow_tells_of_tasks_that_come_back(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    own = RedisCell.connect(cell.url, cell.name)

    def fail_machine() -> None:
        eventually(lambda: bool(own.machines.runs([0])))
        time.sleep(0.3)
        own.machines.set_state(0, MachineState.DOWN, 1, "ada")
        time.sleep(0.6)
        own.jobs.stop(next(iter(own.jobs.names().values())), 1, "ada")

    failing = threading.Thread(target=fail_machine)
    with scheduler(cell), executor(cell):
        failing.start()
        text = omega.text("job", "run", "--name", "a", "--count", "2", "--duration", "1h", "--follow", code=1)
        failing.join()
    own.close()
    told = [line.strip().split("  ", 1)[1].strip() for line in text.splitlines()[1:]]
    assert told == [
        "2 tasks placed by batch/0 in 1 transaction (0 conflicts)",
        "2 tasks evicted, pending again",
        "2 stopped",
    ]


@pytest.fixture
def brief_store() -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A server of the test's own, which may be killed."""
    program = find_server()
    if program is None:
        absent("no server program")
    directory = socket_directory()
    path, log = directory / "store.sock", directory / "log"
    command = [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(directory)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    wait_for(server, path, log)
    yield f"unix://{path}", server
    server.kill()
    server.wait()
    rmtree(directory)


def test_a_store_that_vanishes_while_somebody_waits(
    brief_store: tuple[str, "subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "RETRY_SECONDS", 0.3)
    url, server = brief_store
    cell = RedisCell.create(connect(url), "brief", url=url)
    submit(cell, "endless")
    cell.close()
    threading.Timer(0.3, server.kill).start()
    said = Omega(url, "brief").error("job", "wait", "endless")
    assert said == f"no answer from the store at {url}: Connection refused; start the server or check --store"


def test_a_store_that_comes_back_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    away = [Unreachable("away"), Unreachable("away")]

    def call() -> str:
        if away:
            raise away.pop()
        return "here"

    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.01)
    assert watch.patiently(call) == "here"
    assert not away

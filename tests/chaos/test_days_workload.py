"""A cell that commands and files filled in a day: backed up while it works, restored elsewhere, the same in every face.

Four schedulers, two agents that run processes, two executors that simulate machines, one of which is killed.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.live.processes.supervisor import ProcessSupervisor
from omega.live.simulated.executor import SimulatedExecutor
from omega.queries.machine_status import MOST_VERSIONS
from tests.cli.conftest import Omega
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    all_facts,
    check,
    embedded_store,
    made_cell,
    started_processes,
    unfinished,
    until,
)

pytestmark = [pytest.mark.server, pytest.mark.chaos]
SCHEDULERS = ("batch/0", "batch/1", "service/0", "mapreduce/0")
SIMULATED, OTHER = f"simulated/{DEFAULT_EXECUTOR}", "simulated/other"
AGENTS = ("agent/h1", "agent/h2")
MACHINES, OTHERS, MOST_MINUTES = 200, 20, 10.0
TASKS = int(os.environ.get("OMEGA_DAY_TASKS", "20000"))
LEAST = TASKS // 400
"""Facts of each kind that commands, tasks and losses make: 50."""
KINDS = (
    "submit", "attempt", "place", "finished", "failed", "retried", "lost", "evicted", "stopped", "left", "stop", "done",
    "hold", "release", "resize", "update", "updated", "machine", "join", "pool", "limit", "speculate", "awaited",
    "drop", "fail", "requeue",
)  # fmt: skip
NOW = frozenset({"store", "recent", "age_seconds", "losses", "delay_ms", "deadline_ms", "elapsed_ms"})
"""Fields that depend on the time of the question and the address of the store."""


def job_file(rng: Random, number: int, folder: Path) -> list[dict[str, Any]]:
    """Jobs of a file: simulated and real, gangs, arrays, copies, optional ones, jobs that wait for others."""
    pool, name = rng.choice(("one", "two", "b")), f"day-{number}"
    small = {"cpu": rng.choice(("100m", "250m")), "memory": rng.choice(("64Mi", "100MB"))}

    def tasks(many: int, seconds: float, **more: Any) -> list[dict[str, Any]]:
        return [{"count": many, "duration": f"{seconds}s", "resources": small, **more}]

    def commands(many: int, text: str, **more: Any) -> list[dict[str, Any]]:
        return [{"count": many, "command": ["sh", "-c", text], "resources": {"cpu": "1m"}, **more}]

    slow = {"speculation": {"after": "500ms", "copies": 4}}
    again = {"attempts": 0, "elsewhere": True, "delay": "100ms"}
    return [
        {"name": f"{name}-many", "pool": pool, "tasks": tasks(rng.randint(60, 160), rng.choice((0.2, 0.5, 1)))},
        {"name": f"{name}-gang", "pool": pool, "gang": True, "tasks": tasks(8, 0.5)},
        {"name": f"{name}-next", "pool": pool, "after": f"{name}-gang", "tasks": tasks(2, 0.1)},
        {"name": f"{name}-slow", "pool": pool, **slow, "tasks": tasks(4, 2, repeatable=True)},
        {"name": f"{name}-high", "precedence": 100, "tasks": tasks(3, 0.5)},
        {"name": f"{name}-fails", "pool": pool, "tasks": commands(1, f"echo {number}; exit {number % 7 + 1}")},
        {
            "name": f"{name}-again",
            "tasks": commands(1, f"mkdir {folder}/again-{number} && exit 1; true", restart=again),
        },
        {"name": f"{name}-away", "tasks": tasks(20, 2, constraints=["zone == 'away'"], spread=["machine"])},
        {"name": f"{name}-once", "requeue": "never", "tasks": tasks(2, 3, constraints=["zone == 'away'"])},
        {"name": f"{name}-web", "kind": "service", "tasks": tasks(2, 3_600), "environment": {"N": "1"}},
    ]


class Day:
    """What people do with the cell; each turn some of everything."""

    def __init__(self, omega: Omega, folder: Path) -> None:
        self.omega, self.folder, self.rng, self.turns = omega, folder, Random("day"), count()

    def turn(self) -> None:
        number, rng, omega = next(self.turns), self.rng, self.omega
        jobs = job_file(rng, number, self.folder)
        file = self.folder / f"day-{number}.yaml"
        file.write_text(json.dumps(jobs))
        omega.run("job", "submit", str(file))
        name = f"day-{number}"
        web = [job for job in jobs if job.get("kind") == "service"]
        omega.run("job", "hold", f"{name}-web")
        omega.run("job", "release", f"{name}-web")
        omega.run("job", "resize", f"{name}-web", "3")
        for job in web:
            changed = job | {"environment": {"N": "2"}, "update": {"health": {"healthy_after": "0s"}}}
            changed["tasks"] = [job["tasks"][0] | {"count": 3}]
            file.write_text(json.dumps(changed))
            omega.run("job", "update", str(file))
        if number >= 3:
            for kind in ("web", "slow"):
                omega.run("job", "stop", f"day-{number - 3}-{kind}")
        machine = f"m{rng.randrange(MACHINES)}"
        omega.run("machine", "drain", machine, "--deadline", "0s")
        busy = [each["name"] for each in omega.json("machine", "list")["machines"] if each["tasks"]]
        omega.run("machine", "down", next((each for each in busy if each[0] == "m"), machine))
        omega.run("machine", "up", *(f"m{each}" for each in range(0, MACHINES, 7)))
        omega.run("machine", "up", machine)
        omega.run("pool", "set", "b", "--weight", str(1 + number % 3))
        omega.run("cell", "limits", "batch", "--cpu", str(1_500 + number % 2))


def faces(omega: Omega) -> Iterator[tuple[str, Any]]:
    """Every document that a reader of the cell gets, by its command."""
    for words in (
        ("cell", "status"), ("machine", "list"), ("pool", "list"), ("job", "list"),
        ("usage",), ("usage", "--by", "pool"), ("events", "--limit", "100000"),
    ):  # fmt: skip
        yield " ".join(words), omega.json(*words)


def differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The places at which two documents differ, without what depends on the time of the question."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted((one.keys() | other.keys()) - NOW):
            yield from differing(one.get(name), other.get(name), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (each, there) in enumerate(zip(one, other, strict=True)):
            yield from differing(each, there, f"{path}[{number}]")
    elif one != other:
        yield f"{path}: {one!r} and {other!r}"


@contextmanager
def repeated(act: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Do something again and again meanwhile; yields the error that ended it."""
    over, errors = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            while not over.is_set():
                act()
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield errors
    finally:
        over.set()
        thread.join(60)


def lose_machines(cell: RedisCell, group: ProcessSupervisor, errors: list[BaseException]) -> None:
    """Kill the executor of twenty machines with tasks on them, and start it again once they are lost."""
    index = cell.machines.index_of("other-0")
    assert index is not None
    there = range(index, index + OTHERS)
    until(lambda: errors or len({run.machine for run in cell.machines.runs(there)}) >= OTHERS // 2, "they have tasks")
    if errors:
        raise errors[0]
    lost = sum(fact.event[0] == "lost" for fact in all_facts(cell))
    group.members[OTHER].send_signal(signal.SIGKILL)
    until(lambda: sum(fact.event[0] == "lost" for fact in all_facts(cell)) > lost, "they are lost")
    group.members[OTHER].wait()
    group.start(OTHER)


def test_a_cell_of_a_day_is_the_same_elsewhere(tmp_path: Path) -> None:
    with (
        embedded_store() as store,
        embedded_store() as second,
        made_cell(store.url, "day", MACHINES, keep_jobs=100_000) as cell,
    ):
        capacity = cell.dimensions.parse_capacity({"cpu": 8, "memory": "32Gi"})
        machines = [MachineSpec(f"other-{number}", capacity, {"zone": "away"}) for number in range(OTHERS)]
        SimulatedExecutor(cell, "other", time.time).join(machines)
        omega, files = Omega(store.url, "day"), [str(tmp_path / name) for name in ("at-work", "at-rest")]
        (tmp_path / "pools.yaml").write_text(
            "pools: [{name: a}, {name: one, parent: a}, {name: two, parent: a}, {name: b}]"
        )
        omega.run("pool", "import", str(tmp_path / "pools.yaml"))
        day = Day(omega, tmp_path)
        members = (*SCHEDULERS, SIMULATED, OTHER, *AGENTS)
        with started_processes(cell, store.url, tmp_path / "logs", *members, lease_ms=3_000) as group:
            with repeated(day.turn) as errors:
                began = time.monotonic()
                while not enough(cell) and time.monotonic() - began < MOST_MINUTES * 60 and not errors:
                    lose_machines(cell, group, errors)
                if errors:
                    raise errors[0]
                saved = backed_up(store.url, files[0])
            until(lambda: unfinished(cell) < 1_000, "most has ended", 120)
        kinds = Counter(fact.event[0] for fact in all_facts(cell))
        sys.stdout.write(f"{tasks_of(cell):,} tasks; {dict(kinds.most_common())}\n")
        assert tasks_of(cell) >= TASKS
        assert {kind: kinds[kind] for kind in KINDS if kinds[kind] < LEAST} == {}
        check(cell)
        there = Omega(second.url)
        (restored,) = there.json("store", "restore", files[0], "--as", "at-work")["cells"]
        assert restored["ok"], restored["violations"]
        assert restored["version"] >= saved["version"]
        omega.run("store", "backup", files[1])
        (restored,) = there.json("store", "restore", files[1], "--as", "day")["cells"]
        assert restored["ok"], restored["violations"]
        compare(omega, Omega(second.url, "day"))
        with connect(second.url) as client:
            elsewhere = RedisCell.open(client, "day", url=second.url)
            assert [*elsewhere.jobs.all()] == [*cell.jobs.all()], (
                "records, with the losses, which a document groups by time"
            )
            goes_on(elsewhere, Omega(second.url, "day"), second.url, tmp_path)
            elsewhere.close()


def backed_up(url: str, file: str) -> dict[str, Any]:
    """What a backup says of the cell, in a process of its own: commands of this one share their output."""
    omega = str(Path(sys.executable).parent / "omega")
    words = ["--store", url, "--cell", "day", "--json", "store", "backup", file]
    done = subprocess.run([omega, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (saved,) = json.loads(done.stdout)["cells"]
    return dict(saved)


def tasks_of(cell: RedisCell) -> int:
    return sum(group.total for job in cell.jobs.all() for group in job.groups)


def enough(cell: RedisCell) -> bool:
    kinds = Counter(fact.event[0] for fact in all_facts(cell))
    return tasks_of(cell) >= TASKS and all(kinds[kind] >= LEAST for kind in KINDS)


def compare(first: Omega, second: Omega) -> None:
    """Each document of both cells, of every job and of some machines in full."""
    for (words, one), (_, other) in zip(faces(first), faces(second), strict=True):
        if words.startswith("events"):
            other["events"] = [event for event in other["events"] if event["kind"] != "restore"]
        if words == "cell status" or words.startswith("events"):
            assert other.pop("version") == one.pop("version") + 1, "the restore is one more"
        assert [*differing(one, other)][:5] == [], words
    jobs = [job["id"] for job in first.json("job", "list")["jobs"]]
    machines = [machine["name"] for machine in first.json("machine", "list")["machines"]]
    asked: list[tuple[str, ...]] = [("job", kind, job) for job in jobs for kind in ("status", "tasks", "history")]
    for each in asked:
        assert [*differing(first.json(*each), second.json(*each))][:5] == [], each
    start = second.json("cell", "status")["version"] - MOST_VERSIONS
    for name in machines:
        one, other = (omega.json("machine", "status", name, "--verbose") for omega in (first, second))
        # The last events are those of some versions, of which the restore is one.
        one["events"] = [event for event in one["events"] if event["version"] > start]
        assert [*differing(one, other)][:5] == [], name


def goes_on(cell: RedisCell, omega: Omega, url: str, folder: Path) -> None:
    """Schedulers and machines work on the restored cell; the next thousand placements are legal."""
    since = cell.counters()["version"]
    with started_processes(cell, url, folder / "elsewhere", *SCHEDULERS, SIMULATED, lease_ms=3_000):
        omega.run("job", "run", "--name", "next", "--count", "1000", "--cpu", "10m", "--duration", "1s")
        until(lambda: omega.json("job", "status", "next")["state"] == "finished", "a thousand tasks", 120)
    assert sum(fact.event[0] == "place" for fact in all_facts(cell, since)) > 0
    check(cell)

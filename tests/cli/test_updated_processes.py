"""What an update of each field does to processes: replaced ones have the new value, others run on; and the way back."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from omega.cellstate.override import override
from omega.cellstate.redis import RedisCell
from omega.live.agent.task_start import MARK
from omega.live.runners.runner import Runner, RunnerCommand, RunnerTask
from omega.updating import GROUP_FIELDS, JOB_FIELDS, Effect
from omega.versions import differences, earlier, present
from tests.cli.conftest import Omega, eventually, scheduler
from tests.cli.test_agent import agent
from tests.cli.test_job_update import looked_after

pytestmark = pytest.mark.server


class Marked(Runner):
    """A runner that leaves in the environment of a process who started it, and of which image."""

    def __init__(self, name: str) -> None:
        self.name = name

    @override
    def available(self) -> str:
        return "1"

    @override
    def start(self, task: RunnerTask) -> RunnerCommand:
        marks = {"RUN_BY": self.name, "IMAGE": task.image}
        return RunnerCommand(task.command, environment={**task.inherited, **task.environment, **marks})


RUNNERS = {name: Marked(name) for name in ("first", "second")}


def process(pid: int, name: str) -> bytes:
    return (Path("/proc") / str(pid) / name).read_bytes()


def variables(pid: int) -> dict[str, str]:
    return dict(each.split("=", 1) for each in process(pid, "environ").decode().split("\0") if each)


def ordered(field: str) -> Callable[[int], Any]:
    """Return a function that reads a field of the order of a process, by which its supervisor runs it."""
    return lambda pid: json.loads((Path(variables(pid)[MARK]) / "order.json").read_text())[field]


class Case(NamedTuple):
    """A field of a job (a group's field begins with ``tasks.``), its two values, and what a process shows of it.

    None: the field is left out; without `seen` a process shows nothing of it.
    """

    before: Any
    after: Any
    seen: Callable[[int], Any] | None = None
    values: tuple[Any, Any] = (None, None)


def cases(to: Path) -> dict[str, Case]:
    (to / "one").mkdir()
    (to / "two").mkdir()
    paths, checks = ordered("files"), ordered("checks")
    script = 'echo $$ >> "{}/pids.$OMEGA_JOB_NAME"; exec sleep {}'
    return {
        "environment": Case({"LEVEL": "1"}, {"LEVEL": "2"}, lambda pid: variables(pid)["LEVEL"], ("1", "2")),
        "directory": Case(
            str(to / "one"), str(to / "two"), lambda pid: Path(f"/proc/{pid}/cwd").readlink().name, ("one", "two")
        ),
        "simulate": Case(None, True),
        "requeue": Case(None, "never"),
        "update.health": Case({"healthy_after": "0s"}, {"healthy_after": "1ms"}),
        "update.max_down": Case(1, 2),
        "update.progress_deadline": Case("9m", "5m"),
        "weight": Case(None, 2),
        "on_abandon": Case(None, "keep"),
        "annotations": Case(None, {"a": "b"}),
        "speculation": Case(None, True),
        "tasks.count": Case(1, 2),
        "tasks.repeatable": Case(None, True),
        "tasks.resources": Case({"cpu": "1m"}, {"cpu": "2m"}, ordered("cpu_millicores"), (1, 2)),
        "tasks.command": Case(
            ["sh", "-c", script.format(to, 1001)], ["sh", "-c", script.format(to, 1002)],
            lambda pid: process(pid, "cmdline").split(b"\0")[1], (b"1001", b"1002"),
        ),
        "tasks.runner": Case("first", "second", lambda pid: variables(pid)["RUN_BY"], ("first", "second")),
        "tasks.image": Case("one:1", "two:2", lambda pid: variables(pid)["IMAGE"], ("one:1", "two:2")),
        "tasks.duration": Case("1h", "2h"),
        "tasks.constraints": Case(None, [{"prefer": "has ssd", "weight": 30}]),
        "tasks.spread": Case(None, [{"domain": "machine", "most": 4}]),
        "tasks.different_machines": Case(None, True),
        "tasks.near": Case(None, "nobody"),
        "tasks.apart_from": Case(None, "nobody"),
        "tasks.locality": Case(None, {"machines": ["h1"], "wait": ["1s", "1s"]}),
        "tasks.restart": Case(
            {"attempts": 4}, {"attempts": 5}, lambda pid: ordered("restart")(pid)["attempts"], (4, 5)
        ),
        "tasks.health": Case(
            None, {"command": ["true"]}, lambda pid: checks(pid)["alive"]["command"], ([], ["true"])
        ),
        "tasks.time_limit": Case("1h", "2h", ordered("time_limit_ms"), (3_600_000, 7_200_000)),
        "tasks.grace": Case("1s", "2s", ordered("grace_ms"), (1_000, 2_000)),
        "tasks.keep_output": Case("8Ki", "16Ki", ordered("log_bytes"), (4_096, 8_192)),
        "tasks.output": Case(
            "one.out", "two.out", lambda pid: paths(pid)["paths"], ({"stdout": "one.out"}, {"stdout": "two.out"})
        ),
        "tasks.error": Case(
            "one.err", "two.err", lambda pid: paths(pid)["paths"], ({"stderr": "one.err"}, {"stderr": "two.err"})
        ),
    }  # fmt: skip


def effects() -> dict[str, Effect]:
    """Return the effect of each field that an update may change."""
    every = dict(JOB_FIELDS) | {f"tasks.{name}": effect for name, effect in GROUP_FIELDS.items()}
    return {name: effect for name, effect in every.items() if effect in (Effect.REPLACES, Effect.IN_PLACE)}


def named(field: str) -> str:
    return field.replace(".", "-").replace("_", "-")


def document(to: Path, field: str, value: Any) -> str:
    """Return the file of a service of one task that differs from others by one field."""
    task: dict[str, Any] = {
        "name": "a", "resources": {"cpu": "1m", "memory": "1Mi"}, "grace": "1s",
        "command": ["sh", "-c", f'echo $$ >> "{to}/pids.$OMEGA_JOB_NAME"; exec sleep 1000'],
    }  # fmt: skip
    job: dict[str, Any] = {"name": named(field), "kind": "service", "directory": str(to)}
    job["update"] = {"health": {"healthy_after": "0s"}}
    if field == "tasks.image":
        task["runner"] = "first"
    if field == "speculation":  # a service has no copies
        task["repeatable"] = True
        job = {"name": job["name"], "directory": job["directory"]}
    *where, last = field.split(".")
    place = task if where == ["tasks"] else job["update"] if where else job
    if value is not None:
        place[last] = place.get(last, {}) | value if field == "tasks.resources" else value
    return json.dumps(job | {"tasks": [task]})


@pytest.fixture
def at_home(cell: RedisCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with scheduler(cell, "service/0"), scheduler(cell, "batch/0"), agent(cell, tmp_path / "state", RUNNERS):
        eventually(lambda: cell.machines.index_of("h1") is not None)
        with looked_after(cell), looked_after(cell, "batch"):
            yield


@pytest.mark.usefixtures("at_home")
@pytest.mark.chaos
def test_processes_have_the_new_value_or_run_on(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    fields = cases(tmp_path)
    assert fields.keys() == effects().keys()

    def pids(field: str) -> list[int]:
        file = tmp_path / f"pids.{named(field)}"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def settled() -> bool:
        return not cell.jobs.updates() and all(job.placed and not job.unplaced for job in cell.jobs.all())

    def shown(field: str) -> Any:
        seen = fields[field].seen
        return None if seen is None else seen(pids(field)[-1])

    def ran(most: int) -> bool:
        """Whether each replaced service has begun so many processes."""
        return settled() and all(len(pids(field)) >= most for field in replaced)

    replaced = [field for field, effect in effects().items() if effect is Effect.REPLACES]
    for field, case in fields.items():
        omega.run("job", "submit", "-", given=document(tmp_path, field, case.before))
    eventually(lambda: ran(1) and all(map(pids, fields)))
    first = {field: pids(field)[0] for field in fields}
    assert {field: shown(field) for field in fields} == {field: case.values[0] for field, case in fields.items()}
    for field, case in fields.items():
        omega.run("job", "update", "-", given=document(tmp_path, field, case.after))
    eventually(lambda: ran(2))
    assert {field: shown(field) for field in replaced} == {field: fields[field].values[1] for field in replaced}
    kept = {field: pids(field)[0] for field in fields if field not in replaced}
    assert {field for field, pid in kept.items() if not process(pid, "cmdline").startswith(b"sleep")} == set()
    for field in fields:
        job = cell.jobs.get(cell.jobs.id_of(named(field)) or "")
        assert job is not None
        assert differences(earlier(job)[0], present(job), ("cpu", "memory")), f"{field} has another value"
        omega.run("job", "revert", named(field))
    eventually(lambda: ran(3))
    assert {field: shown(field) for field in replaced} == {field: fields[field].values[0] for field in replaced}
    for field in fields:
        job = cell.jobs.get(cell.jobs.id_of(named(field)) or "")
        assert job is not None
        assert differences(earlier(job)[0], present(job), ("cpu", "memory")) == [], f"{field} has its value again"
    assert {field: pids(field)[0] for field in kept} == {field: first[field] for field in kept}
    assert {field for field, pid in kept.items() if not process(pid, "cmdline").startswith(b"sleep")} == set()

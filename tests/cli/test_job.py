"""`omega job submit`, `run`, `list`, `status` and `stop`: JSON field by field, and what people read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import Gang, JobSpec, JobState, Limits, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.jobfile.options import stem
from tests.cli.conftest import Omega, eventually, executor, join, scheduler

CRAWL = """
name: crawl
id: crawl-1
precedence: 100
simulate: true
tasks:
  - {name: fetch, count: 4, resources: {cpu: 500m, memory: 256Mi}, duration: 30s, command: [sleep, "30"]}
  - {name: merge, resources: {cpu: 1}}
"""
NOTHING = {"total": 0, "pending": 0, "placed": 0, "finished": 0, "failed": 0, "stopped": 0}


@pytest.fixture
def crawl(tmp_path: Path) -> str:
    """A job file with one job of two groups."""
    path = tmp_path / "crawl.yaml"
    path.write_text(CRAWL)
    return str(path)


def test_submit_says_what_became_of_each_job(omega: Omega, cell: RedisCell, crawl: str) -> None:
    cell.schedulers.register("batch/0", "n" * 16, 60_000, 1)
    join(cell, 1)
    Path(crawl).write_text(CRAWL.replace("simulate: true\n", ""))
    submitted = {"id": "crawl-1", "name": "crawl", "status": "submitted", "tasks": 5, "modify_index": 4}
    played = (
        "job crawl: it runs commands and all machines are simulated, so it stays pending; start an agent "
        "with omega agent, or simulate it (simulate: true, --simulate)"
    )
    assert omega.json("job", "submit", crawl) == {"cell": omega.cell, "jobs": [submitted], "warnings": [played]}


def test_the_same_file_again_changes_nothing(omega: Omega, cell: RedisCell, crawl: str) -> None:
    join(cell, 1)
    assert omega.text("job", "submit", crawl) == "job  crawl-1  crawl  submitted · see omega job status crawl-1\n"
    version = cell.counters()["version"]
    assert omega.json("job", "submit", crawl)["jobs"][0]["status"] == "unchanged"
    assert omega.text("job", "submit", crawl) == "job  crawl-1  crawl  unchanged · see omega job status crawl-1\n"
    assert cell.counters()["version"] == version


def test_submit_takes_lists_several_files_and_stdin(omega: Omega, tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text('[{"name": "a", "tasks": [{}]}, {"name": "b", "tasks": [{"count": 2}]}]')
    found = omega.json("job", "submit", str(tmp_path / "two.json"), "-", given="name: c\ntasks: [{count: 3}]\n")
    assert [(job["name"], job["tasks"]) for job in found["jobs"]] == [("a", 1), ("b", 2), ("c", 3)]
    assert all(re.fullmatch("[0-9a-f]{12}", job["id"]) for job in found["jobs"])
    (tmp_path / "more.yaml").write_text("- {name: d, tasks: [{}]}\n- {name: e, tasks: [{}]}\n")
    text = omega.text("job", "submit", str(tmp_path / "more.yaml"))
    assert text.startswith("2 jobs submitted, 2 tasks · see omega job status ")


def test_more_jobs_than_one_call_takes(omega: Omega, cell: RedisCell) -> None:
    jobs = "\n".join(f"- {{name: j{i}, tasks: [{{}}]}}" for i in range(1201))
    assert len(omega.json("job", "submit", "-", given=jobs)["jobs"]) == 1201
    assert len(cell.jobs.all()) == 1201
    assert omega.run("job", "list").stderr == "… 1,151 older jobs (--before 1152, --limit)\n"


def test_run_submits_one_job(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    words = ("--name", "n", "--kind", "service", "--count", "3", "--cpu", "500m", "--memory", "1Gi")
    more = ("--duration", "1m30s", "--precedence", "7", "--strict-gang", "--", "python3", "-c", "pass")
    found = omega.json("job", "run", *words, *more)["jobs"][0]
    job = cell.jobs.get(found["id"])
    assert job is not None
    assert (job.name, job.kind, job.precedence, job.gang, job.gang_min) == ("n", "service", 7, Gang.STRICT, 0)
    assert (job.groups[0].need, job.groups[0].total, job.groups[0].duration_ms) == ((500, 1024), 3, 90_000)
    here = {"user": "ada", "submitted_in": str(Path.cwd())}
    assert job.spec == here | {"groups": [{"command": ["python3", "-c", "pass"]}]}


def test_run_names_a_job_after_its_command(omega: Omega) -> None:
    names = [omega.json("job", "run", "--", "python3", "crunch.py")["jobs"][0]["name"] for _ in range(2)]
    assert names[0] == "crunch"
    assert re.fullmatch("crunch-[0-9a-f]{4}", names[1])


@pytest.mark.parametrize(
    ("command", "name"),
    [("sleep 30", "sleep"), ("/usr/bin/env", "env"), ("sh -c x/run.sh", "run"), ("./--", "job"), ("ä+b", "b")],
)
def test_names_after_commands(command: str, name: str) -> None:
    assert stem(command.split()) == name


def test_run_without_a_command_or_a_name(omega: Omega) -> None:
    said = omega.error("job", "run", "--count", "3", code=2)
    assert said == "omega job run: give a command after --, or a --name; see omega job run --help"


def test_a_job_larger_than_any_machine_is_taken_with_a_warning(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    result = omega.run("job", "run", "--name", "huge", "--memory", "64Gi")
    assert result.stderr == (
        "warning: job huge, group 0: wants 64Gi memory a task, the largest machine has 4Gi; it stays pending\n"
        "warning: no scheduler of kind batch is live; start one with omega scheduler run batch\n"
    )
    listed = omega.json("job", "list")["jobs"][0]
    assert (listed["state"], listed["reason"]) == ("pending", "TOO_LARGE")


def test_a_job_that_no_machine_holds_jointly_is_taken_with_a_warning(omega: Omega, cell: RedisCell) -> None:
    cell.schedulers.register("batch/0", "n" * 16, 60_000, 1)
    join(cell, 1, (8000, 100), "thin")
    join(cell, 1, (100, 8192), "fat")
    warnings = omega.json("job", "run", "--name", "both", "--cpu", "8", "--memory", "8Gi")["warnings"]
    assert warnings == ["job both, group 0: no single machine has cpu 8, memory 8Gi together; it stays pending"]


def test_a_job_on_a_cell_without_machines_is_taken_with_a_warning(omega: Omega, cell: RedisCell) -> None:
    cell.schedulers.register("batch/0", "n" * 16, 60_000, 1)
    warnings = omega.json("job", "run", "--name", "a")["warnings"]
    assert warnings == [f"job a: no machine of cell {omega.cell} is up; it stays pending until one is"]


def test_list(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    assert omega.json("job", "list") == {"cell": omega.cell, "total": 0, "next": None, "jobs": []}
    cell.jobs.submit([JobSpec("one", "first", "batch", (TaskGroup((1, 1), 3),), 5, Gang.YES)], 1_000, "ada")
    found = omega.json("job", "list")["jobs"][0]
    assert found.pop("age_seconds") > 0
    assert found == {
        "id": "one",
        "name": "first",
        "kind": "batch",
        "precedence": 5,
        "gang": "yes",
        "gang_min": None,
        "state": "pending",
        "reason": "NO_SCHEDULER",
        "delay": None,
        "user": None,
        "user_source": None,
        "modify_index": 3,
        "held": False,
        "gate": None,
        "after": [],
        "submitted_ms": 1000,
        "submitted_by": "ada",
        "restarts": 0,
        "started_ms": None,
        "ended_ms": None,
        "elapsed_ms": None,
        "counts": NOTHING | {"total": 3, "pending": 3},
    }
    header, row = omega.text("job", "list").splitlines()
    assert header.split() == ["id", "name", "kind", "prec", "state", "reason", "tasks", "placed", "age"]
    assert row.split()[:-1] == ["one", "first", "batch", "5", "pending", "NO_SCHEDULER", "3", "0"]


def test_list_chooses(omega: Omega, cell: RedisCell) -> None:
    group, names = (TaskGroup((1, 1), 1),), ("batch1", "batch2", "service1", "service2")
    cell.jobs.submit([JobSpec(name, name, name[:-1], group) for name in names], 1, "ada")
    cell.jobs.stop("batch1", 2, "ada")

    def chosen(*words: str) -> list[str]:
        return [job["id"] for job in omega.json("job", "list", *words)["jobs"]]

    assert chosen("--kind", "service") == ["service1", "service2"]
    assert chosen("--state", "stopped") == ["batch1"]
    assert chosen("--state", "pending", "--kind", "batch") == ["batch2"]
    assert chosen("--limit", "2") == ["service1", "service2"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (JobSpec("a", "a", "batch", (TaskGroup((100, 100), 1),)), "WAITING"),
        (JobSpec("a", "a", "service", (TaskGroup((100, 100), 1),)), "NO_SCHEDULER"),
        (JobSpec("a", "a", "batch", (TaskGroup((100, 8192), 1),)), "TOO_LARGE"),
        (JobSpec("a", "a", "batch", (TaskGroup((3000, 0), 3),), 0, Gang.YES), "RESOURCES"),
        (JobSpec("a", "a", "batch", (TaskGroup((3000, 0), 3),), 0), "RESOURCES"),
        (JobSpec("a", "a", "small", (TaskGroup((600, 0), 1),)), "NEVER"),
        (JobSpec("a", "a", "small", (TaskGroup((300, 0), 2),), 0, Gang.YES), "NEVER"),
        (JobSpec("a", "a", "small", (TaskGroup((300, 0), 2),), 0), "WAITING"),
        (JobSpec("a", "a", "small", (TaskGroup((300, 0), 2),), 99), "LIMIT"),
        (JobSpec("a", "a", "few", (TaskGroup((300, 0), 2),)), "NEVER"),
    ],
)
def test_reasons_of_pending_jobs(omega: Omega, cell: RedisCell, spec: JobSpec, reason: str) -> None:
    join(cell, 2)
    cell.pools.set_limits("small", Limits((500, None), None, (0, 9)), 1, "ada")
    cell.pools.set_limits("few", Limits((None, None), 0), 1, "ada")
    for kind in ("batch", "small", "few"):
        cell.schedulers.register(f"{kind}/0", "nonce", 60_000, 1)
    cell.jobs.submit([spec], 1, "ada")
    assert omega.json("job", "list")["jobs"][0]["reason"] == reason


def test_reasons_of_jobs_that_are_not_pending(omega: Omega, cell: RedisCell) -> None:
    group = (TaskGroup((1, 1), 1),)
    cell.jobs.submit([JobSpec("held", "held", "batch", group)], 1, "ada", held=True)
    cell.jobs.submit(
        [JobSpec("given-up", "given-up", "batch", group), JobSpec("halt", "halt", "batch", group)], 1, "ada"
    )
    cell.jobs.stop("given-up", 1, "batch/0", JobState.ABANDONED)
    cell.jobs.stop("halt", 1, "ada")
    found = {job["id"]: (job["state"], job["reason"]) for job in omega.json("job", "list")["jobs"]}
    assert found == {"held": ("held", "HELD"), "given-up": ("abandoned", "CONFLICTS"), "halt": ("stopped", None)}


OF_A_GROUP = {"optional": False, "copies": False, "superseded": False, "generation": 1}
CRAWL_GROUPS = [
    OF_A_GROUP
    | {
        "name": "fetch",
        "need": {"cpu": 500, "memory": 256},
        "duration_ms": 30_000,
        "counts": NOTHING | {"total": 4, "placed": 4},
        "indices": 4,
        "spec": {"command": ["sleep", "30"]},
    },
    OF_A_GROUP
    | {
        "name": "merge",
        "need": {"cpu": 1000, "memory": 0},
        "duration_ms": 0,
        "counts": NOTHING | {"total": 1, "placed": 1},
        "indices": 1,
        "spec": {},
    },
]


def test_status(omega: Omega, cell: RedisCell, crawl: str) -> None:
    join(cell, 1)
    omega.run("job", "submit", crawl)
    with scheduler(cell):
        eventually(lambda: omega.json("job", "status", "crawl")["state"] == "running")
    found = omega.json("job", "status", "crawl")
    runs, history = found.pop("runs"), found.pop("history")
    assert found.pop("age_seconds") >= 0
    assert found.pop("submitted_by") == "ada"
    assert found.pop("submitted_ms") > 0
    assert (found.pop("cell"), found.pop("groups")) == (omega.cell, CRAWL_GROUPS)
    assert found == {
        "id": "crawl-1",
        "name": "crawl",
        "kind": "batch",
        "precedence": 100,
        "gang": "no",
        "gang_min": None,
        "state": "running",
        "reason": None,
        "delay": None,
        "counts": NOTHING | {"total": 5, "placed": 5},
        "spec": {"user": "ada", "simulate": True},
        "version": 1,
        "user": "ada",
        "user_source": "stated",
        "modify_index": 3,
        "held": False,
        "gate": None,
        "after": [],
        "update": {"update": "finished", "reason": None, "to_replace": 0, "tasks": 5},
        "progress": None,
        "ready": None,
        "summary": {
            "pending": 0,
            "starting": 0,
            "running": 5,
            "stopping": 0,
            "failed": 0,
            "finished": 0,
            "stopped": 0,
            "lost": 0,
        },
        "restarts": 0,
        "started_ms": None,
        "ended_ms": None,
        "elapsed_ms": None,
        "evicted_for": {},
        "evicted": {},
        "failures": {},
        "losses": [],
        "fair_share": None,
        "measured": {"tasks": 0, "cpu_ms": 0, "run_ms": 0, "peak_bytes": 0},
    }
    assert {(run["group"], run["machine"], run["tasks"], run["leaving"]) for run in runs} == {
        (0, "m0", "0-3", False),
        (1, "m0", "0", False),
    }
    assert set(runs[0]) == {"placement", "machine", "index", "group", "tasks", "task_name", "indices", "leaving"}
    assert history.pop("first_placed_ms") > 0
    assert [event["kind"] for event in history.pop("events")] == ["submit", "place", "place"]
    assert history == {"attempts": 1, "conflicts": 0, "by": ["batch/0"], "complete": True, "unread": None,
                       "lost": 0, "placed_again": 0}  # fmt: skip
    text = omega.text("job", "status", "crawl-1")
    shown = ("crawl (crawl-1) · batch · precedence 100", "5 · 5 running", "cpu 500m, memory 256Mi")
    assert all(each in text for each in (*shown, "1 transaction by batch/0, 0 conflicts · first placed after"))


def test_a_job_is_found_by_id_prefix_or_name(omega: Omega, cell: RedisCell) -> None:
    group = (TaskGroup((1, 1), 1),)
    jobs = [JobSpec("4f1c09ab", "crawl", "batch", group), JobSpec("4f2d", "sort", "batch", group)]
    cell.jobs.submit(jobs, 1, "ada")
    for asked in ("4f1c09ab", "4f1", "crawl"):
        assert omega.json("job", "status", asked)["id"] == "4f1c09ab"
    said = omega.error("job", "status", "4f")
    assert said == f"job '4f': 2 jobs of cell {omega.cell} begin so (4f1c09ab, 4f2d); write more of the id"
    omega.run("job", "stop", "crawl")
    assert omega.json("job", "status", "crawl")["state"] == "stopped"
    cell.jobs.submit([JobSpec("77", "crawl", "batch", group)], 1, "ada")
    assert omega.json("job", "status", "crawl")["id"] == "77"


def test_stop_ends_what_runs_and_may_be_repeated(omega: Omega, cell: RedisCell) -> None:
    join(cell, 3)
    omega.run("job", "run", "--name", "long", "--count", "30", "--cpu", "300m", "--duration", "1h")
    with scheduler(cell):
        eventually(lambda: counts(omega)["placed"] == 30)
        omega.run("job", "run", "--name", "late", "--count", "30", "--cpu", "300m", "--duration", "1h")
        eventually(lambda: omega.json("job", "status", "late")["counts"]["placed"] == 9)
        stopped = omega.json("job", "stop", "long", "late")["jobs"]
        assert set(stopped[0]) == {"id", "name", "before", "state", "unplaced", "ended", "stopping", "modify_index"}
        assert [(job["before"], job["state"], job["unplaced"], job["ended"]) for job in stopped] == [
            ("running", "stopped", 0, 30),
            ("running", "stopped", 21, 9),
        ]
        assert counts(omega) == NOTHING | {"total": 30, "stopped": 30}
        again = omega.json("job", "stop", "long")["jobs"][0]
        assert (again["before"], again["state"], again["ended"]) == ("stopped", "stopped", 0)
        assert omega.text("job", "stop", "late").endswith("  late  stopped already, processes still run\n")
        assert omega.json("job", "status", "late")["summary"]["stopping"] == 9
    with executor(cell):
        eventually(lambda: not cell.machines.runs([0, 1, 2]))
    assert omega.json("cell", "verify")["ok"]


def counts(omega: Omega) -> dict[str, Any]:
    found = omega.json("job", "status", "long")["counts"]
    assert isinstance(found, dict)
    return found


def test_stop_of_a_job_that_has_ended(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("job", "run", "--name", "brief")
    with scheduler(cell), executor(cell):
        omega.run("job", "wait", "brief", "--timeout", "30")
    assert omega.text("job", "stop", "brief").endswith("  brief  finished already\n")


def test_list_in_pages(omega: Omega, cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec(f"j{i}", f"j{i}", "batch", (TaskGroup((1, 1), 1),)) for i in range(5)], 1, "ada")
    first = omega.json("job", "list", "--limit", "2")
    assert ([job["id"] for job in first["jobs"]], first["total"]) == (["j3", "j4"], 5)
    second = omega.json("job", "list", "--limit", "2", "--before", str(first["next"]))
    assert [job["id"] for job in second["jobs"]] == ["j1", "j2"]
    last = omega.json("job", "list", "--limit", "2", "--before", str(second["next"]))
    assert ([job["id"] for job in last["jobs"]], last["next"]) == (["j0"], None)


def test_a_job_that_runs_in_part_is_running(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("job", "run", "--name", "part", "--count", "5", "--cpu", "1", "--duration", "1h")
    with scheduler(cell):
        eventually(lambda: omega.json("job", "status", "part")["counts"]["placed"] == 4)
    (listed,) = omega.json("job", "list", "--state", "running")["jobs"]
    assert (listed["name"], listed["state"], listed["counts"]["pending"]) == ("part", "running", 1)
    assert omega.json("job", "list", "--state", "pending")["jobs"] == []
    assert omega.json("cell", "status")["jobs"]["running"] == 1


def test_one_warning_is_for_all_jobs_and_groups_with_the_same_fault(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1, (2_000, 2_048))
    big = [{"name": f"w{number}", "tasks": [{"resources": {"cpu": 4}}]} for number in range(400)]
    other = {"name": "x", "tasks": [{"name": name, "resources": {"cpu": 9}} for name in ("a", "b")]}
    given = json.dumps([*big, other])
    warned = omega.json("job", "submit", "-", "--hold", "--detach", given=given)["warnings"]
    assert warned[:2] == [
        "400 jobs (w0, w1, w2 and 397 more): wants 4 cpu a task, the largest machine has 2; it stays pending",
        "job x, 2 groups (a, b): wants 9 cpu a task, the largest machine has 2; it stays pending",
    ]
    assert len(warned) == 3, "and no scheduler is live"


def test_relations_that_cannot_act_warn(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    cell.jobs.submit(
        [
            JobSpec("db", "db", "batch", (TaskGroup((100, 100), 1),)),
            JobSpec("old", "old", "batch", (TaskGroup((1, 1), 1),)),
        ],
        1,
        "ada",
    )
    cell.jobs.stop("old", 2, "ada")
    given = json.dumps(
        [
            {"name": "a", "tasks": [{"apart_from": "a"}, {"near": {"job": "a"}}]},
            {
                "name": "b",
                "tasks": [{"apart_from": ["db", "a", "webb", "old"], "near": {"job": "bd", "required": True}}],
            },
            {"name": "c", "tasks": [{"near": ["db", "b"], "apart_from": {"job": "a", "domain": "machine"}}]},
        ]
    )
    assert omega.json("job", "submit", "-", "--hold", "--detach", given=given)["warnings"][:5] == [
        "job a, group 0: apart_from a: is the job itself, so it has no effect; use different_machines or spread",
        "job a, group 1: near a: is the job itself, so it has no effect; remove it",
        "job b, group 0: near bd: no live job has this name; it stays pending until one runs",
        "job b, group 0: apart_from webb: no live job has this name; it has no effect until one runs",
        "job b, group 0: apart_from old: no live job has this name; it has no effect until one runs",
    ]

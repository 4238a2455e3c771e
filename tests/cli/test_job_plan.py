"""`omega job plan`: what would become of jobs, decided by the schedulers' own policies; nothing is submitted."""

from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import Limits, MachineSpec
from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, eventually, scheduler

pytestmark = pytest.mark.server

WEB = """
name: web
id: web-1
kind: service
precedence: 100
tasks:
  - name: front
    count: 4
    resources: {cpu: 2, memory: 1Gi}
    constraints: ["platform == 'x86'"]
    spread: [{domain: rack, most: 2}]
"""


@pytest.fixture
def ready(cell: RedisCell) -> RedisCell:
    """Two racks of two machines of 4 cpu, one of each of another platform."""
    has = [{"rack": f"r{i // 2}", "platform": "x86" if i % 2 else "arm"} for i in range(4)]
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec(f"m{i}", (4_000, 16_384), each) for i, each in enumerate(has)], 1)
    return cell


def planned(omega: Omega, tmp_path: Path, text: str, code: int) -> Any:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    return omega.json("job", "plan", str(file), code=code)


def test_placements_with_scores_and_nothing_submitted(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    version = ready.counters()["version"]
    said = planned(omega, tmp_path, WEB, 0)
    (job,) = said["jobs"]
    assert (said["changes"], said["warnings"]) == (True, [])
    assert {name: job[name] for name in ("id", "name", "kind", "tasks", "status", "placed", "unplaced", "reason")} == {
        "id": "web-1",
        "name": "web",
        "kind": "service",
        "tasks": 4,
        "status": "new",
        "placed": 4,
        "unplaced": 0,
        "reason": None,
    }
    assert {each["machine"]: each["tasks"] for each in job["placements"]} == {"m1": 2, "m3": 2}
    for each in job["placements"]:
        assert set(each["scores"]) == {"fit", "balance"}
        assert each["score"] == pytest.approx(sum(each["scores"].values()), abs=1e-3)
    assert (job["evictions"], ready.counters()["version"], ready.jobs.all()) == ([], version, [])


def test_the_text_and_its_verbose_form(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(WEB)
    result = omega.run("job", "plan", str(file))
    first, header, *rows = result.stdout.splitlines()
    assert first == "web: 4 of 4 tasks would be placed on 2 machines"
    assert (header.split(), sorted(row.split() for row in rows)) == (["machine", "tasks"], [["m1", "2"], ["m3", "2"]])
    assert result.stderr == "nothing was submitted\n"
    header = omega.text("job", "plan", "-v", str(file)).splitlines()[1]
    assert header.split() == ["machine", "tasks", "score", "balance", "fit"]


def test_the_same_job_again_changes_nothing(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(WEB)
    omega.run("job", "submit", "--detach", str(file))
    said = omega.json("job", "plan", str(file))
    assert (said["changes"], said["jobs"][0]["status"], said["jobs"][0]["placed"]) == (False, "unchanged", 0)
    file.write_text(WEB.replace("count: 4", "count: 5"))
    assert "the id web-1 is that of another job" in omega.error("job", "plan", str(file), code=1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name: a\ntasks: [{cuont: 1}]", "unknown field; did you mean count?"),
        ("name: a\ntasks: [{constraints: ['rack = 1']}]", "position 6"),
        ("name: a\nkind: odd\ntasks: [{count: 1}]", "unknown scheduler 'odd'; known:"),
    ],
)
def test_errors_end_with_1(omega: Omega, ready: RedisCell, tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    assert error in omega.error("job", "plan", str(file), code=1)


def test_jobs_of_a_file_share_the_room_and_what_waits_has_its_reason(
    omega: Omega, ready: RedisCell, tmp_path: Path
) -> None:
    text = "".join(f"- {{name: j{i}, tasks: [{{count: 3, resources: {{cpu: 4}}}}]}}\n" for i in range(3))
    jobs = planned(omega, tmp_path, text, 3)["jobs"]
    assert [(job["placed"], job["unplaced"], job["reason"]) for job in jobs] == [
        (3, 0, None),
        (1, 2, "RESOURCES"),
        (0, 3, "RESOURCES"),
    ]
    machines = [each["machine"] for job in jobs for each in job["placements"]]
    assert sorted(machines) == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [("constraints: [\"rack == 'r9'\"]", "CONSTRAINT"), ("resources: {cpu: 5}", "TOO_LARGE")],
)
def test_what_fits_nowhere_is_no_change_and_is_warned_of(
    omega: Omega, ready: RedisCell, tmp_path: Path, fields: str, reason: str
) -> None:
    said = planned(omega, tmp_path, f"name: a\ntasks:\n  - {fields}\n", 3)
    assert (said["changes"], said["jobs"][0]["reason"], len(said["warnings"])) == (False, reason, 1)


def test_a_limit_of_the_kind_keeps_it_out(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    ready.pools.set_limits("service", Limits((None, None), None, (0, 9)), 1, "ada")
    said = planned(omega, tmp_path, WEB, 3)
    assert said["jobs"][0]["reason"] == "LIMIT"


FOUR = "- {name: NAME, tasks: [{count: 4, resources: {cpu: 1}}]POOL}\n"


def counts(jobs: list[Any]) -> list[tuple[int, int, str | None]]:
    return [(job["placed"], job["unplaced"], job["reason"]) for job in jobs]


def test_tasks_beyond_a_limit_of_the_kind_would_be_pending(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    omega.run("cell", "limits", "batch", "--cpu", "2")
    file = tmp_path / "job.yaml"
    file.write_text(FOUR.replace("NAME", "a").replace("POOL", ""))
    (job,) = omega.json("job", "plan", str(file), code=3)["jobs"]
    assert counts([job]) == [(2, 2, "LIMIT")]
    assert job["detail"] == "kind batch, cpu: 2 of at most 2 in use, a task needs 1; 1 short"
    assert sum(each["tasks"] for each in job["placements"]) == 2
    text = omega.run("job", "plan", str(file), code=3).stdout
    assert "a: 2 of 4 tasks would be placed on" in text
    assert ", 2 would be pending: LIMIT" in text


def test_jobs_of_a_file_share_limits_with_those_that_run(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    """The limits of a pool above theirs, of their pools and of their kind, whichever is reached first."""
    omega.run("pool", "set", "top", "--limit", "cpu=6")
    omega.run("pool", "set", "a", "--parent", "top", "--limit", "tasks=3")
    omega.run("pool", "set", "b", "--parent", "top")
    omega.run("pool", "set", "c")
    omega.run("cell", "limits", "batch", "--jobs", "4")
    omega.run("job", "run", "--name", "first", "--pool", "a", "--cpu", "1", "--duration", "1h")
    with scheduler(ready):
        eventually(lambda: omega.json("job", "status", "first")["state"] == "running")
    jobs = [("x", ", pool: a"), ("y", ", pool: b"), ("z", ", pool: c"), ("w", ", pool: c")]
    text = "".join(FOUR.replace("NAME", name).replace("POOL", pool) for name, pool in jobs)
    plans = planned(omega, tmp_path, text, 3)["jobs"]
    assert counts(plans) == [(2, 2, "LIMIT"), (3, 1, "LIMIT"), (4, 0, None), (0, 4, "LIMIT")]
    details = [
        "pool a, tasks: 3 of at most 3 in use",
        "pool top, cpu: 6 of at most 6 in use",
        "",
        "kind batch, jobs: 4 of",
    ]
    assert [plan["detail"][: len(detail)] for plan, detail in zip(plans, details, strict=True)] == details


def test_a_gang_that_a_limit_does_not_admit_as_a_whole_gets_nothing(
    omega: Omega, ready: RedisCell, tmp_path: Path
) -> None:
    omega.run("cell", "limits", "batch", "--cpu", "3")
    gang = FOUR.replace("NAME", "g").replace("POOL", ", gang: GANG")
    for form, expected in (("true", (0, 4, "NEVER")), ("{min: 3}", (3, 1, "LIMIT")), ("{min: 2}", (3, 1, "LIMIT"))):
        assert counts(planned(omega, tmp_path, gang.replace("GANG", form), 3)["jobs"]) == [expected], form


def test_groups_that_a_limit_admits_are_planned_beside_one_that_it_excludes(
    omega: Omega, ready: RedisCell, tmp_path: Path
) -> None:
    omega.run("cell", "limits", "batch", "--cpu", "3")
    text = "name: a\ntasks: [{name: large, resources: {cpu: 4}}, {name: small, count: 4, resources: {cpu: 1}}]\n"
    (job,) = planned(omega, tmp_path, text, 3)["jobs"]
    assert counts([job]) == [(3, 2, "NEVER")]


def test_whom_it_would_evict_and_that_why_counts_them_too(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    omega.run("job", "run", "--name", "low", "--count", "16", "--cpu", "1", "--duration", "1h", "--precedence", "3")
    with scheduler(ready):
        eventually(lambda: omega.json("job", "status", "low")["state"] == "running")
    (job,) = planned(omega, tmp_path, WEB, 0)["jobs"]
    assert job["placed"] == 4
    assert sum(each["tasks"] for each in job["evictions"]) == 8
    assert {(each["name"], each["precedence"]) for each in job["evictions"]} == {("low", 3)}
    assert {each["machine"] for each in job["evictions"]} == {"m1", "m3"}
    file = tmp_path / "job.yaml"
    omega.run("job", "submit", "--detach", str(file))
    remedy = omega.json("job", "why", "web")["fits_after"][0]
    assert remedy == {"evictions": 8, "precedence_below": 100, "allowed": True}
    assert "8 tasks of precedence < 100 evicted (its scheduler may)" in omega.text("job", "why", "web")
    omega.run("job", "run", "--name", "b", "--cpu", "1", "--precedence", "9")
    assert "1 task of precedence < 9 evicted (its scheduler may not)" in omega.text("job", "why", "b")


def test_a_mapreduce_job_is_planned_with_the_workers_it_asks_for(
    omega: Omega, ready: RedisCell, tmp_path: Path
) -> None:
    text = f"""
    name: words
    kind: mapreduce
    workers: 3
    resources: {{cpu: 1}}
    input: {{ranges: 0-99}}
    map: {{command: [cat]}}
    reduce: {{command: [cat]}}
    output: {tmp_path}/out
    """
    (job,) = planned(omega, tmp_path, text, 3)["jobs"]
    assert (job["placed"], job["reason"]) == (0, "SIMULATED")
    ready.executors.register_agent("real", "n", 600_000, 1)
    ready.machines.join("agent/real", [MachineSpec("real", (4_000, 16_384))], 1)
    (job,) = planned(omega, tmp_path, text, 0)["jobs"]
    assert (job["placed"], job["unplaced"]) == (3, 0)


LATE = """
name: late
tasks: [{count: 16, resources: {cpu: 1, memory: 1Gi}, duration: 1h}]
pool: b
"""


def test_evictions_for_a_pool_below_its_share(omega: Omega, ready: RedisCell, tmp_path: Path) -> None:
    omega.run("pool", "set", "a")
    omega.run("pool", "set", "b", "--weight", "3")
    omega.run("job", "run", "--name", "first", "--pool", "a", "--count", "16", "--cpu", "1", "--duration", "1h")
    with scheduler(ready):
        eventually(lambda: omega.json("job", "status", "first")["state"] == "running")
    (job,) = planned(omega, tmp_path, LATE, 3)["jobs"]
    assert (job["placed"], job["unplaced"], job["reason"]) == (12, 4, "RESOURCES")
    assert job["after_seconds"] == pytest.approx(30, abs=1)
    assert {each["name"] for each in job["evictions"]} == {"first"}
    assert sum(each["tasks"] for each in job["evictions"]) == 12, "three quarters of the machines are due to its pool"
    text = omega.run("job", "plan", str(tmp_path / "job.yaml"), code=3).stdout
    assert "after 30s below the fair share of its pool" in text
    assert len(ready.jobs.all()) == 1
    omega.run("pool", "set", "b", "--weight", "3", "--reclaim", "never")
    (job,) = planned(omega, tmp_path, LATE, 3)["jobs"]
    assert (job["placed"], job["evictions"], job["after_seconds"]) == (0, [], 0)

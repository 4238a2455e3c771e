"""`omega job why`: counts by demand, a stable reason, what would help; and the warnings of doubtful jobs."""

import re
from pathlib import Path
from typing import Any

import pytest

from omega.cellstate.model import Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import Membership
from tests.cli.conftest import Omega, eventually, join, scheduler

pytestmark = pytest.mark.server

BIG = JobSpec(
    "big",
    "big",
    "service",
    (
        TaskGroup(
            (2_000, 48_000),
            12,
            0,
            {"name": "web", "constraints": ["platform == 'x86'"], "spread": [{"domain": "rack", "most": 2}]},
        ),
    ),
    100,
)


def machines(cell: RedisCell) -> None:
    """Five racks of four machines, one of five of which is of another platform."""
    has = [{"rack": f"r{i // 4}", "platform": "x86" if i % 5 else "arm"} for i in range(20)]
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec(f"m{i}", (16_000, 65_536), each) for i, each in enumerate(has)], 1)


def test_a_pending_job_is_explained_in_counts(omega: Omega, cell: RedisCell) -> None:
    machines(cell)
    cell.schedulers.register("service/0", "nonce", 60_000, 1)
    cell.jobs.submit([BIG], 1, "ada")
    said = omega.json("job", "why", "big")
    assert {name: said[name] for name in ("id", "state", "reason", "unplaced", "total", "machines")} == {
        "id": "big",
        "state": "pending",
        "reason": "SPREAD",
        "unplaced": 12,
        "total": 12,
        "machines": 20,
    }
    (part,) = said["groups"]
    assert (part["name"], part["unplaced"], part["fits"], part["reason"]) == ("web", 12, 10, "SPREAD")
    assert [(step["reason"], step["excludes"], step["remaining"]) for step in part["steps"]] == [
        ("CONSTRAINT", 4, 16),
        ("RESOURCES", 0, 16),
        ("RESOURCES", 10, 6),
        ("SPREAD", 6, 0),
    ]
    first, *rest = omega.text("job", "why", "big").splitlines()
    assert first.startswith("big is pending: 12 of 12 tasks unplaced ")
    assert first.endswith("  reason: SPREAD")
    assert [" ".join(line.split()) for line in rest] == [
        "10 of them would fit now",
        "constraint platform == 'x86' excludes 4 of 20 machines",
        "cpu 2 excludes none",
        "memory 48000Mi insufficient on 10 machines",
        "spread rack ≤ 2 excludes the remaining 6",
        "would fit after: 2 more machines like m1 (cpu 16, memory 64Gi), in 1 more rack",
    ]
    assert cell.schedulers.pending() == {"service": ["big"]}, "nothing is changed"


@pytest.mark.parametrize(
    ("extra", "need", "count", "reason"),
    [
        ({}, (100, 100), 1, "WAITING"),
        ({"constraints": ["rack == 'r9'"]}, (100, 100), 1, "CONSTRAINT"),
        ({"spread": [{"domain": "rack", "most": 1}]}, (100, 100), 6, "SPREAD"),
        ({}, (20_000, 100), 1, "TOO_LARGE"),
        ({}, (16_000, 100), 21, "RESOURCES"),
    ],
)
def test_list_and_why_give_the_same_reason(
    omega: Omega, cell: RedisCell, extra: dict[str, Any], need: tuple[int, int], count: int, reason: str
) -> None:
    machines(cell)
    cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup(need, count, 0, extra),))], 1, "ada")
    assert omega.json("job", "list")["jobs"][0]["reason"] == reason
    assert omega.json("job", "why", "a")["reason"] == reason


def test_a_job_that_its_scheduler_delays_has_the_reason_locality(omega: Omega, cell: RedisCell) -> None:
    machines(cell)
    membership = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((100, 100), 1),)) for name in "ab"], 1, "ada")
    cell.schedulers.renew(membership, 60_000, {"delayed": {"a": 5_000}})
    assert [job["reason"] for job in omega.json("job", "list")["jobs"]] == ["LOCALITY", "WAITING"]
    assert omega.json("job", "why", "a")["reason"] == "LOCALITY"
    assert "waits for machines that its placement prefers" in omega.text("job", "why", "a")
    assert omega.json("job", "why", "b")["reason"] == "WAITING"


def test_a_delayed_job_shows_its_level_and_the_time_left(omega: Omega, cell: RedisCell) -> None:
    """Also where the cell has less room than it wants: its scheduler leaves room to others."""
    machines(cell)
    fields = {"locality": {"machines": ["m1", "m99"], "wait_ms": [60_000, 60_000]}}
    membership = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1_000, 100), 500, 0, fields),))], 1, "ada")
    cell.schedulers.renew(membership, 60_000, {"delayed": {"a": [cell.store_ms() + 9_500, "rack"]}})
    (listed,) = omega.json("job", "list")["jobs"]
    explained = omega.json("job", "why", "a")
    for found in (listed, explained):
        assert (found["reason"], found["delay"]["level"]) == ("LOCALITY", "rack")
        assert 5 < found["delay"]["left_seconds"] <= 9.5
    text = omega.text("job", "why", "a")
    assert "waits for a machine in one rack with its data, " in text
    assert "locality: m99 is not in the cell, and ignored" in text
    assert re.search(r"LOCALITY  rack [5-9]s ", omega.text("job", "list"))


def test_a_submission_warns_of_a_locality_without_effect(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    machines(cell)
    cell.machines.set_state(1, MachineState.DRAINED, 1, "ada")
    cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    file = tmp_path / "a.yaml"
    file.write_text("name: a\ntasks: [{locality: {machines: [m0, m1, m99], wait: [2s]}}]")
    said = omega.run("job", "submit", str(file)).stderr
    assert "locality: m99 is not in the cell, and ignored" in said
    assert "locality: m1 is not up, and ignored" in said
    file.write_text("name: b\ntasks: [{locality: {machines: [m1], domains: [], wait: [2s]}}]")
    said = omega.run("job", "submit", str(file)).stderr
    assert "no machine with the data is up; the tasks may run anywhere after 2 s" in said
    file.write_text("name: c\ntasks: [{locality: {machines: [m0], domains: [row]}}]")
    said = omega.run("job", "submit", str(file)).stderr
    assert "no machine with the data has the attribute row" in said


def test_what_the_kind_keeps_out(omega: Omega, cell: RedisCell) -> None:
    machines(cell)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((100, 100), 1),), 50)], 1, "ada")
    assert omega.json("job", "why", "a")["reason"] == "NO_SCHEDULER"
    cell.pools.set_limits("batch", Limits((None, None), None, (0, 9)), 1, "ada")
    cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    said = omega.json("job", "why", "a")
    assert (said["reason"], said["detail"]) == ("LIMIT", "precedence 50 is not within 0 to 9 of kind batch")
    assert said["detail"] in omega.text("job", "why", "a")


def test_a_job_that_waits_for_nothing(omega: Omega, cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 1),))], 1, "ada", held=True)
    assert omega.json("job", "why", "a")["reason"] == "HELD"
    omega.run("job", "stop", "a")
    said = omega.json("job", "why", "a")
    assert (said["state"], said["reason"], said["groups"]) == ("stopped", "DONE", [])
    assert omega.text("job", "why", "a").startswith("a is stopped: no unplaced tasks ")


def test_a_job_that_runs(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    with scheduler(cell):
        omega.run("job", "run", "--name", "a", "--duration", "1h", "--detach")
        eventually(lambda: omega.json("job", "why", "a")["reason"] == "PLACED")
    assert "all of its tasks have machines" in omega.text("job", "why", "a")


def test_held_and_waiting_for_others(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    omega.run("job", "run", "--name", "first", "--hold")
    omega.run("job", "run", "--name", "then", "--after", "first")
    assert [omega.json("job", "why", name)["reason"] for name in ("first", "then")] == ["HELD", "DEPENDENCY"]
    assert "omega job release first" in omega.text("job", "why", "first")
    assert omega.json("job", "why", "then")["detail"].startswith("waits for first (")
    assert [job["reason"] for job in omega.json("job", "list")["jobs"]] == ["HELD", "DEPENDENCY"]


# Warnings


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ("constraints: [\"plaform == 'x86'\"]", "no machine has the attribute plaform; did you mean platform?"),
        ("constraints: [\"rack == 'r9'\"]", "constraint rack == 'r9': matches no machine"),
        ("spread: [zone]", "spread zone: no machine has the attribute zone"),
        ("resources: {cpu: 17}", "wants 17 cpu a task, the largest machine has 16; it stays pending"),
    ],
)
def test_a_doubtful_job_is_accepted_with_a_warning(
    omega: Omega, cell: RedisCell, tmp_path: Path, fields: str, warning: str
) -> None:
    machines(cell)
    file = tmp_path / "job.yaml"
    file.write_text(f"name: a\ntasks:\n  - name: web\n    {fields}\n")
    result = omega.run("job", "submit", str(file))
    assert result.stderr.startswith("warning: job a, group web: ")
    assert warning in result.stderr
    assert cell.schedulers.pending() == {"batch": [cell.jobs.all()[0].id]}


def test_a_gang_larger_than_the_cell_is_warned_of_however_full_it_is(omega: Omega, cell: RedisCell) -> None:
    join(cell, 3)
    omega.run("job", "run", "--name", "full", "--cpu", "1", "--count", "12")
    with scheduler(cell):
        eventually(lambda: omega.json("job", "status", "full")["counts"]["placed"] == 12)
    cell.schedulers.register("batch/1", "n" * 16, 60_000, 1)
    (said,) = omega.json("job", "run", "--name", "a", "--gang", "--cpu", "2", "--count", "7")["warnings"]
    assert said == "job a: a gang of 7 tasks; an empty cell holds 6 of them at once; it stays pending"
    assert omega.json("job", "run", "--name", "b", "--gang", "--cpu", "2", "--count", "6")["warnings"] == []


def test_a_gang_with_a_minimum_starts_with_it(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    run = ("job", "run", "--cpu", "2", "--count", "7", "--gang-min")
    with scheduler(cell):
        (said,) = omega.json(*run, "5", "--name", "a")["warnings"]
        assert said == "job a: a gang of at least 5 tasks; an empty cell holds 4 of them at once; it stays pending"
        assert "  room for 4 of them; it needs 5 at once" in omega.text("job", "why", "a")
        assert omega.json("job", "why", "a")["groups"][0]["starts"] == 0
        assert omega.json(*run, "4", "--name", "b", "--strict-gang")["warnings"] == []
        eventually(lambda: omega.json("job", "status", "b")["counts"]["placed"] == 4)
    status = omega.json("job", "status", "b")
    assert (status["gang"], status["gang_min"]) == ("strict", 4)
    assert "strict gang of at least 4 tasks" in omega.text("job", "status", "b")
    assert "needs 4 at once" not in omega.text("job", "why", "b"), "one more task may start alone"
    omega.run("cell", "limits", "batch", "--cpu", "9")
    assert omega.json("job", "why", "a")["reason"] == "NEVER", "five tasks need 10"


def test_a_precedence_outside_the_limits_of_the_kind(omega: Omega, cell: RedisCell) -> None:
    cell.schedulers.register("batch/0", "n" * 16, 60_000, 1)
    join(cell, 1)
    cell.pools.set_limits("batch", Limits((None, None), None, (0, 9)), 1, "ada")
    (said,) = omega.json("job", "run", "--name", "a", "--precedence", "10")["warnings"]
    limits = "precedence 10 is not within 0 to 9, the limits of kind batch"
    assert said == f"job a: {limits}; it stays pending until they are changed"
    assert omega.json("job", "run", "--name", "b", "--precedence", "9")["warnings"] == []


def test_of_a_gang_that_is_doubtful_for_another_reason_that_is_said(omega: Omega, cell: RedisCell) -> None:
    cell.schedulers.register("batch/0", "n" * 16, 60_000, 1)
    join(cell, 1)
    spec = JobSpec("a", "a", "batch", (TaskGroup((9_000, 1), 2),), gang=Gang.YES)
    said = omega.json("job", "run", "--name", "a", "--gang", "--cpu", "9", "--count", "2")["warnings"]
    assert [text for text in said if "gang" in text] == []
    assert len(said) == len(spec.groups)


def test_a_command_where_nothing_runs_it(omega: Omega, cell: RedisCell) -> None:
    cell.schedulers.register("batch/0", "n" * 16, 60_000, 1)

    def warned(*words: str) -> list[str]:
        found: list[str] = omega.json("job", "run", "--name", "a", "--hold", *words)["warnings"]
        omega.run("job", "stop", "a")
        return found

    join(cell, 2)
    assert warned("--duration", "5s") == []
    (said,) = warned("--", "true")
    assert said.startswith("job a: it runs commands and all machines are simulated, so it stays pending; start")
    assert warned("--simulate", "--", "true") == []
    cell.executors.register_agent("real", "n", 600_000, 0)
    cell.machines.join("agent/real", [MachineSpec("real", (4000, 4096))], 1_000)
    assert warned("--", "true") == [], "no constraint is needed: the store keeps it from simulated machines"


def test_why_a_command_is_not_placed_on_simulated_machines(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    omega.run("job", "run", "--name", "a", "--", "true")
    assert omega.json("job", "why", "a")["reason"] == "SIMULATED"
    assert "2 machines simulated; none remains" in omega.text("job", "why", "a")
    assert next(each["reason"] for each in omega.json("job", "list")["jobs"]) == "SIMULATED"


def test_why_nothing_is_placed_on_machines_without_an_executor(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    (executor,) = cell.executors.records().items()
    cell.executors.deregister(Membership(executor[0], executor[1].incarnation), 0, "ada", reaped=False)
    omega.run("job", "run", "--name", "a", "--duration", "5s")
    assert omega.json("job", "why", "a")["reason"] == "NO_EXECUTOR"
    assert "2 machines offline; none remains" in omega.text("job", "why", "a")
    assert next(each["reason"] for each in omega.json("job", "list")["jobs"]) == "NO_EXECUTOR"
    assert [each["state"] for each in omega.json("machine", "list")["machines"]] == ["offline", "offline"]
    assert "offline" in omega.text("machine", "status", "m0")


def test_list_and_why_agree_on_limits(omega: Omega, cell: RedisCell) -> None:
    join(cell, 4)
    omega.run("cell", "limits", "batch", "--cpu", "3")
    one = TaskGroup((2000, 1), 1)
    cell.jobs.submit(
        [
            JobSpec("gang", "gang", "batch", (one, one), gang=Gang.YES),
            JobSpec("free", "free", "batch", (one, TaskGroup((4000, 1), 1))),
        ],
        1,
        "ada",
    )
    with scheduler(cell, "service/0"):
        cell.schedulers.register("batch/0", "n" * 16, 60_000, 1)
        listed = {job["id"]: job["reason"] for job in omega.json("job", "list")["jobs"]}
        assert listed == {name: omega.json("job", "why", name)["reason"] for name in ("gang", "free")}
        assert listed == {"gang": "NEVER", "free": "NEVER"}


def test_one_machine_with_all_its_causes(omega: Omega, cell: RedisCell) -> None:
    machines(cell)
    cell.jobs.submit([BIG], 1_000, "ada")
    omega.run("machine", "drain", "m0")
    bad = omega.json("job", "why", "big", "--machine", "m0")
    assert (bad["machine"]["state"], bad["machine"]["free"]) == ("drained", {"cpu": 16000, "memory": 65536})
    (group,) = bad["groups"]
    assert group["fits"] == 0
    assert [(check["reason"], check["what"]) for check in group["checks"] if not check["holds"]] == [
        ("NO_MACHINE", "up"),
        ("CONSTRAINT", "constraint platform == 'x86'"),
    ]
    good = omega.json("job", "why", "big", "--machine", "m1")["groups"][0]
    assert (good["fits"], {check["holds"] for check in good["checks"]}) == (1, {True})
    text = omega.text("job", "why", "big", "--machine", "m0")
    assert "constraint platform == 'x86'  CONSTRAINT\n" in text
    assert "cpu 16/16 free" in text
    assert omega.error("job", "why", "big", "--machine", "zz").startswith("machine 'zz': not in cell ")


def test_a_job_that_no_scheduler_serves_says_so(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    answer = omega.json("job", "run", "--name", "a", "--kind", "exotic", "--duration", "1s")
    assert answer["warnings"][-1] == "no scheduler of kind exotic is live; start one with omega scheduler run exotic"
    assert omega.json("job", "why", "a")["reason"] == "NO_SCHEDULER"


def test_the_last_reasons_with_their_times(omega: Omega, cell: RedisCell) -> None:
    machines(cell)
    me = cell.schedulers.register("service/0", "nonce", 60_000, 1)
    cell.jobs.submit([BIG], 1, "ada")
    reasons = [[1_000 * i, ("LIMIT", "SPREAD")[i % 2]] for i in range(10)]
    cell.schedulers.renew(me, 60_000, {"reasons": {"big": reasons, "other": [[1, "LIMIT"]]}})
    found = omega.json("job", "why", "big")["past_reasons"]
    assert found == [{"at_ms": at, "reason": reason, "by": "service/0"} for at, reason in reasons[-8:]]
    assert "LIMIT (service/0) · " in omega.text("job", "why", "big")
    cell.jobs.stop("big", 2, "ada")
    assert omega.json("job", "why", "big")["past_reasons"] == found
    assert "last reasons: " in omega.text("job", "why", "big")


def test_the_only_machine_for_a_job_is_named_when_it_is_drained(omega: Omega, cell: RedisCell) -> None:
    """Other machines are up, and none satisfies the constraint: the drained one comes back, so it is no CONSTRAINT."""
    machines(cell)
    omega.run("machine", "set", "m3", "disk=ssd")
    omega.run("machine", "drain", "m3")
    omega.run(
        "job", "run", "--name", "picky", "--constraint", "disk == 'ssd'", "--simulate", "--duration", "1s", "--", "true"
    )
    assert omega.json("job", "list")["jobs"][0]["reason"] == "UNAVAILABLE"
    said = omega.json("job", "why", "picky")
    comes_back = "machine m3 satisfies its constraints and is drained; it takes tasks after omega machine up m3"
    assert (said["reason"], said["groups"][0]["advice"]) == ("UNAVAILABLE", [comes_back])
    assert comes_back in omega.text("job", "why", "picky")
    omega.run("machine", "up", "m3")
    assert omega.json("job", "why", "picky")["reason"] not in ("UNAVAILABLE", "CONSTRAINT")


def test_an_empty_drained_machine_is_not_being_emptied(omega: Omega, cell: RedisCell) -> None:
    machines(cell)
    omega.run("machine", "drain", "m3", "--deadline", "0s")
    assert "moved off" not in omega.text("machine", "status", "m3")


@pytest.mark.parametrize("constraints", [[], ["has machine"]], ids=["size", "size and constraints"])
def test_a_job_whose_only_large_machine_is_drained_names_it(
    omega: Omega, cell: RedisCell, constraints: list[str]
) -> None:
    """Not the size of the task keeps it waiting: the machine comes back."""
    cell.executors.register("e", "n", 600_000, 0)
    cell.machines.join("e", [MachineSpec("small", (1000, 1024)), MachineSpec("big", (8000, 8192))], 0)
    group = TaskGroup((4000, 1024), 1, spec={"constraints": constraints} if constraints else {})
    huge = TaskGroup((16_000, 1024), 1, spec=group.spec)
    cell.jobs.submit([JobSpec("a", "a", "batch", (group,)), JobSpec("b", "b", "batch", (huge,))], 0, "ada")
    omega.run("machine", "drain", "big")
    reasons = {row["id"]: row["reason"] for row in omega.json("job", "list")["jobs"]}
    assert reasons == {"a": "UNAVAILABLE", "b": "TOO_LARGE"}
    said = omega.json("job", "why", "a")
    comes_back = "machine big is large enough and is drained; it takes tasks after omega machine up big"
    assert (said["reason"], said["groups"][0]["advice"], said["fits_after"]) == ("UNAVAILABLE", [comes_back], [])
    assert omega.json("job", "why", "b")["reason"] == "TOO_LARGE"
    omega.run("machine", "up", "big")
    assert omega.json("job", "why", "a")["reason"] not in ("UNAVAILABLE", "TOO_LARGE")

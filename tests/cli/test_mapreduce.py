"""MapReduce jobs on the command line: submitted from a file, how far they are, and what their tasks run."""

import json
from pathlib import Path

import pytest

from omega.cellstate import ranges
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.shards import MOST_IN_A_ROW, TRIES, Worker
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Mode, Transaction
from tests.cli.conftest import Omega
from tests.contract.conftest import Member

JOB = """
name: words
id: words-1
kind: mapreduce
workers: 2
resources: {cpu: 1}
input: {ranges: 0-39, shard: 10}
map: {command: [cat]}
reduce: {command: [cat], count: 1}
output: OUTPUT
"""


@pytest.fixture
def workers(omega: Omega, cell: RedisCell, tmp_path: Path) -> list[Worker]:
    """A submitted job with two placed workers."""
    cell.executors.register_agent("m0", "n", 600_000, 1_000)
    cell.machines.join("agent/m0", [MachineSpec("m0", (4000, 4096))], 1_000)
    omega.json("job", "submit", "-", given=JOB.replace("OUTPUT", str(tmp_path / "out")))
    assert Member(cell, "mapreduce/0").place("words-1", (0, 2)).accepted
    (run,) = cell.machines.runs([0])
    return [Worker(0, run.placement, task) for task in range(2)]


def work(cell: RedisCell, worker: Worker, *, failed: bool = False) -> None:
    errand = cell.shards.claim("words-1", worker, 4, 1, 10**12)
    assert cell.shards.end("words-1", "words", worker, errand.what, errand.shard, 1500, failed_ms=0 if failed else None)


def test_how_far_a_job_is(omega: Omega, cell: RedisCell, workers: list[Worker], tmp_path: Path) -> None:
    done = {"total": 4, "finished": 0, "mean_seconds": None}
    first = omega.json("job", "status", "words")
    assert first["progress"] == {
        "phase": "map",
        "working": 0,
        "failed": None,
        "map": done,
        "reduce": {**done, "total": 1},
        "locality": None,
        "failing_machines": [],
    }
    assert [(group["name"], group["counts"]["total"]) for group in first["groups"]] == [("workers", 2), ("surplus", 0)]
    work(cell, workers[0])
    cell.shards.claim("words-1", workers[1], 4, 1, 10**12)
    later = omega.json("job", "status", "words")["progress"]
    assert (later["phase"], later["working"]) == ("map", 1)
    assert later["map"] == {"total": 4, "finished": 1, "mean_seconds": 1.5}
    text = omega.text("job", "status", "words")
    assert "map           1 of 4 shards · 1 in work · 1.5 s each\nreduce        0 of 1 shard\n" in text
    assert f"output        {tmp_path / 'out'}\n" in text
    assert "  progress  " in omega.text("job", "list")
    assert "  map 1/4  " in omega.text("job", "list")


def test_a_job_that_was_stopped_has_no_shard_in_work(omega: Omega, cell: RedisCell, workers: list[Worker]) -> None:
    for worker in workers:
        cell.shards.claim("words-1", worker, 4, 1, 10**12)
    assert omega.json("job", "status", "words")["progress"]["working"] == 2
    cell.executors.end([TaskEnd(0, workers[0].placement, EndKind.EVICTED, "0")], 1, "ada")
    assert omega.json("job", "status", "words")["progress"]["working"] == 1, "that of an evicted worker is free again"
    omega.text("job", "stop", "words")
    assert omega.json("job", "status", "words")["progress"]["working"] == 0
    assert "in work" not in omega.text("job", "status", "words")


def test_surplus_workers_count_alike_everywhere(omega: Omega, cell: RedisCell, workers: list[Worker]) -> None:
    """While they run and once they finished; those that failed or were evicted are removed, and count nowhere."""
    cell.machines.set_capacity(0, (8000, None), 1, "ada")
    cell.jobs.resize("words-1", {1: 3}, 1, "mapreduce/0")
    other = Member(cell, "mapreduce/1")
    claims = (Claim(0, 1, 3, seen=other.seen(0)),)
    assert other.transact(Transaction("words-1", claims, Mode.INCREMENTAL))[0].accepted
    shown(omega, {"running": 5})
    surplus = next(run.placement for run in cell.machines.runs([0]) if run.group == 1)
    ends = [TaskEnd(0, surplus, EndKind.FAILED, "0", "exit 1"), TaskEnd(0, surplus, EndKind.EVICTED, "1")]
    cell.executors.end(ends, 2, "agent/m0")
    shown(omega, {"running": 3}, removed=2)
    cell.executors.end([TaskEnd(0, surplus, EndKind.FINISHED, "2")], 2, "agent/m0")
    cell.executors.end([TaskEnd(0, workers[0].placement, EndKind.FAILED, "0-1", "exit 1")], 3, "agent/m0")
    shown(omega, {"failed": 2, "finished": 1}, removed=2)
    rows = {row["tasks"]: row for row in omega.json("job", "tasks", "words", "--state", "removed")["tasks"]}
    assert [(row["group"], row["reason"], row["exit_status"]) for row in rows.values()] == [
        ("surplus", "exit 1", 1), ("surplus", "evicted", None),
    ]  # fmt: skip


def shown(omega: Omega, counts: dict[str, int], removed: int = 0) -> None:
    """Check that every command counts the tasks of the job by state so; `tasks` lists the removed ones in addition."""
    tally: dict[str, int] = {}
    for row in omega.json("job", "tasks", "words")["tasks"]:
        tally[row["state"]] = tally.get(row["state"], 0) + ranges.count(row["tasks"])
    assert tally.pop("removed", 0) == removed
    assert tally == counts
    (listed,) = omega.json("job", "list")["jobs"]
    for found in (listed["counts"], omega.json("job", "status", "words")["counts"]):
        named = {"running": found["placed"], **{name: found[name] for name in ("finished", "failed", "stopped")}}
        assert {name: number for name, number in named.items() if number} == counts
        assert found["total"] == sum(counts.values())


def test_what_of_an_input_directory_is_left_out_is_said(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    (tmp_path / "in" / "below").mkdir(parents=True)
    for name in ("a.txt", "_SUCCESS", "_b.txt", ".c"):
        (tmp_path / "in" / name).write_text("text")
    text = JOB.replace("ranges: 0-39, shard: 10", f"files: [{tmp_path}/in]").replace("OUTPUT", str(tmp_path / "out"))
    left_out = "3 files whose names begin with . or _ and 1 directory left out; to read them, name them"
    warnings = omega.json("job", "submit", "-", given=text)["warnings"]
    assert f"job words: input {tmp_path}/in: {left_out}" in warnings


def test_the_list_shows_progress_only_while_there_is_some(omega: Omega, cell: RedisCell, workers: list[Worker]) -> None:
    for _ in range(4):
        work(cell, workers[0])
    assert "  reduce 0/1  " in omega.text("job", "list")
    work(cell, workers[0])
    assert "  done  " in omega.text("job", "list")
    omega.text("job", "stop", "words")
    assert "progress" not in omega.text("job", "list")


def test_a_job_that_gave_up_says_on_what(omega: Omega, cell: RedisCell, workers: list[Worker]) -> None:
    for _ in range(1 + 4 * (TRIES - 1)):  # each of the four shards comes to its turn before one is tried again
        work(cell, workers[0], failed=True)
    assert "gave up       map shard 0: tried too often\n" in omega.text("job", "status", "words")
    assert omega.json("job", "status", "words")["progress"]["failed"] == "map 0"


def test_a_machine_on_which_shards_fail_is_shown(omega: Omega, cell: RedisCell, workers: list[Worker]) -> None:
    for count in range(1, MOST_IN_A_ROW + 1):
        work(cell, workers[0], failed=True)
        said = "shard" if count == 1 else "shards"
        out = ", left out" if count == MOST_IN_A_ROW else ""
        assert f"failing on    m0 ({count} {said} in a row{out})\n" in omega.text("job", "status", "words")
    found = omega.json("job", "status", "words")["progress"]["failing_machines"]
    assert found == [{"machine": "m0", "failed_in_a_row": MOST_IN_A_ROW, "left_out": True}]
    work(cell, workers[1])
    assert omega.json("job", "status", "words")["progress"]["failing_machines"] == []


def test_other_jobs_have_no_progress(omega: Omega, cell: RedisCell) -> None:
    cell.executors.register_agent("m0", "n", 600_000, 1_000)
    cell.machines.join("agent/m0", [MachineSpec("m0", (4000, 4096))], 1_000)
    omega.json("job", "submit", "-", given="{name: a, tasks: [{}]}")
    assert omega.json("job", "status", "a")["progress"] is None
    assert "progress" not in omega.text("job", "list")


def who(job: str = "words-1", machine: str = "m0", placement: int = 1, task: int = 0) -> list[str]:
    said = ("--job", job, "--machine", machine, "--placement", str(placement), "--task", str(task))
    return ["mapreduce", "worker", *said]


def test_a_worker_says_what_is_wrong(omega: Omega, cell: RedisCell, workers: list[Worker]) -> None:
    stray = omega.error(*who(placement=99))
    assert stray == "job words: task 0 is no longer placed here; it ends"
    assert omega.error(*who(job="none")).startswith("job none, machine m0: not in cell")
    assert omega.error(*who(machine="m7")).startswith("job words-1, machine m7: not in cell")
    omega.json("job", "submit", "-", given="{name: a, id: a, tasks: [{}]}")
    assert omega.error(*who(job="a")) == "job a: is not a MapReduce job; submit one of kind mapreduce"


def test_a_worker_works(omega: Omega, cell: RedisCell, workers: list[Worker], tmp_path: Path) -> None:
    found = omega.json(*who(placement=workers[0].placement))
    assert found == {"cell": cell.name, "job": "words-1", "task": 0, "shards": 5}
    assert len((tmp_path / "out" / "part-00000").read_text().splitlines()) == 40
    assert omega.text(*who(placement=workers[1].placement, task=1)) == "0 shards done\n"


def test_what_sizing_policies_bring() -> None:
    omega = Omega(None)
    words = ("sim", "mapreduce", "--days", "0.01", "--machines", "300", "--fill", "0.5")
    found = omega.json(*words)
    assert (found["workload"], found["days"], found["seed"]) == ("C", 0.01, 0)
    names = ["as-asked", "max-parallelism", "relative-size", "global-cap"]
    assert [(each["fill"], each["policy"]) for each in found["outcomes"]] == [(0.5, name) for name in names]
    assert set(found["outcomes"][0]) == {
        "fill",
        "policy",
        "jobs",
        "benefit",
        "speedup_p50",
        "speedup_p80",
        "speedup_p95",
        "utilisation",
    }
    assert "max-parallelism" in omega.text(*words)


def test_an_output_of_a_live_job_is_refused(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    stage = {"command": ["cat"]}
    about = {"kind": "mapreduce", "input": {"ranges": "0-9"}, "map": stage, "reduce": stage}
    first, second = ({**about, "name": name, "output": str(tmp_path / "out")} for name in ("first", "second"))
    job_id = omega.json("job", "submit", "-", "--detach", given=json.dumps(first))["jobs"][0]["id"]
    both = json.dumps([{**about, "name": "third", "output": str(tmp_path / "other")}, second])
    said = omega.error("job", "submit", "-", "--detach", given=both)
    assert (
        said == f"job second: output {tmp_path / 'out'} overlaps that of the live job {job_id}; name another directory"
    )
    assert cell.jobs.live_count() == 1, "none of a file is submitted when one is refused"
    within = json.dumps({**about, "name": "within", "output": str(tmp_path / "out" / "a")})
    assert f"overlaps that of the live job {job_id};" in omega.error("job", "submit", "-", "--detach", given=within)
    third = json.dumps({**about, "name": "third", "output": str(tmp_path / "other")})
    omega.json("job", "submit", "-", "--detach", given=third)
    omega.json("job", "stop", "first")
    assert omega.json("job", "submit", "-", "--detach", given=json.dumps(second))["jobs"][0]["status"] == "submitted"


@pytest.mark.parametrize("together", [False, True])
def test_an_output_within_the_input_of_another_job_is_refused(
    omega: Omega, cell: RedisCell, tmp_path: Path, *, together: bool
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\n")
    stage = {"command": ["cat"]}
    about = {"kind": "mapreduce", "map": stage, "reduce": stage}
    files = {"files": [f"{tmp_path}/in/**/*.txt"]}
    reader = {**about, "name": "reader", "input": files, "output": str(tmp_path / "out")}
    writer = {**about, "name": "writer", "input": {"ranges": "0-9"}, "output": str(tmp_path / "in" / "out")}
    if not together:
        omega.json("job", "submit", "-", "--detach", given=json.dumps(reader))
    given = json.dumps([writer, reader] if together else writer)
    said = omega.error("job", "submit", "-", "--detach", given=given)
    assert f"output {tmp_path}/in/out is within the input {tmp_path}/in of " in said
    assert cell.jobs.live_count() == (0 if together else 1)
    if not together:
        omega.json("job", "stop", "reader")
    assert omega.json("job", "submit", "-", "--detach", given=json.dumps(writer))["jobs"][0]["status"] == "submitted"


def test_where_shards_were_read(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    """Of an input on m0, on a drained machine and on one that is not there; and of a file without a location."""
    cell.executors.register_agent("m0", "n", 600_000, 1_000)
    cell.machines.join("agent/m0", [MachineSpec(f"m{i}", (4000, 4096)) for i in range(2)], 1_000)
    omega.json("machine", "drain", "m1")
    for name in "abcd":
        (tmp_path / name).write_text("text")
    paths = ", ".join(f"{tmp_path / name}: {{machines: [m{i}]}}" for i, name in ((0, "a"), (1, "b"), (9, "c")))
    near = f"files: [{tmp_path}/?], locality: {{paths: {{{paths}}}, wait: [0s, 200ms], domains: [dc]}}"
    text = JOB.replace("ranges: 0-39, shard: 10", near).replace("OUTPUT", str(tmp_path / "out"))
    warned = [line for line in omega.json("job", "submit", "-", given=text)["warnings"] if "local" in line]
    after = "workers anywhere take their shards after 0.2 s"
    assert warned == [
        "job words, group workers: locality: m9 is not in the cell, and ignored",
        "job words, group workers: locality: m1 is not up, and ignored",
        "job words, group workers: locality: no machine with the data has the attribute dc, so no other one is near it",
        f"job words: input.locality: no machine with the data of {tmp_path}/b, {tmp_path}/c is up; {after}",
    ]
    assert omega.json("job", "status", "words")["progress"]["locality"] == {
        "machine": 0, "dc": 0, "anywhere": 0, "no location": 0,
    }  # fmt: skip
    assert Member(cell, "mapreduce/0").place("words-1", (0, 1)).accepted
    (run,) = cell.machines.runs([0])
    assert omega.json(*who(placement=run.placement))["shards"] == 5
    assert omega.json("job", "status", "words")["progress"]["locality"] == {
        "machine": 1, "dc": 0, "anywhere": 2, "no location": 1,
    }  # fmt: skip
    assert "locality      machine 1 · dc 0 · anywhere 2 · no location 1\n" in omega.text("job", "status", "words")

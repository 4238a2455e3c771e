"""Tasks by index: their results, which outlive the log; jobs that are submitted again."""

from operator import itemgetter
from typing import Any

import pytest

from omega import Client
from omega.cellstate.digest.step import digest
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cli.job.tasks import clock
from omega.queries.task_results import TaskRow
from tests.cli.conftest import Omega, join

ARRAY = '{name: crawl, tasks: [{name: fetch, array: "10-20:2,40-43"}]}'

LATER = 4_000_000_000_000
"""A time after the submission, which has the time of the test."""


@pytest.fixture
def crawl(omega: Omega, cell: RedisCell) -> str:
    """The id of a job of ten tasks: 0-3 ran on m0, of which 1 and 2 failed, 4 to 6 run on m1, the others wait."""
    join(cell, 2)
    job_id: str = omega.json("job", "submit", "-", given=ARRAY)["jobs"][0]["id"]
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    claims = Transaction(job_id, (Claim(0, 0, 4), Claim(1, 0, 3)))
    cell.schedulers.commit(CommitRequest(member, 1, [claims], Position(), LATER + 5_000))
    (run,) = cell.machines.runs([0])
    cell.executors.end([TaskEnd(0, run.placement, EndKind.FAILED, "1-2", "exit 3")], LATER + 9_000, "here")
    cell.executors.end([TaskEnd(0, run.placement, EndKind.FINISHED, "0,3")], LATER + 9_500, "here")
    return job_id


def listed(omega: Omega, *words: str) -> list[tuple[str, str, int | None, str | None]]:
    rows = omega.json("job", "tasks", "crawl", *words)["tasks"]
    return [(row["task_name"], row["state"], row["exit_status"], row["machine"]) for row in rows]


ALL = [
    ("fetch[10]", "finished", 0, "m0"),
    ("fetch[12-14:2]", "failed", 3, "m0"),
    ("fetch[16]", "finished", 0, "m0"),
    ("fetch[18-20:2,40]", "running", None, "m1"),
    ("fetch[41-43]", "pending", None, None),
]


def test_tasks_are_listed_by_index_before_and_after_the_digest(omega: Omega, cell: RedisCell, crawl: str) -> None:
    assert listed(omega) == ALL, "from the log"
    digest(cell, LATER + 20_000)
    cell.client.xtrim(cell.prefix + "log", maxlen=0, approximate=False)
    assert listed(omega) == ALL, "the log is gone"
    assert listed(omega, "--state", "failed") == ALL[1:2]
    (row,) = omega.json("job", "tasks", "crawl", "--state", "failed")["tasks"]
    assert (row["tasks"], row["indices"], row["reason"]) == ("1-2", "12-14:2", "exit 3")
    assert (row["started_ms"], row["ended_ms"], row["elapsed_ms"]) == (LATER + 5_000, LATER + 9_000, 4_000)
    text = omega.text("job", "tasks", "crawl")
    heading, _, failed, *_ = text.splitlines()
    assert heading.split() == ["task", "state", "exit", "machine", "started", "ended", "elapsed", "reason"]
    assert "fetch[12-14:2]     failed    3     m0" in text
    assert failed.split()[4:] == [*clock(LATER + 5_000).split(), *clock(LATER + 9_000).split(), "4.0", "s", "exit", "3"]
    runs = omega.json("job", "tasks", "crawl", "--state", "running")["tasks"][0]
    assert (runs["ended_ms"], runs["elapsed_ms"]) == (None, 0), "it started in the future"
    assert omega.json("job", "tasks", "crawl", "--state", "pending")["tasks"][0]["elapsed_ms"] is None
    assert omega.json("job", "status", "crawl")["history"]["complete"]


def test_lists_show_how_often_tasks_were_placed_again(omega: Omega, cell: RedisCell, crawl: str) -> None:
    """Two of three tasks are lost: their row has the number of each, the list of jobs the sum."""
    (run,) = cell.machines.runs([1])
    cell.executors.end([TaskEnd(1, run.placement, EndKind.LOST, "4-5")], LATER + 10_000, "here")
    rows = omega.json("job", "tasks", "crawl")["tasks"]
    assert [(row["tasks"], row["restarts"]) for row in rows if row["restarts"]] == [("4-5", 1)]
    assert omega.text("job", "tasks", "crawl").splitlines()[0].split()[-2:] == ["restarts", "reason"]
    assert omega.json("job", "list")["jobs"][0]["restarts"] == 2
    heading, line = omega.text("job", "list").splitlines()
    assert dict(zip(heading.split()[::-1], line.split()[::-1], strict=False))["restarts"] == "2"


def test_the_time_of_a_task_that_runs_is_until_now() -> None:
    assert [TaskRow(0, "0", "running", times=(5, end)).elapsed_ms(9) for end in (None, 8)] == [4, 3]
    assert TaskRow(0, "0", "pending").elapsed_ms(9) is None


def rerun(omega: Omega, cell: RedisCell, *words: str) -> tuple[str, int, object]:
    answer = omega.json("job", "rerun", "crawl", *words)["jobs"][0]
    job = cell.jobs.get(answer["id"])
    assert job is not None
    assert job.spec["annotations"] == {"rerun_of": omega.json("job", "status", "crawl")["id"]}
    return job.name, job.groups[0].total, job.spec["groups"][0]["array"]


def test_failed_tasks_are_submitted_again_under_their_indices(omega: Omega, cell: RedisCell, crawl: str) -> None:
    name, total, array = rerun(omega, cell, "--failed")
    assert (name, total, array) == ("crawl-rerun", 2, {"spans": [[12, 12, 1], [14, 14, 1]]})


def test_tasks_are_submitted_again_by_index(omega: Omega, cell: RedisCell, crawl: str) -> None:
    assert rerun(omega, cell, "--tasks", "10,40-41", "--name", "some") == (
        "some",
        3,
        {"spans": [[10, 10, 1], [40, 41, 1]]},
    )
    said = omega.error("job", "rerun", "crawl", "--tasks", "11")
    assert said == "job crawl: has no task with index 11; the last one is 43"
    assert omega.error("job", "rerun", "crawl", "--tasks", "44").endswith("index 44; the last one is 43")


def test_a_whole_job_is_submitted_again(omega: Omega, cell: RedisCell, crawl: str) -> None:
    cell.jobs.stop(crawl, 10_000, "ada")
    cell.jobs.housekeep(10_000, "batch/0")
    answer = omega.json("job", "rerun", "crawl")["jobs"][0]
    assert (answer["name"], answer["tasks"]) == ("crawl", 10), "its name is free"
    assert omega.json("job", "status", "crawl")["id"] == answer["id"]
    assert omega.error("job", "rerun", "crawl", "--failed") == ("job crawl: no task failed; see omega job tasks crawl")


def test_every_answer_has_the_indices_of_an_array(omega: Omega, crawl: str) -> None:
    """Task 4 to 6 of the array are 18, 20 and 40."""
    assert [run["task_name"] for run in omega.json("job", "status", "crawl")["runs"]] == ["fetch[18-20:2,40]"]
    (row,) = [line for line in omega.text("job", "status", "-v", "crawl").splitlines() if line.endswith("running")]
    assert row.split()[1:] == ["m1", "fetch", "18-20:2,40", "running"]
    failed = omega.json("events", "--job", "crawl", "--kind", "failed")["events"]
    assert [(each["tasks"], each["indices"], each["task_name"]) for each in failed] == [
        ("1-2", "12-14:2", "fetch[12-14:2]")
    ]
    assert "2 tasks (fetch[12-14:2]) of crawl" in omega.text("events", "--job", "crawl", "--kind", "failed")
    (group,) = omega.json("job", "why", "crawl")["groups"]
    assert (group["indices"], group["task_name"]) == ("41-43", "fetch[41-43]")
    assert "  pending: fetch[41-43]\n" in omega.text("job", "why", "crawl")


def test_output_is_read_by_index(omega: Omega, crawl: str) -> None:
    said = omega.json("job", "logs", "crawl", "--index", "20")
    assert (said["task"], said["indices"], said["task_name"]) == (5, "20", "fetch[20]")
    assert omega.error("job", "logs", "crawl", "--index", "11") == (
        "job crawl: has no task with index 11; the last one is 43"
    )
    assert "task 5 (fetch[20]) of crawl" in omega.run("job", "logs", "crawl", "--index", "20").stderr
    assert "exclude each other" in omega.run("job", "logs", "crawl", "--index", "20", "--task", "5", code=2).stderr


def test_a_client_lists_tasks_runs_them_again_and_reads_use(omega: Omega, cell: RedisCell, crawl: str) -> None:
    with Client(omega.url, cell.name, user="ada") as client:
        assert client.tasks("crawl", state="failed") == omega.json("job", "tasks", "crawl", "--state", "failed")
        assert client.tasks("crawl", limit=1)["rows"] == len(ALL)
        failed = [each["task_name"] for each in client.events(kinds=["failed"], job="crawl")]
        assert failed == ["fetch[12-14:2]"]
        assert client.logs("crawl", index=20)["task"] == 5
        answer = client.rerun("crawl", failed=True)["jobs"][0]
        assert (answer["name"], answer["tasks"], answer["status"]) == ("crawl-rerun", 2, "submitted")
        job = cell.jobs.get(answer["id"])
        assert job is not None
        assert job.spec["annotations"] == {"rerun_of": crawl}
        digest(cell, LATER + 20_000)
        (row,) = client.usage("kind", from_ms=LATER, to_ms=LATER + 60_000)["use"]
        assert (row["kind"], row["started"], row["failed"]) == ("batch", 7, 2)
        with pytest.raises(BadInput, match="earlier begin"):
            client.usage(from_ms=2, to_ms=1)
    with Client(omega.url, cell.name, user="bob") as client, pytest.raises(Refused, match="belongs to ada"):
        client.rerun("crawl", failed=True)


def test_a_gang_runs_again_with_at_most_its_tasks(omega: Omega, cell: RedisCell) -> None:
    omega.json("job", "submit", "-", given="{name: g, gang: {min: 3}, tasks: [{count: 5}]}")
    again = [omega.json("job", "rerun", "g", *words)["jobs"][0]["id"] for words in ((), ("--tasks", "1,4"))]
    jobs = [cell.jobs.get(each) for each in again]
    assert [job and job.gang_min for job in jobs] == [3, 2]


def test_tasks_of_a_group_that_is_no_array_keep_their_numbers(omega: Omega, cell: RedisCell) -> None:
    omega.json("job", "submit", "-", given="{name: plain, tasks: [{count: 5}]}")
    answer = omega.json("job", "rerun", "plain", "--tasks", "1,3")["jobs"][0]
    job = cell.jobs.get(answer["id"])
    assert job is not None
    assert (job.groups[0].total, job.spec["groups"][0]["array"]) == (2, {"spans": [[1, 1, 1], [3, 3, 1]]})


@pytest.mark.parametrize("words", [("job", "status"), ("job", "tasks"), ("job", "why"), ("events", "--job")])
def test_a_question_about_a_job_reads_a_bounded_part_of_a_long_log(
    omega: Omega, cell: RedisCell, crawl: str, words: tuple[str, ...]
) -> None:
    """In 600 or 1,200 later versions that no process has digested: the same bytes from the server, to 1 KB."""

    def asked() -> tuple[int, dict[str, Any]]:
        before = cell.client.info("stats")["total_net_output_bytes"]
        answer = omega.json(*words, "crawl")
        for name in ("version", "age_seconds"):
            answer.pop(name, None)
        return cell.client.info("stats")["total_net_output_bytes"] - before, answer

    def later(versions: int) -> None:
        for _ in range(versions // 2):
            cell.jobs.hold(other, 1_000, "a" * 50)
            cell.jobs.release(other, 1_000, "a" * 50)

    while digest(cell, LATER + 20_000):
        pass
    other = omega.json("job", "submit", "-", given="{name: other, tasks: [{}]}")["jobs"][0]["id"]
    later(10)
    _, whole = asked()
    later(590)
    few, _ = min((asked() for _ in range(2)), key=itemgetter(0))  # another client of the server may read meanwhile
    later(600)
    many, bounded = min((asked() for _ in range(2)), key=itemgetter(0))
    assert abs(many - few) < 1_000
    if words[-1] in ("status", "tasks"):
        holder = bounded["history"] if words[-1] == "status" else bounded
        assert holder["unread"]["from"] < holder["unread"]["to"]
        unread = f"versions {holder['unread']['from']:,} to {holder['unread']['to']:,} of the log are missing"
        assert unread in (run := omega.run(*words, "crawl")).stdout + run.stderr
        holder["unread"] = None
        bounded.get("history", {})["complete"] = True
    if words[0] == "events":  # a record has only the number of finished tasks
        whole["events"] = [each for each in whole["events"] if each["kind"] != "finished"]
    assert bounded == whole


def test_a_history_sums_up_many_alike_events_of_a_version_in_one_sentence(omega: Omega, cell: RedisCell) -> None:
    join(cell, 6)
    omega.run("job", "run", "--name", "wide", "--count", "24", "--cpu", "1", "--duration", "1h", "--detach")
    wide = omega.json("job", "status", "wide")["id"]
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    claims = tuple(Claim(machine, 0, 4) for machine in range(6))
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction(wide, claims)], Position(), LATER))
    digest(cell, LATER + 20_000)
    text = omega.text("job", "status", "wide")
    assert "placed 24 tasks of wide" in text
    assert "on 6 machines" in text
    assert "?" not in text.partition("after  version")[2]

"""Jobs that wait for others, in job files and on the command line; arrays."""

from pathlib import Path

import pytest

from omega.arrays import array_index, index_text, task_of
from omega.cellstate.model import After
from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, executor, join, scheduler

CHAIN = """
- {name: load, after: [{job: check, outcome: any}], tasks: [{}]}
- {name: check, after: extract, tasks: [{}]}
- {name: extract, tasks: [{}]}
"""


def listed(omega: Omega) -> dict[str, tuple[str, str | None]]:
    return {job["name"]: (job["state"], job["reason"]) for job in omega.json("job", "list")["jobs"]}


def submit(omega: Omega, text: str) -> dict[str, str]:
    """Submit from stdin; returns the ids by name."""
    return {job["name"]: job["id"] for job in omega.json("job", "submit", "-", given=text)["jobs"]}


def test_jobs_of_a_file_may_stand_in_any_order(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    ids = submit(omega, CHAIN)
    assert list(ids) == ["extract", "check", "load"]
    found = {job.name: job for job in cell.jobs.all()}
    assert (found["load"].after, found["check"].after) == ((After(ids["check"], True),), (After(ids["extract"]),))
    assert listed(omega)["load"] == ("held", "DEPENDENCY")
    assert f"waits for     check ({ids['check'][:4]}) to end" in omega.text("job", "status", "load")
    assert omega.json("job", "status", "load")["after"] == [{"job": ids["check"], "any_end": True}]


def test_a_chain_is_carried_out_in_order(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    ids = submit(omega, CHAIN)
    with scheduler(cell), executor(cell):
        omega.text("job", "wait", ids["load"], "--timeout", "20s")
    assert set(listed(omega).values()) == {("finished", None)}
    placed = [event["job"] for event in omega.json("events")["events"] if event["kind"] == "place"]
    assert placed == [ids["extract"], ids["check"], ids["load"]]


def test_what_cannot_come_true_is_stopped_and_says_why(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    ids = submit(omega, CHAIN)
    omega.text("job", "stop", "extract")
    assert listed(omega)["check"] == ("stopped", "DEPENDENCY")
    assert listed(omega)["load"] == ("pending", "NO_SCHEDULER")
    assert f"extract ({ids['extract'][:4]}), which did not finish" in omega.text("job", "status", ids["check"])
    said = omega.text("events")
    assert f"stopped check ({ids['check'][:4]}), 1 task unplaced: extract (" in said
    assert f"released load ({ids['load'][:4]}), now that check (" in said


def test_why_a_job_waits(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    ids = submit(omega, CHAIN)
    told = omega.json("job", "why", "check")
    assert (told["reason"], told["detail"]) == ("DEPENDENCY", f"waits for extract ({ids['extract'][:4]}) to finish")


def test_run_after(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    first = omega.json("job", "run", "--name", "first")["jobs"][0]["id"]
    omega.text("job", "run", "--name", "second", "--after", "first", "--after", f"{first[:12]}:any", "--", "true")
    found = cell.jobs.get(cell.jobs.id_of("second") or "")
    assert found is not None
    assert found.after == (After(first), After(first, any_end=True))
    assert [wait["outcome"] for wait in found.spec["after"]] == ["ok", "any"]


def test_an_unknown_job_cannot_be_waited_for(omega: Omega, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: a\nafter: nobody\ntasks: [{}]\n")
    said = omega.error("job", "submit", str(tmp_path / "job.yaml"))
    assert said == (f"{tmp_path}/job.yaml:2: after: job 'nobody': not in cell {omega.cell}; see omega job list")
    assert omega.error("job", "run", "--name", "a", "--after", "nobody").startswith("job 'nobody': not in cell")
    assert listed(omega) == {}


def test_a_job_that_waits_for_one_that_failed_is_accepted_and_stopped(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    first = omega.json("job", "run", "--name", "first")["jobs"][0]["id"]
    omega.text("job", "stop", "first")
    told = omega.json("job", "run", "--name", "a", "--after", first)
    assert told["jobs"][0]["status"] == "submitted"
    assert told["warnings"][0] == (
        f"job a: waits for first ({first[:4]}), which did not finish; it is stopped; submit both again, or wait for it"
        " with the outcome any"
    )
    cell.jobs.housekeep(1, "batch/0")
    assert listed(omega)["a"] == ("stopped", "DEPENDENCY")
    assert f"first ({first[:4]}), which did not finish" in omega.text("job", "status", "a")
    omega.text("job", "run", "--name", "a", "--after", f"{first}:any")
    assert listed(omega)["a"] == ("pending", "NO_SCHEDULER")


def test_circles_are_refused(omega: Omega) -> None:
    given = "[{name: a, after: b, tasks: [{}]}, {name: b, after: c, tasks: [{}]}, {name: c, after: a, tasks: [{}]}]"
    said = omega.error("job", "submit", "-", given=given)
    assert "a cycle, none of them would ever start; remove one of these dependencies" in said
    assert listed(omega) == {}


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("[{job: a, outcome: maybe}]", "stdin:1: after[0].outcome: 'maybe': Input should be 'ok' or 'any'"),
        (
            "[{jobs: a}]",
            (
                "stdin:1: after[0].jobs: unknown field; did you mean job? allowed: job, outcome; "
                "also stdin:1: after[0].job: is missing"
            ),
        ),
        ("[7]", "stdin:1: after[0]: 7 is not a mapping of fields"),
    ],
)
def test_what_after_may_be(omega: Omega, after: str, said: str) -> None:
    assert omega.error("job", "submit", "-", given=f"{{name: z, after: {after}, tasks: [{{}}]}}") == said


# Arrays


@pytest.mark.parametrize(
    ("array", "indices", "shown"),
    [("0-3", [0, 1, 2, 3], "fetch[0-3]"), ("{range: 1-10, step: 4}", [1, 5, 9], "fetch[1-9:4]"), ("7-7", [7], "[7]")],
)
def test_every_task_of_an_array_has_its_index(
    omega: Omega, cell: RedisCell, array: str, indices: list[int], shown: str
) -> None:
    submit(omega, f"{{name: a, tasks: [{{name: fetch, array: {array}}}]}}")
    found = cell.jobs.get(cell.jobs.id_of("a") or "")
    assert found is not None
    extra = found.spec["groups"][0]
    assert [array_index(extra, task) for task in range(found.groups[0].total)] == indices
    assert shown in omega.text("job", "status", "a")


def test_run_an_array(omega: Omega, cell: RedisCell) -> None:
    omega.text("job", "run", "--name", "a", "--array", "10-20:5", "--", "true")
    found = cell.jobs.get(cell.jobs.id_of("a") or "")
    assert found is not None
    assert (found.groups[0].total, found.spec["groups"][0]["array"]) == (3, {"first": 10, "step": 5})


@pytest.mark.parametrize("array", ["3,20,37", "1-10:2,15", "0-2,5", "7"])
def test_lists_of_indices_in_files_and_options(omega: Omega, cell: RedisCell, array: str) -> None:
    want = {"3,20,37": [3, 20, 37], "1-10:2,15": [1, 3, 5, 7, 9, 15], "0-2,5": [0, 1, 2, 5], "7": [7]}[array]
    submit(omega, f'{{name: a, tasks: [{{array: "{array}"}}]}}')
    omega.text("job", "run", "--name", "b", "--array", array, "--detach", "--", "true")
    for name in ("a", "b"):
        found = cell.jobs.get(cell.jobs.ids_by_name([name])[name])
        assert found is not None
        (extra,) = found.spec["groups"]
        assert [array_index(extra, task) for task in range(found.groups[0].total)] == want
        assert [task_of(extra, index) for index in want] == list(range(len(want)))
        assert task_of(extra, 4) is None
    assert f"[{array.replace('-10', '-9')}]" in omega.text("job", "status", "a")


def test_tasks_that_are_added_to_a_list_go_on_from_its_last_index() -> None:
    extra = {"array": {"spans": [[3, 3, 1], [10, 14, 2]]}}
    assert [array_index(extra, task) for task in range(6)] == [3, 10, 12, 14, 16, 18]
    assert [task_of(extra, index) for index in (3, 14, 18, 15, 4)] == [0, 3, 5, None, None]
    assert index_text(extra, "0-1,5") == "3,10,18"
    assert (index_text({}, "0-3,7"), task_of({}, 7)) == ("0-3,7", 7)


def test_a_group_that_is_no_array_has_no_indices() -> None:
    assert array_index({}, 3) is None


@pytest.mark.parametrize(
    "array",
    [
        "3",
        "5-2",
        "0-99999999999",
        "[0, 1]",
        "'3,2'",
        "'1-4,4'",
        "'1-'",
        "{range: '1-4,6', step: 2}",
        "{range: 1-4, step: 0}",
        "{range: 1-4, by: 2}",
    ],
)
def test_what_an_array_may_be(omega: Omega, array: str) -> None:
    said = omega.error("job", "submit", "-", given=f"{{name: a, tasks: [{{array: {array}}}]}}")
    assert said.startswith("stdin:1: tasks[0].array: ")
    assert "is not an array; w" in said


def test_an_array_says_how_many_tasks_there_are(omega: Omega) -> None:
    given = "{name: a, tasks: [{array: 0-9, count: 3}]}"
    said = omega.error("job", "submit", "-", given=given)
    assert said == "stdin:1: tasks[0]: count 3 and an array of 10; leave count out"

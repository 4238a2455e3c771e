"""`omega job hold`, `release` and `resize`; compare-and-set with --check-index; whose job it is."""

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, eventually, executor, join, scheduler

TWO_GROUPS = (TaskGroup((1, 1), 2, spec={"name": "fetch"}), TaskGroup((1, 1), 1, spec={"name": "merge"}))


def index(cell: RedisCell, name: str = "a") -> int:
    job = cell.jobs.get(cell.jobs.id_of(name) or name)
    assert job is not None
    return job.modified


@pytest.fixture
def a(omega: Omega, cell: RedisCell) -> str:
    """The id of a job of three tasks."""
    join(cell, 3)
    return str(omega.json("job", "run", "--name", "a", "--count", "3", "--cpu", "1")["jobs"][0]["id"])


def test_hold_and_release(omega: Omega, cell: RedisCell, a: str) -> None:
    assert omega.text("job", "hold", "a") == f"job  {a}  a  held · held · modify index {index(cell)}\n"
    listed = omega.json("job", "list")["jobs"][0]
    assert (listed["state"], listed["reason"], listed["held"]) == ("held", "HELD", True)
    assert omega.text("job", "hold", "a") == f"job  {a}  a  held already · held · modify index {index(cell)}\n"
    found = omega.json("job", "release", "a")
    assert found == {
        "cell": omega.cell,
        "jobs": [
            {
                "id": a,
                "name": "a",
                "before": "held",
                "state": "pending",
                "held": False,
                "after": [],
                "totals": [3],
                "modify_index": index(cell),
            }
        ],
    }


def test_a_job_submitted_held_is_placed_once_released(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    job_id = omega.json("job", "run", "--name", "a", "--hold", "--simulate", "--", "true")["jobs"][0]["id"]
    with scheduler(cell), executor(cell):
        cell.jobs.submit([JobSpec("other", "other", "batch", (TaskGroup((1, 1), 1),))], 1, "ada")
        eventually(lambda: omega.json("job", "status", "other")["state"] == "finished")
        assert omega.json("job", "status", job_id)["state"] == "held"
        omega.text("job", "release", job_id)
        omega.text("job", "wait", job_id, "--timeout", "20s")


def test_resize(omega: Omega, cell: RedisCell, a: str) -> None:
    assert (
        omega.text("job", "resize", "a", "5") == f"job  {a}  a  resized to 5 · pending · modify index {index(cell)}\n"
    )
    assert omega.json("job", "resize", "a", "0", "4")["jobs"][0]["totals"] == [4]
    assert omega.json("job", "status", "a")["counts"]["total"] == 4


def test_resize_names_a_group(omega: Omega, cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec("b", "b", "batch", TWO_GROUPS)], 1, "ada")
    assert omega.error("job", "resize", "b", "5") == ("job b has the groups fetch, merge; name one")
    assert omega.error("job", "resize", "b", "sort", "5") == (
        "job b has the groups fetch, merge, and none called sort; name one of them"
    )
    assert omega.json("job", "resize", "b", "merge", "5")["jobs"][0]["totals"] == [2, 5]


@pytest.mark.parametrize("words", [("five",), ("-1",), ("a", "b", "3"), ("99999999999",)])
def test_resize_wants_a_count(omega: Omega, a: str, words: tuple[str, ...]) -> None:
    assert "COUNT" in omega.error("job", "resize", "a", "--", *words, code=2)


def test_a_running_job_shrinks_by_its_newest_tasks(omega: Omega, cell: RedisCell) -> None:
    join(cell, 3)
    omega.json("job", "run", "--name", "a", "--count", "6", "--cpu", "1", "--duration", "1h")
    with scheduler(cell), executor(cell):
        eventually(lambda: omega.json("job", "status", "a")["counts"]["placed"] == 6)
        omega.text("job", "resize", "a", "2")
        eventually(lambda: not any(run["leaving"] for run in omega.json("job", "status", "a")["runs"]))
        status = omega.json("job", "status", "a")
    assert status["counts"] == {"total": 2, "pending": 0, "placed": 2, "finished": 0, "failed": 0, "stopped": 0}


@pytest.mark.parametrize("change", [("hold", "a"), ("resize", "a", "7"), ("stop", "a")])
def test_a_change_is_refused_when_somebody_was_faster(
    omega: Omega, cell: RedisCell, a: str, change: tuple[str, ...]
) -> None:
    old = index(cell)
    omega.text("job", "resize", "a", "5")
    said = omega.error("job", *change, "--check-index", str(old))
    assert said == (f"job {a}: modified concurrently, its modify index is now {index(cell)}; read it again and retry")
    omega.text("job", *change, "--check-index", str(index(cell)))


def test_a_job_is_submitted_only_if_it_is_new(omega: Omega, cell: RedisCell) -> None:
    given = "{name: a, id: one, tasks: [{}]}"
    for status in ("submitted", "unchanged"):
        assert omega.json("job", "submit", "-", given=given)["jobs"][0]["status"] == status
    said = omega.error("job", "submit", "-", "--check-index", "0", given=given)
    assert said == f"job a: exists (one), its modify index is {index(cell)}"
    omega.json("job", "submit", "-", "--check-index", "0", given="{name: b, tasks: [{}]}")


def test_an_index_goes_with_one_job(omega: Omega, a: str) -> None:
    assert "--check-index needs exactly one JOB" in omega.error("job", "hold", "a", "b", "--check-index", "3", code=2)


def test_a_job_that_is_run_says_whose_it_is(omega: Omega, cell: RedisCell) -> None:
    omega.text("job", "run", "--name", "hers", "--user", "eve", "--pool", "crawl")
    job = cell.jobs.get(cell.jobs.id_of("hers") or "")
    assert job is not None
    assert (job.spec["user"], job.spec["pool"]) == ("eve", "crawl")
    assert [(lane.user, lane.pool) for _, lane in cell.schedulers.lanes().values()] == [("eve", "crawl")]


def test_the_user_is_recorded_and_chosen_by(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    for user in ("ada", "bob"):
        omega.user = user
        omega.text("job", "run", "--name", f"of-{user}")
    omega.json("job", "submit", "-", given="{name: told, user: eve, tasks: [{}]}")
    assert [job["user"] for job in omega.json("job", "list")["jobs"]] == ["ada", "bob", "eve"]
    assert [job["name"] for job in omega.json("job", "list", "--user", "bob")["jobs"]] == ["of-bob"]
    header, row = omega.text("job", "list", "--user", "ada").splitlines()
    assert (header.split()[2], row.split()[2]) == ("user", "ada?")
    assert "user          ada" in omega.text("job", "status", "of-ada")


def test_events_tell_what_was_changed(omega: Omega, cell: RedisCell) -> None:
    spare = TaskGroup((1, 1), 2, optional=True)
    cell.jobs.submit([JobSpec("aaaaaa", "a", "batch", (TaskGroup((1, 1), 1), spare))], 1, "ada")
    cell.jobs.hold("aaaaaa", 2, "ada")
    cell.jobs.release("aaaaaa", 3, "ada")
    cell.jobs.resize("aaaaaa", {0: 2, 1: 1}, 4, "ada")
    said = [line.split("  ")[-1] for line in omega.text("events").splitlines()]
    assert said[1:] == ["held a (aaaa)", "released a (aaaa)", "resized a (aaaa): group 0 to 2 tasks, group 1 to 1 task"]
    told = [event for event in omega.json("events")["events"] if event["kind"] == "resize"]
    assert [(event["group"], event["total"], event["change"]) for event in told] == [(0, 2, 1), (1, 1, -1)]

"""A job by its name: one look-up, live or ended, however many jobs the cell has."""

from typing import Any

import pytest

from omega.cellstate.digest.values import MOST_VERSIONS
from omega.cellstate.errors import Refused
from omega.cellstate.model import After, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.client.client import Client
from omega.queries.jobs import find_job
from tests.cli.conftest import Omega

GROUPS = (TaskGroup((1, 1), 1),)


def calls_of(cell: RedisCell, what: Any) -> dict[str, int]:
    """The commands that the server runs meanwhile, without those that read the statistics."""

    def counted() -> dict[str, int]:
        stats = cell.client.info("commandstats")
        return {name: each["calls"] for name, each in stats.items() if name not in ("cmdstat_info", "cmdstat_ping")}

    before = counted()
    what()
    after = counted()
    return {name: calls - before.get(name, 0) for name, calls in after.items() if calls > before.get(name, 0)}


def test_only_the_end_of_an_awaited_job_reads_the_jobs_that_wait(cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 2),))], 0, "ada")
    cell.jobs.submit([JobSpec(f"w{i}", f"w{i}", "batch", GROUPS, after=(After("a"),)) for i in range(9)], 0, "ada")
    cell.executors.register("m", "nonce", 60_000, 0)
    cell.machines.join("m", [MachineSpec("m", (10, 10))], 0)
    member = cell.schedulers.register("batch/0", "nonce", 60_000, 0)
    placing = CommitRequest(member, 1, [Transaction("a", (Claim(0, 0, 2),))], Position(), 0)
    assert "cmdstat_zrangebylex" not in calls_of(cell, lambda: cell.schedulers.commit(placing))
    assert "cmdstat_zrangebylex" not in calls_of(
        cell, lambda: cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0")], 1, "m")
    )
    assert (
        calls_of(cell, lambda: cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 1, "m"))["cmdstat_zrangebylex"]
        == 1
    )


@pytest.fixture
def many(cell: RedisCell) -> RedisCell:
    """Ended and live jobs, several of a name."""
    cell.jobs.submit([JobSpec(f"old{i}", f"e{i % 20}", "batch", GROUPS) for i in range(20)], 0, "ada")
    cell.jobs.submit([JobSpec("one", "n1", "batch", GROUPS)], 0, "ada")
    for i in range(20):
        cell.jobs.stop(f"old{i}", 1, "ada")
    cell.jobs.submit([JobSpec(f"new{i}", f"e{i}", "batch", GROUPS) for i in range(10)], 2, "ada")
    for i in range(5):
        cell.jobs.stop(f"new{i}", 3, "ada")
    return cell


def test_a_name_leads_to_the_newest_job_and_goes_before_a_prefix(many: RedisCell) -> None:
    assert find_job(many, "e0").id == "new0", "of two that ended the newest"
    assert find_job(many, "e7").id == "new7", "the live one"
    assert find_job(many, "e15").id == "old15"
    assert find_job(many, "n1").id == "one"
    assert find_job(many, "old15").name == "e15"
    assert find_job(many, "on").id == "one"
    many.jobs.submit([JobSpec("x", "on", "batch", GROUPS)], 4, "ada")
    many.jobs.stop("x", 5, "ada")
    assert find_job(many, "on").id == "x", "its name is exact"
    with pytest.raises(Refused, match="20 jobs"):
        find_job(many, "old")
    with pytest.raises(Refused, match="not in cell"):
        find_job(many, "nobody")


@pytest.mark.parametrize("name", ["e0", "e7", "e15"], ids=["ended", "live", "ended once"])
def test_a_look_up_by_name_reads_one_name_more_than_one_by_id(many: RedisCell, name: str) -> None:
    job_id = find_job(many, name).id
    by_id = calls_of(many, lambda: find_job(many, job_id))
    by_name = calls_of(many, lambda: find_job(many, name))
    assert sum(by_name.values()) <= 2 * sum(by_id.values()) + 1
    assert not {"cmdstat_hgetall", "cmdstat_hscan", "cmdstat_hkeys", "cmdstat_lrange"} & by_name.keys()


def test_wait_and_status_by_name_are_those_by_id(client: Client, many: RedisCell) -> None:
    for name in ("e0", "e15"):
        job_id = find_job(many, name).id
        assert client.status(name) == client.status(job_id) | {"age_seconds": pytest.approx(0, abs=1e12)}
        assert client.wait(name)["id"] == client.wait(job_id)["id"] == job_id


def test_a_file_is_refused_for_names_of_live_jobs_only(client: Client, many: RedisCell) -> None:
    assert client.submit({"name": "e0", "tasks": [{}]}, {"name": "e15", "tasks": [{}]})["jobs"]
    with pytest.raises(Refused, match="the name is taken by the live job new7"):
        client.submit({"name": "free", "tasks": [{}]}, {"name": "e7", "tasks": [{}]})
    assert not many.jobs.ids_by_name(["free"])


def test_what_concerns_one_job_makes_no_more_calls_in_a_cell_of_many_jobs(
    omega: Omega, cell: RedisCell, client: Client
) -> None:
    """Both logs are longer than what a question about a job reads of one (docs/large-cells.md)."""

    def counted(name: str) -> dict[str, dict[str, int]]:
        about = {
            "submit": lambda: client.submit({"name": name, "tasks": [{}]}),
            "status": lambda: omega.text("job", "status", name),
            "why": lambda: omega.text("job", "why", name),
            "stop": lambda: client.stop(name),
        }
        return {what: calls_of(cell, call) for what, call in about.items()}

    for i in range(MOST_VERSIONS):
        cell.jobs.submit([JobSpec(f"a{i}", f"a{i}", "batch", GROUPS)], 0, "ada")
    few = counted("x1")
    cell.jobs.submit([JobSpec(f"b{i}", f"b{i}", "batch", GROUPS) for i in range(2_000)], 0, "ada")
    for what, calls in counted("x2").items():
        assert {name: number for name, number in calls.items() if number > few[what].get(name, 0)} == {}, what

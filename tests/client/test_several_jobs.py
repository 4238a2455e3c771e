"""`client.submit` of several jobs in one call: what a file with a list accepts, mappings accept."""

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.client.client import Client


def mapping(name: str, *after: str) -> dict[str, object]:
    return {"name": name, "after": list(after), "tasks": [{"duration": "1s"}]}


def test_mappings_of_one_call_wait_for_each_other_in_any_order(client: Client, cell: RedisCell) -> None:
    answer = client.submit(mapping("last", "middle", "typed"), mapping("middle", "first"), TYPED, mapping("first"))
    ids = {job["name"]: job["id"] for job in answer["jobs"]}
    assert {wait["job"] for wait in client.status("last")["after"]} == {ids["middle"], "t1"}
    assert client.status("middle")["state"] == "held"
    assert client.plan(mapping("b", "a"), mapping("a"))["jobs"]
    again = client.submit(mapping("later", "t1"))
    assert again["jobs"][0]["status"] == "submitted", "jobs of earlier calls as before"


TYPED = JobSpec("t1", "typed", "batch", (TaskGroup((1, 1), 1),))


@pytest.mark.parametrize(
    ("jobs", "error"),
    [
        ((mapping("a", "b"), mapping("b", "a")), "job a waits for b waits for a: a cycle"),
        ((mapping("a"), mapping("a")), "jobs[1]:1: name: 'a' is that of the job at jobs[0]:1; choose another"),
        ((TYPED, mapping("typed")), "jobs[1]:1: name: 'typed' is that of the job at job typed; choose another"),
        ((mapping("a"), {"name": "b", "tusks": []}), "jobs[1]:1: tusks: unknown field"),
        ((mapping("a", "nobody"),), "job:1: after: job 'nobody': not in cell"),
    ],
)
def test_a_call_with_an_error_submits_nothing(
    client: Client, cell: RedisCell, jobs: tuple[dict[str, object], ...], error: str
) -> None:
    with pytest.raises(BadInput) as said:
        client.submit(*jobs)
    assert str(said.value).startswith(error)
    assert client.jobs()["total"] == 0

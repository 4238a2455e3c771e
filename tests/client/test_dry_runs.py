"""What changes of jobs would do: no dry run changes anything, and each says what the change then does."""

from collections.abc import Callable

import pytest

from omega.cellstate import ranges
from omega.cellstate.model import Limits
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from omega.jobfile.reader import JobFile
from omega.queries.shortfalls import remedy_text
from omega.schedulers.rolling import Rollouts
from tests.cli.conftest import eventually, join

pytestmark = pytest.mark.server

WEB = """
name: web
kind: service
tasks: [{name: www, count: 2, resources: {cpu: 1}, command: [sleep, '60'], duration: 1h}]
simulate: true
"""


def test_a_job_file_is_given_back_and_an_edited_one_is_planned_before_the_update(
    client: Client, at_work: Callable[..., None]
) -> None:
    at_work(machines=3, members=["service/0"])
    client.submit(JobFile("web.yaml", WEB))
    eventually(lambda: client.status("web")["state"] == "running")
    before = client.job_file("web")
    assert (before["version"], before["file"]["tasks"][0]["command"]) == (1, ["sleep", "60"])
    same = client.plan_update(JobFile("web.yaml", before["text"]))
    assert (same["replaces"], same["changes"]) == (0, [])
    edited = before["text"].replace("'60'", "'90'")
    planned = client.plan_update(JobFile("web.yaml", edited))
    change = {"field": "tasks.www.command", "before": ["sleep", "60"], "after": ["sleep", "90"]}
    assert (planned["replaces"], planned["changes"]) == (2, [change])
    assert client.job_file("web") == before
    answer = client.update(JobFile("web.yaml", edited), check=planned["modify_index"])["jobs"][0]
    assert answer["replaces"] == planned["replaces"]
    assert client.job_file("web", version=1)["text"] == before["text"]
    back = client.plan_revert("web")
    assert [each["after"] for each in back["changes"]] == [["sleep", "60"]]


def test_additional_tasks_are_planned_with_what_would_help(client: Client, cell: RedisCell) -> None:
    join(cell, 2)
    client.submit({"name": "a", "tasks": [{"count": 3, "resources": {"cpu": 2}}]}, hold=True)
    planned = client.plan_resize("a", 9)
    assert (planned["before"], planned["after"]) == (3, 9)
    assert (planned["plan"]["placed"], planned["plan"]["unplaced"]) == (4, 2)
    (help_,) = planned["plan"]["fits_after"]
    assert (help_["machines"], help_["like"]) == (1, "m0")
    assert planned["plan"]["groups"][0]["steps"][-1]["excludes"] == 2
    assert client.plan_resize("a", 1)["plan"] == {}
    assert client.plan_release("a")["plan"]["placed"] == 3
    assert client.status("a")["counts"]["total"] == 3


def test_additional_tasks_are_planned_below_limits(
    client: Client, cell: RedisCell, at_work: Callable[..., None]
) -> None:
    at_work(machines=2)
    cell.pools.set_limits("batch", Limits((4_000, None), 1), 1, "ada")
    client.submit({"name": "a", "tasks": [{"count": 2, "resources": {"cpu": 1}, "duration": "1h"}]})
    eventually(lambda: client.status("a")["state"] == "running")
    plan = client.plan_resize("a", 6)["plan"]
    assert (plan["placed"], plan["unplaced"], plan["reason"]) == (2, 2, "LIMIT"), "it is the one job that is admitted"
    client.submit({"name": "b", "tasks": [{"count": 2, "resources": {"cpu": 1}}]}, hold=True)
    plan = client.plan_release("b")["plan"]
    assert (plan["placed"], plan["unplaced"], plan["reason"]) == (0, 2, "LIMIT")
    client.resize("a", 6)
    eventually(lambda: client.status("a")["counts"]["placed"] == 4)


def test_an_update_that_adds_tasks_is_planned_below_limits(
    client: Client, cell: RedisCell, at_work: Callable[..., None]
) -> None:
    at_work(machines=3, members=["service/0"])
    cell.pools.set_limits("service", Limits((4_000, None)), 1, "ada")
    client.submit(JobFile("web.yaml", WEB))
    eventually(lambda: client.status("web")["state"] == "running")
    larger = JobFile("web.yaml", WEB.replace("count: 2", "count: 7"))
    plan = client.plan_update(larger)["plan"]
    assert (plan["tasks"], plan["placed"], plan["unplaced"], plan["reason"]) == (5, 2, 3, "LIMIT")
    assert client.plan_update(JobFile("web.yaml", WEB))["plan"] == {}
    replacing = client.plan_update(JobFile("web.yaml", WEB.replace("'60'", "'90'")))
    plan = replacing["plan"]
    assert (replacing["replaces"], plan["placed"], plan["unplaced"]) == (2, 2, 0), "in the room that they leave"
    client.update(larger)
    Rollouts("service", "service/0").step(cell, "1" * 256, 1)  # housekeeping, which these schedulers have none of
    eventually(lambda: client.status("web")["counts"]["placed"] == 4)
    client.stop("web")
    eventually(lambda: client.status("web")["state"] == "stopped")
    planned = client.plan_update(larger)
    assert (planned["restarts"], planned["plan"]["placed"], planned["plan"]["reason"]) == (True, 4, "LIMIT")


def test_the_plan_of_an_update_says_what_replaces_what(
    client: Client, cell: RedisCell, at_work: Callable[..., None]
) -> None:
    """Two tasks fill a machine: the new ones get their room; larger ones do not fit, and the plan says why."""
    at_work(machines=1, members=["service/0"])
    need = cell.machines.all()[0].capacity[0] // 2_000
    text = WEB.replace("cpu: 1", f"cpu: {need}")
    client.submit(JobFile("web.yaml", text))
    eventually(lambda: client.status("web")["counts"]["placed"] == 2)
    planned = client.plan_update(JobFile("web.yaml", text.replace("'60'", "'90'")))
    told = [(each["machine"], each["tasks"]) for each in planned["replaced_tasks"]]
    assert sum(ranges.count(tasks) for _, tasks in told) == 2
    assert {machine for machine, _ in told} == {"m0"}
    plan = planned["plan"]
    assert (plan["placed"], plan["unplaced"], {each["machine"] for each in plan["placements"]}) == (2, 0, {"m0"})
    more = client.plan_update(JobFile("web.yaml", text.replace("'60'", "'90'").replace("count: 2", "count: 3")))["plan"]
    assert (more["placed"], more["unplaced"], more["reason"]) == (2, 1, "RESOURCES")
    assert client.status("web")["version"] == 1, "nothing was changed"
    client.update(JobFile("web.yaml", text.replace("'60'", "'90'")))
    again = client.plan_revert("web")
    assert (again["replaces"], again["plan"]["placed"]) == (2, 2), "two versions are there"
    assert client.plan_resize("web", 3)["plan"]["placed"] == 0


def test_of_a_task_that_is_too_large_the_size_that_fits_is_named(client: Client, cell: RedisCell) -> None:
    join(cell, 2)
    client.submit({"name": "a", "tasks": [{"resources": {"cpu": 64, "memory": "1Gi"}}]})
    why = client.why("a")
    assert why["reason"] == "TOO_LARGE"
    largest = why["groups"][0]["lacking"][0]["largest"]
    (remedy,) = why["fits_after"]
    assert (remedy["lowered"], remedy["at_least"]["cpu"]) == ({"cpu": largest}, 64_000)
    assert remedy_text(remedy).startswith(f"tasks lowered to cpu at most {largest // 1000} (machine ")
    assert remedy_text(remedy).endswith("or a machine with cpu 64, memory 1Gi")
    client.submit({"name": "b", "tasks": [{"resources": {"cpu": largest / 1000, "memory": "1Gi"}}]})
    assert client.why("b")["reason"] != "TOO_LARGE", "what was advised fits"

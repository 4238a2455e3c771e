"""`omega.Client`: its answers are what the commands print with --json; threads share it; errors are the same."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omega as package
from omega.cellstate.errors import BadInput, Duplicate, Overtaken, Refused, Unreachable
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from tests.cli.conftest import Omega, eventually, join

pytestmark = pytest.mark.server

JOB = {"name": "crawl", "kind": "batch", "tasks": [{"name": "fetch", "count": 3, "resources": {"cpu": "500m"}}]}
MOMENTS = re.compile(r'"(age_seconds|elapsed_ms|waited_seconds|seconds|version)": [\d.]+')


def without_ages(document: Any) -> Any:
    """A document without ages, which differ from call to call."""
    return json.loads(MOMENTS.sub(r'"\1": 0', json.dumps(document)))


def test_answers_are_those_of_the_commands(omega: Omega, client: Client, cell: RedisCell) -> None:
    join(cell, 3)
    omega.run("cell", "limits", "batch", "--cpu", "100")
    client.submit(JOB, {**JOB, "name": "large", "tasks": [{"count": 2, "resources": {"cpu": 64}}]})
    client.submit({**JOB, "name": "later"}, hold=True)
    pairs: list[tuple[Any, tuple[str, ...]]] = [
        (client.jobs(), ("job", "list")),
        (client.jobs(limit=1), ("job", "list", "--limit", "1")),
        (client.jobs(state="held"), ("job", "list", "--state", "held")),
        (client.status("crawl"), ("job", "status", "crawl")),
        (client.why("large"), ("job", "why", "large")),
        (client.why("later"), ("job", "why", "later")),
        (client.machines(), ("machine", "list")),
        (client.machines(limit=1, after=0), ("machine", "list", "--limit", "1", "--after", "0")),
        (client.limits(), ("cell", "limits")),
        (client.pools(), ("pool", "list")),
        (client.export_pools(), ("pool", "export")),
        (client.schedulers(), ("scheduler", "list")),
        (client.cell_status(), ("cell", "status")),
        ({"events": list(client.events())}, ("events",)),
        (client.wait("crawl", timeout=0), ("job", "wait", "crawl", "--timeout", "0s")),
    ]
    for answer, words in pairs:
        printed = omega.json(*words, code=124 if "wait" in words else 0)
        if words == ("events",):
            printed = {"events": printed["events"]}
        assert without_ages(answer) == without_ages(printed), words
    (there,) = (each for each in client.cells()["cells"] if each["name"] == cell.name)
    assert there in omega.json("cell", "list")["cells"]


def test_changes_are_those_of_the_commands(omega: Omega, client: Client, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 1)
    file = tmp_path / "job.yaml"
    file.write_text("name: a\nkind: batch\ntasks: [{count: 2, resources: {cpu: 1}}]\n")
    typed = JobSpec("typed", "b", "batch", (TaskGroup((1000, 1), 2),))
    answers = [client.submit(file)["jobs"][0], client.submit(typed)["jobs"][0]]
    assert [(job["name"], job["status"], job["tasks"]) for job in answers] == [
        ("a", "submitted", 2),
        ("b", "submitted", 2),
    ]
    assert client.jobs()["jobs"][0]["user"] == "ada"
    calls: list[tuple[Callable[[str], Any], tuple[str, ...]]] = [
        (client.hold, ("job", "hold", "b")),
        (client.release, ("job", "release", "b")),
        (lambda name: client.resize(name, 5), ("job", "resize", "b", "5")),
        (client.stop, ("job", "stop", "b")),
    ]
    for mine, words in calls:
        (answer,) = mine("a")["jobs"]
        (same,) = omega.json(*words)["jobs"]
        for each in (answer, same):
            assert each.pop("modify_index") > 0
            assert each.pop("id") in ("typed", answers[0]["id"])
            each.pop("name")
        assert answer == same, words


def test_plan_and_update(omega: Omega, client: Client, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 1)
    job = {**JOB, "id": "one"}
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    assert client.plan(job) == omega.json("job", "plan", str(file))
    client.submit(job)
    assert client.plan(job)["jobs"][0]["status"] == "unchanged"
    changed = {**job, "tasks": [{"name": "fetch", "count": 3, "resources": {"cpu": "600m"}}]}
    (answer,) = client.update(changed)["jobs"]
    file.write_text(json.dumps(changed))
    (printed,) = omega.json("job", "update", str(file))["jobs"]
    assert set(answer) == set(printed)
    assert (answer["update"], answer["replaces"]) == ("rolling", 3)


def test_wait_and_logs(client: Client, at_work: Callable[..., None]) -> None:
    at_work(machines=1)
    client.submit({**JOB, "tasks": [{"count": 2, "duration": "10ms"}]})
    ended = client.wait("crawl", timeout=30)
    assert (ended["state"], ended["timed_out"], ended["counts"]["finished"]) == ("finished", False, 2)
    assert client.logs("crawl", 1)["text"] == ""
    with pytest.raises(Refused, match="has no task 2"):
        client.logs("crawl", 2)


def test_errors_are_those_of_the_commands(omega: Omega, client: Client) -> None:
    client.submit(JOB)
    calls: list[tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = [
        (lambda: client.submit(JOB), Duplicate, ()),
        (lambda: client.status("nobody"), Refused, ("job", "status", "nobody")),
        (lambda: client.hold("crawl", check=7), Overtaken, ("job", "hold", "crawl", "--check-index", "7")),
        (lambda: client.jobs(state="asleep"), BadInput, ()),
        (lambda: client.submit({"name": "x", "tasks": [{"cont": 1}]}), BadInput, ()),
        (lambda: client.submit("/nowhere.yaml"), BadInput, ("job", "submit", "/nowhere.yaml")),
        (lambda: client.jobs(limit=0), BadInput, ()),
        (lambda: client.machines(limit=-1), BadInput, ()),
        (lambda: client.events(kinds=["birth"]), BadInput, ()),  # at once, not with the first event
        (lambda: client.logs("crawl", stream="stdin"), BadInput, ()),
        (lambda: client.set_limits("batch", {"cpu": 1}), BadInput, ()),
        (lambda: client.set_limits("batch", {"jobs": "many"}), BadInput, ()),
        (lambda: client.set_limits("batch", {"precedence": [9, 1]}), BadInput, ()),
        (lambda: client.set_limits("batch", {"resources": {"cpux": 1}}), BadInput, ()),
    ]
    for call, error, words in calls:
        with pytest.raises(error) as found:
            call()
        if words:
            assert omega.error(*words) == str(found.value)
    assert issubclass(Refused, package.OmegaError)
    with pytest.raises(Unreachable):
        Client("unix:///nowhere.sock", "c").jobs()


def test_a_job_of_another_user(omega: Omega, client: Client) -> None:
    client.submit(JOB)
    with Client(omega.url, omega.cell, user="bob") as other:
        with pytest.raises(Refused, match="belongs to ada"):
            other.stop("crawl")
        assert other.stop("crawl", force=True)["jobs"][0]["state"] == "stopped"


def test_events_are_resumed_by_version(client: Client, cell: RedisCell) -> None:
    join(cell, 2)
    client.submit(JOB)
    client.hold("crawl")
    everything = list(client.events())
    assert [event["kind"] for event in everything][-2:] == ["submit", "hold"]
    for event in everything:
        assert list(client.events(event["version"])) == [e for e in everything if e["version"] > event["version"]]
    assert [event["kind"] for event in client.events(kinds=["hold"])] == ["hold"]
    assert {event["kind"] for event in client.events(job="crawl")} == {"submit", "hold"}
    following = client.events(everything[-1]["version"], follow=True)
    client.release("crawl")
    assert next(following)["kind"] == "release"
    cell.client.xtrim(f"omega:1:{{{cell.name}}}:log", maxlen=1, approximate=False)
    assert next(client.events(0)) == {"gap": {"from": 1, "to": everything[-1]["version"]}}


def test_threads_share_a_client(client: Client, cell: RedisCell) -> None:
    join(cell, 2)
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for i in range(5):
                name = f"job-{number}-{i}"
                client.submit({**JOB, "name": name})
                wrong.extend(each for each in (client.status(name),) if each["name"] != name)
        except Exception as error:  # noqa: BLE001 - every error is shown
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert client.jobs()["total"] == 40
    eventually(lambda: not any(thread.is_alive() for thread in threads))


def test_a_closed_client_refuses(client: Client) -> None:
    client.jobs()
    client.close()
    with pytest.raises(Refused, match="closed"):
        client.jobs()


def test_limits_are_changed_field_by_field(omega: Omega, client: Client) -> None:
    client.set_limits("batch", {"resources": {"cpu": "4", "memory": "2Gi"}, "jobs": 3})
    found = client.set_limits("batch", {"resources": {"memory": None}, "precedence": [0, 99]})
    assert found == omega.json("cell", "limits", "batch")
    batch = found["limits"]["batch"]
    assert (batch["resources"]["cpu"]["limit"], batch["resources"]["memory"]["limit"]) == (4000, None)
    assert (batch["jobs"]["limit"], batch["precedence"]) == (3, [0, 99])
    assert client.set_limits("batch", {}, clear=True)["limits"]["batch"]["jobs"]["limit"] is None


def test_a_call_that_is_interrupted_gives_no_connection_back(client: Client) -> None:
    def lent() -> int:
        return len(client._connections._free)

    client.jobs()
    assert lent() == 1
    with pytest.raises(Refused):
        client.status("nobody")
    assert lent() == 1, "a refusal was read to its end"
    with pytest.raises(KeyboardInterrupt), client._connections.cell():
        raise KeyboardInterrupt
    assert lent() == 0
    assert client.jobs()["total"] == 0


def test_documents_are_plain_values(client: Client, cell: RedisCell) -> None:
    join(cell, 1)
    large = {"name": "large", "tasks": [{"resources": {"cpu": 1000}}]}
    client.submit(large)
    for found in (
        client.plan({**large, "name": "other"}),
        client.why("large"),
        client.why("large", machine="m0"),
        client.jobs(),
        client.status("large"),
    ):
        assert not list(_others(found))


def _others(value: object) -> Iterator[object]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _others(each)
    elif type(value) not in (str, int, float, bool, type(None)):
        yield value


def test_pools_are_planned_and_replaced_with_their_version(omega: Omega, client: Client, cell: RedisCell) -> None:
    join(cell, 1)
    document = {"pools": [{"name": "a", "weight": 2, "guarantee": {"cpu": "500m"}}, {"name": "b"}]}
    assert {row["name"]: row["change"] for row in client.plan_pools(document)["pools"]} == {"a": "added", "b": "added"}
    stored = client.import_pools(document)
    assert stored["pools"] == [{"name": "a", "weight": 2.0, "guarantee": {"cpu": "500m"}}, {"name": "b"}]
    assert client.import_pools(stored) == stored, "equal pools change nothing"
    omega.run("pool", "set", "c")
    with pytest.raises(Overtaken):
        client.import_pools(stored)
    with pytest.raises(BadInput, match="weights are from"):
        client.import_pools({"pools": [{"name": "a", "weight": 0}]})
    assert [row["name"] for row in client.pools()["pools"]] == ["a", "b", "c"]
    with pytest.raises(Refused, match="not configured"):
        client.submit({**JOB, "pool": "d"})

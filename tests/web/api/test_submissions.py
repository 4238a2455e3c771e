"""Submission by HTTP: JSON and YAML, keys, jobs that must be new, and requests that arrive together."""

import json
from typing import Any

import anyio
import httpx
import pytest

from omega.cellstate.errors import Unreachable
from omega.cellstate.model import Limits
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.jobs import RedisJobs
from omega.client.client import Client
from omega.web.service import Service
from tests.cli.conftest import Omega, join
from tests.web.visiting import HOST, headers, visit

pytestmark = [pytest.mark.server, pytest.mark.anyio]
YAML = {"Content-Type": "application/yaml"}


def job(name: str, **words: object) -> dict[str, Any]:
    return {"name": name, "tasks": [{"count": 2, "resources": {"cpu": 1}}], **words}


async def test_a_job_file_as_yaml_or_json(http: httpx.AsyncClient, omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    text = "- name: a\n  tasks: [{count: 2}]\n- {name: b, tasks: [{}], after: a}\n"
    answer = await http.post("/v1/jobs", content=text, headers=YAML)
    assert answer.status_code == 201, answer.text
    assert [row["name"] for row in answer.json()["jobs"]] == ["a", "b"]
    assert (await http.post("/v1/jobs?hold=true", json=job("c"))).status_code == 201
    listed = omega.json("job", "list")["jobs"]
    assert [(each["name"], each["user"], each["user_source"]) for each in listed] == [
        (name, "ada", "vouched") for name in ("a", "b", "c")
    ]
    assert [each["held"] for each in listed] == [False, False, True]


async def test_the_answer_is_that_of_the_command(http: httpx.AsyncClient, omega: Omega) -> None:
    printed = omega.json("job", "submit", "-", given="{name: a, id: a, tasks: [{}]}")
    answer = (await http.post("/v1/jobs", json={"name": "b", "id": "b", "tasks": [{}]})).json()
    assert list(answer) == list(printed)
    assert [list(row) for row in answer["jobs"]] == [list(row) for row in printed["jobs"]]
    assert answer["warnings"] == [text.replace("job a:", "job b:") for text in printed["warnings"]]
    planned = (await http.post("/v1/jobs/plan", json=job("c", id="c"))).json()
    assert planned == omega.json("job", "plan", "-", given=json.dumps(job("c", id="c")), code=3)


async def test_a_plan_counts_limits(http: httpx.AsyncClient, cell: RedisCell) -> None:
    join(cell, 2)
    cell.pools.set_limits("batch", Limits((3_000, None)), 1, "ada")
    plan = (await http.post("/v1/jobs/plan", json=[job("a"), job("b")])).json()
    rows = [(row["placed"], row["unplaced"], row["reason"]) for row in plan["jobs"]]
    assert rows == [(2, 0, None), (1, 1, "LIMIT")]
    await http.post("/v1/jobs?hold=true", json=job("c"))
    plan = (await http.post("/v1/jobs/c/resize?dry_run=true", json={"count": 7})).json()["plan"]
    assert (plan["placed"], plan["unplaced"], plan["reason"]) == (3, 2, "LIMIT")


async def test_an_idempotency_key_names_the_jobs(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "batch-17"}
    first = (await http.post("/v1/jobs", json=[job("a"), job("b")], headers=key)).json()["jobs"]
    again = (await http.post("/v1/jobs", json=[job("a"), job("b")], headers=key)).json()["jobs"]
    assert [row["status"] for row in first + again] == ["submitted"] * 2 + ["unchanged"] * 2
    assert [row["id"] for row in first] == [row["id"] for row in again]
    other = await http.post("/v1/jobs", json=job("c"), headers=key)
    assert (other.status_code, other.json()["title"]) == (409, "Duplicate")
    assert "an earlier request submitted other jobs with this key" in other.json()["detail"]
    assert (await http.post("/v1/jobs", json=job("c"), headers={"Idempotency-Key": ""})).status_code == 422


async def test_jobs_that_must_be_new(http: httpx.AsyncClient) -> None:
    new = {"If-None-Match": "*"}
    assert (await http.post("/v1/jobs", json=job("a", id="a"), headers=new)).status_code == 201
    answer = await http.post("/v1/jobs", json=job("a", id="a"), headers=new)
    assert (answer.status_code, answer.json()["detail"]) == (412, "job a: exists (a), its modify index is 1")


async def test_a_refused_submission_leaves_its_neighbours(http: httpx.AsyncClient, omega: Omega) -> None:
    calls = list[int]()
    together = Client.submit_together

    def counted(self: Client, submissions: Any) -> None:
        calls.append(len(submissions))
        together(self, submissions)

    bodies: list[Any] = [job(f"j{i}") for i in range(40)]
    bodies[7] = job("j6")  # as another one
    bodies[9] = {"name": "j9", "tasks": [{"coun": 1}]}
    bodies[11] = [job("j11"), job("j11")]
    bodies[13] = job("j13", after="nothing")
    statuses = [0] * len(bodies)

    async def submit(number: int) -> None:
        statuses[number] = (await http.post("/v1/jobs", json=bodies[number])).status_code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "submit_together", counted)
        async with anyio.create_task_group() as group:
            for number in range(len(bodies)):
                group.start_soon(submit, number)
    assert {number: status for number, status in enumerate(statuses) if status != 201} == {
        7: 409, 9: 422, 11: 422, 13: 422,
    }  # fmt: skip
    assert len(omega.json("job", "list")["jobs"]) == 36
    assert sum(calls) == 40
    assert len(calls) <= 5, calls


async def test_all_that_wait_learn_that_the_store_is_away(http: httpx.AsyncClient) -> None:
    def away(self: Client, submissions: Any) -> None:
        raise Unreachable("the store does not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "submit_together", away)
        answers = [await http.post("/v1/jobs", json=job(name)) for name in "ab"]
    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].headers["retry-after"] == "1"
    assert (await http.post("/v1/jobs", json=job("a"))).status_code == 201


@pytest.mark.parametrize(
    ("content", "kind", "status", "detail"),
    [
        (b"{}", {}, 415, "no type; send application/json or application/yaml"),
        (b"name=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "is not read here; send"),
        (b"{", {"Content-Type": "application/json"}, 422, "body:1: not readable as JSON"),
        (b"", {"Content-Type": "application/json"}, 422, "body:1: not readable as JSON"),
        (b"", YAML, 422, "body: empty; write a job"),
        (b"\xff", YAML, 422, "body: not UTF-8 text at byte 0"),
        (b'{"name": "a", "name": "b"}', {"Content-Type": "application/json"}, 422, "body:1: name: is there twice"),
        (b"a: &a [*a]", YAML, 422, "contains itself"),
        (b"!!python/object/apply:os.system [ls]", YAML, 422, "body:1"),
        (b"[]", {"Content-Type": "application/json"}, 422, "body: no job in it"),
        (b"kind: mapreduce", YAML, 422, "body:1: kind: a mapreduce job names files of the computer"),
        (b'{"name": "a\\u202e", "tasks": [{}]}', {"Content-Type": "application/json"}, 422, "U+202E"),
        (b" " * (8 << 20) + b"{}", {"Content-Type": "application/json"}, 413, "8 MiB"),
    ],
)
async def test_bodies_that_are_no_jobs(
    http: httpx.AsyncClient, content: bytes, kind: dict[str, str], status: int, detail: str
) -> None:
    answer = await http.post("/v1/jobs", content=content, headers=kind)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert detail in answer.json()["detail"]


async def test_a_body_that_is_cut(http: httpx.AsyncClient) -> None:
    head = [(b"host", HOST.encode()), (b"content-type", b"application/json"), (b"content-length", b"90")]
    head += [(name.lower().encode(), value.encode()) for name, value in headers().items()]
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": "/v1/jobs", "raw_path": b"/v1/jobs",
        "query_string": b"", "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1), "headers": head,
        "server": ("127.0.0.1", 7070), "state": {},
    }  # fmt: skip
    begin = {"type": "http.request", "body": b'{"name": "a", "tasks": [{}]}', "more_body": True}
    pieces = iter([begin, {"type": "http.disconnect"}])
    sent = list[Any]()

    async def receive() -> Any:
        return next(pieces)

    async def send(message: Any) -> None:
        sent.append(message)

    await http._transport.app(scope, receive, send)  # type: ignore[attr-defined]
    assert sent[0]["status"] == 400
    assert b"the body ended before its length" in sent[1]["body"]
    assert (await http.get("/v1/jobs")).json()["jobs"] == []


async def test_who_may_submit(omega: Omega) -> None:
    service = Service(omega.url or "", omega.cell)
    async with visit(service, "reader") as reader:
        answer = await reader.post("/v1/jobs", json=job("a"))
        assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden")
        assert "needs the role submitter" in answer.json()["detail"]
        assert (await reader.post("/v1/jobs/plan", json=job("a"))).status_code == 200
    async with visit(Service(omega.url or "", omega.cell), "submitter") as submitter:
        assert (await submitter.post("/v1/jobs", json=job("a"))).status_code == 201
        assert (await submitter.post("/v1/machines/drain", json={"names": ["m0"]})).status_code == 403


async def test_one_key_is_for_the_jobs_of_its_first_request(http: httpx.AsyncClient, cell: RedisCell) -> None:
    join(cell, 1)
    key = {"Idempotency-Key": "nightly"}

    async def sent(*jobs: Any, text: str = "") -> httpx.Response:
        if text:
            return await http.post("/v1/jobs", content=text, headers=key | YAML)
        return await http.post("/v1/jobs", json=list(jobs), headers=key)

    one, two = job("a", kind="service"), job("b", after="a")
    first = await sent(one, two)
    assert (first.status_code, [row["status"] for row in first.json()["jobs"]]) == (201, ["submitted"] * 2)
    three = job("c")
    for others in ((one,), (one, two, three), (three,), (one, three), (two, one), ({**one, "precedence": 7}, two)):
        answer = await sent(*others)
        assert (answer.status_code, "other jobs with this key" in answer.json()["detail"]) == (409, True), others
    await http.post("/v1/jobs/a/resize", json={"count": 5})
    await http.post("/v1/jobs/b/stop")
    update = {**one, "tasks": [{"count": 4, "resources": {"cpu": "500m"}}]}
    assert (await http.post("/v1/jobs/update", json=update)).status_code == 200
    spelt = json.dumps([dict(reversed(each.items())) for each in (one, two)], indent=3)
    for again in (await sent(one, two), await sent(text=spelt)):
        assert again.status_code == 201, again.text
        rows = [(row["id"], row["name"], row["tasks"], row["status"]) for row in again.json()["jobs"]]
        assert rows == [(row["id"], row["name"], row["tasks"], "unchanged") for row in first.json()["jobs"]]
    assert (await sent(one, two, job("c"))).status_code == 409, "also after what happened to the jobs"
    assert {each.name for each in cell.jobs.all()} == {"a", "b"}
    again = await http.post("/v1/jobs/b/rerun", json={"name": "other"})
    assert again.status_code == 201, again.text
    assert "submission" not in cell.jobs.specs([again.json()["jobs"][0]["id"]]).popitem()[1]


async def test_jobs_of_a_key_that_were_not_sent_the_first_time_are_submitted(
    http: httpx.AsyncClient, cell: RedisCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, jobs, before = {"Idempotency-Key": "half"}, [job(f"h{i}") for i in range(4)], RedisJobs.submit

    def fails(self: RedisJobs, specs: Any, *more: Any, **options: Any) -> Any:
        if any(spec.name == "h2" for spec in specs):
            raise Unreachable("the store is away")
        return before(self, specs, *more, **options)

    monkeypatch.setattr("omega.submission.CHUNK", 2)
    monkeypatch.setattr(RedisJobs, "submit", fails)
    assert (await http.post("/v1/jobs", json=jobs, headers=key)).status_code == 503
    monkeypatch.setattr(RedisJobs, "submit", before)
    answer = (await http.post("/v1/jobs", json=jobs, headers=key)).json()["jobs"]
    assert [(row["name"], row["status"]) for row in answer] == [
        ("h0", "unchanged"), ("h1", "unchanged"), ("h2", "submitted"), ("h3", "submitted"),
    ]  # fmt: skip

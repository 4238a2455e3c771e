"""Changes by HTTP: their documents, the modify index that they require, and names with slashes."""

from typing import Any

import httpx
import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, join

pytestmark = [pytest.mark.server, pytest.mark.anyio]
JOB = {"tasks": [{"name": "x", "count": 2, "resources": {"cpu": 1}}], "kind": "service"}


def shape(value: Any) -> Any:
    """Return the names of a document, without its values."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(each) for each in value[:1]] if isinstance(value, list) else type(value).__name__


ALIKE: tuple[tuple[str, Any, str], ...] = (
    ("/v1/jobs/{}/hold", {}, "job hold {}"),
    ("/v1/jobs/{}/release", {}, "job release {}"),
    ("/v1/jobs/{}/resize", {"count": 3}, "job resize {} 3"),
    ("/v1/jobs/{}/weight", {"weight": 2.5}, "job weight {} 2.5"),
    ("/v1/jobs/{}/stop", {}, "job stop {}"),
    ("/v1/jobs/{}/rerun", {"name": "again-{}"}, "job rerun {} --name again-{}"),
)
OPERATORS: tuple[tuple[str, str, Any, str], ...] = (
    ("POST", "/v1/machines", {"names": ["{}"], "resources": {"cpu": 2}}, "machine add {} --cpu 2"),
    ("POST", "/v1/machines/{}/set", {"attributes": {"rack": "r1"}}, "machine set {} rack=r1"),
    ("POST", "/v1/machines/{}/resize", {"resources": {"cpu": 3}}, "machine resize {} --cpu 3"),
    ("POST", "/v1/machines/drain", {"names": ["{}"], "deadline_ms": 1000}, "machine drain {} --deadline 1s"),
    ("POST", "/v1/machines/up", {"names": ["{}"]}, "machine up {}"),
    ("POST", "/v1/machines/down", {"names": ["{}"]}, "machine down {}"),
    ("POST", "/v1/machines/remove", {"names": ["{}"]}, "machine remove {}"),
    ("PATCH", "/v1/pools/{}", {"weight": 2, "limits": {"cpu": 4}}, "pool set {} --weight 2 --limit cpu=4"),
    ("PATCH", "/v1/limits/{}", {"jobs": 3, "resources": {"cpu": 2}}, "cell limits {} --jobs 3 --cpu 2"),
    ("DELETE", "/v1/pools/{}", None, "pool remove {}"),
    ("POST", "/v1/cell/verify", None, "cell verify"),
)
"""Changes of two things of one form, by HTTP and by command."""


def filled(value: Any, name: str) -> Any:
    """Return a body with a name in place of {}."""
    if isinstance(value, dict):
        return {key: filled(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, name) for each in value]
    return value.replace("{}", name) if isinstance(value, str) else value


async def test_changes_of_jobs_have_the_documents_of_the_commands(
    http: httpx.AsyncClient, omega: Omega, cell: RedisCell
) -> None:
    join(cell, 1)
    for name in ("mine", "other"):
        await http.post("/v1/jobs", json={"name": name, **JOB})
    for url, body, command in ALIKE:
        answer = await http.post(url.format("mine"), json=filled(body, "mine"))
        assert answer.is_success, (url, answer.text)
        assert shape(answer.json()) == shape(omega.json(*command.replace("{}", "other").split())), url


async def test_changes_by_operators_have_the_documents_of_the_commands(
    http: httpx.AsyncClient, omega: Omega, cell: RedisCell
) -> None:
    join(cell, 1)
    for method, url, body, command in OPERATORS:
        answer = await http.request(method, url.format("mine"), json=filled(body, "mine"))
        assert answer.is_success, (url, answer.text)
        document = answer.json()
        if "warnings" in document and "verify" not in url:  # which commands print on stderr
            assert isinstance(document.pop("warnings"), list)
        printed = omega.json(*command.replace("{}", "other").split())
        assert shape(document) == shape(filled(printed, "")) or set(document) == set(printed), url


async def test_a_change_requires_the_modify_index(http: httpx.AsyncClient) -> None:
    await http.post("/v1/jobs", json={"name": "a", **JOB})
    shown = await http.get("/v1/jobs/a")
    tag, index = shown.headers["etag"], shown.json()["modify_index"]
    held = await http.post("/v1/jobs/a/hold", headers={"If-Match": tag})
    assert held.status_code == 200
    late = await http.post("/v1/jobs/a/release", headers={"If-Match": f'"{index}"'})
    assert (late.status_code, late.json()["title"]) == (412, "Overtaken")
    assert "modified concurrently" in late.json()["detail"]
    assert (await http.post("/v1/jobs/a/release", headers={"If-Match": held.headers["etag"]})).status_code == 200
    assert (await http.post("/v1/jobs/a/hold", headers={"If-Match": '"x"'})).status_code == 422
    pools = await http.patch("/v1/pools/p", json={"weight": 2})
    assert (await http.patch("/v1/pools/p", json={"weight": 3}, headers={"If-Match": '"1"'})).status_code == 412
    assert (await http.delete("/v1/pools/p", headers={"If-Match": pools.headers["etag"]})).status_code == 200


async def test_an_answer_that_did_not_change(http: httpx.AsyncClient) -> None:
    await http.post("/v1/jobs", json={"name": "a", **JOB})
    first = await http.get("/v1/jobs/a")
    again = await http.get("/v1/jobs/a", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    await http.post("/v1/jobs/a/hold")
    assert (await http.get("/v1/jobs/a", headers={"If-None-Match": first.headers["etag"]})).status_code == 200


async def test_names_with_slashes(http: httpx.AsyncClient) -> None:
    await http.post("/v1/jobs", json={"name": "batch/crawl", **JOB})
    for encoded in ("batch%2Fcrawl", "batch%2fcrawl"):
        assert (await http.get(f"/v1/jobs/{encoded}")).json()["name"] == "batch/crawl"
    assert (await http.post("/v1/jobs/batch%2Fcrawl/stop")).json()["jobs"][0]["state"] == "stopped"


async def test_dry_runs_change_nothing(http: httpx.AsyncClient, omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    await http.post("/v1/jobs", json={"name": "a", **JOB})
    before = omega.json("cell", "status")["version"]
    for url, body in (
        ("/v1/jobs/a/resize", {"count": 9}), ("/v1/jobs/update", {"name": "a", **JOB}),
    ):  # fmt: skip
        answer = await http.post(f"{url}?dry_run=true", json=body)
        assert answer.status_code == 200, answer.text
    assert omega.json("cell", "status")["version"] == before
    file = (await http.get("/v1/jobs/a/file")).json()
    assert file["file"]["name"] == "a"
    assert "name: a" in file["text"]


async def test_jobs_of_others(http: httpx.AsyncClient, omega: Omega) -> None:
    omega.user = "bob"
    omega.run("job", "submit", "-", given="{name: his, tasks: [{}]}")
    answer = await http.post("/v1/jobs/his/stop")
    assert (answer.status_code, answer.json()["title"]) == (403, "Not owner")
    assert (
        answer.json()["detail"]
        == "job his: belongs to bob, and you are ada; --force changes it (over HTTP: ?force=true)"
    )
    assert (await http.post("/v1/jobs/stop?force=true", json={"jobs": ["his"]})).status_code == 200

"""Jobs that come by HTTP have the user of the token, whoever the service is to the store."""

from collections.abc import Iterator
from typing import Any

import pytest

from omega.cellstate.acl import line
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.web.access.admissions import Access
from omega.web.access.roles import Role, Visitor
from omega.web.access.tokens import Tokens, digest
from omega.web.service import Service
from tests.cli.conftest import Omega, cell, omega
from tests.web.visiting import visit

__all__ = ["cell", "omega"]
pytestmark = pytest.mark.anyio
PEOPLE: dict[str, Role] = {"ada": "submitter", "bob": "submitter", "eve": "reader", "root": "operator"}
JOB = {"name": "one", "user": "root", "tasks": [{}]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def service(store_url: str, cell: RedisCell) -> Iterator[Service]:
    """A service that has a user of the store of its own, as a person has one."""
    client: Any = connect(store_url)
    client.execute_command("ACL", "SETUSER", *line("person", cell.name, (7, 2), "secret", name="web").split()[1:])
    yield Service(store_url.replace("unix://", "unix://web:secret@"), cell.name)
    client.execute_command("ACL", "DELUSER", "web")
    client.close()


def access() -> Access:
    return Access(Tokens(start={digest(name): Visitor(name, role) for name, role in PEOPLE.items()}))


def by(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


async def test_a_job_has_the_user_of_its_token(service: Service, omega: Omega) -> None:
    async with visit(service, None, access()) as it:
        assert (await it.post("/v1/jobs", json=JOB, headers=by("eve"))).status_code == 403
        assert (await it.post("/v1/jobs", json=JOB, headers=by("ada"))).status_code == 201
        large = [{**JOB, "name": f"j{n}", "environment": {"X": "x" * 9_000}} for n in range(3)]
        assert (await it.post("/v1/jobs", json=large, headers=by("bob"))).status_code == 201
        found = {job["name"]: job for job in omega.json("job", "list")["jobs"]}
        assert (found["one"]["user"], found["one"]["user_source"]) == ("ada", "vouched")
        assert found["one"]["submitted_by"] == "ada"
        assert {found[f"j{n}"]["user"] for n in range(3)} == {"bob"}
        assert "ada?" not in omega.text("job", "list")
        shown = (await it.get("/v1/jobs/one", headers=by("eve"))).json()
        assert shown["user_source"] == "vouched"


async def test_the_owners_check_compares_the_visitor(service: Service, omega: Omega) -> None:
    async with visit(service, None, access()) as it:
        await it.post("/v1/jobs", json=JOB, headers=by("ada"))
        for path, body in (
            ("stop", None),
            ("hold", None),
            ("rerun", {}),
            ("resize", {"count": 2}),
            ("weight", {"weight": 2}),
        ):
            answer = await it.post(f"/v1/jobs/one/{path}", json=body, headers=by("bob"))
            assert answer.status_code == 403, (path, answer.text)
            assert "belongs to ada, and you are bob" in answer.json()["detail"]
        assert (await it.post("/v1/jobs/one/hold", headers=by("eve"))).status_code == 403
        assert (await it.post("/v1/jobs/one/hold", headers=by("ada"))).status_code == 200
        assert (await it.post("/v1/jobs/one/stop?force=1", headers=by("bob"))).status_code == 200
        again = await it.post("/v1/jobs/one/rerun?force=1", json={}, headers=by("bob"))
        assert again.status_code == 201
    jobs = omega.json("job", "list")["jobs"]
    assert {(job["user"], job["user_source"]) for job in jobs} == {("ada", "vouched"), ("bob", "vouched")}
    assert {event["by"] for event in omega.json("events")["events"]} == {"ada", "bob"}


async def test_what_only_operators_may(service: Service) -> None:
    async with visit(service, None, access()) as it:
        for name, status in (("eve", 403), ("ada", 403), ("root", 201)):
            added = await it.post("/v1/machines", json={"names": ["m1"], "resources": {"cpu": "4"}}, headers=by(name))
            assert added.status_code == status, added.text


@pytest.mark.parametrize(("role", "status"), [("reader", 403), ("submitter", 201)])
async def test_the_store_bounds_what_the_service_hands_out(
    store_url: str, cell: RedisCell, omega: Omega, role: str, status: int
) -> None:
    """The service has a user of the store with a role; an operator's token cannot do more."""
    client: Any = connect(store_url)
    client.execute_command("ACL", "SETUSER", *line(role, cell.name, (7, 2), "secret", name="web").split()[1:])
    omega.run("job", "run", "--name", "there", "--detach")  # the scripts are loaded, which a reader may not do
    try:
        service = Service(store_url.replace("unix://", "unix://web:secret@"), cell.name)
        async with visit(service, None, access()) as it:
            answer = await it.get("/v1/jobs", headers=by("root"))
            assert [job["name"] for job in answer.json()["jobs"]] == ["there"]
            assert (await it.get("/v1/jobs/there", headers=by("eve"))).status_code == 200
            answer = await it.post("/v1/jobs", json=JOB, headers=by("root"))
            assert (answer.status_code, "detail" in answer.json()) == (status, status == 403)
            pool = await it.post("/v1/machines", json={"names": ["m"], "resources": {"cpu": 1}}, headers=by("root"))
            assert pool.status_code == 403
    finally:
        client.execute_command("ACL", "DELUSER", "web")
        client.close()

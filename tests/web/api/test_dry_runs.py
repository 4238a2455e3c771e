"""Dry runs of every change by HTTP: the same refusals, the answer of the change, and nothing written."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Mode
from omega.web.service import Service
from tests.cli.conftest import Omega, join
from tests.contract.conftest import Member
from tests.stored_keys import stored
from tests.web.visiting import visit

pytestmark = [pytest.mark.server, pytest.mark.anyio]
PAGE = Path(__file__).parents[3] / "docs" / "http.md"
TASK: Mapping[str, Any] = {"count": 2, "resources": {"cpu": 1, "memory": "1Mi"}}
SERVICE = {"kind": "service", "name": "web", "simulate": True, "tasks": [{**TASK, "count": 3, "command": ["b"]}]}


class Sent(NamedTuple):
    """A request, and the status of its answer without a dry run; a refusal has the same with one."""

    path: str
    body: Any
    status: int = 200
    query: str = ""
    headers: Mapping[str, str] = {}


STALE = {"If-Match": '"1"'}
EACH: Mapping[tuple[str, str], tuple[Sent, ...]] = {
    ("POST", "/v1/jobs"): (
        Sent("/v1/jobs", [{"name": "n1", "tasks": [TASK]}, {"id": "n-2", "name": "n2", "tasks": [TASK, TASK]}], 201),
        Sent("/v1/jobs", {"name": "n3", "tasks": [{"resources": {"cpu": 99}}]}, 201, "hold=true"),
        Sent("/v1/jobs", {"name": "n4", "after": ["run"], "tasks": [TASK]}, 201, headers={"Idempotency-Key": "k"}),
        Sent("/v1/jobs", {"name": "run", "tasks": [TASK]}, 409),
        Sent("/v1/jobs", {"id": "run", "name": "other", "tasks": [TASK]}, 409),
        Sent("/v1/jobs", {"name": "n5", "pool": "none", "tasks": [TASK]}, 409),
        Sent("/v1/jobs", {"name": "n6", "pool": "closed", "tasks": [TASK]}, 409),
        Sent("/v1/jobs", {"name": "n7", "after": [{"job": "over", "outcome": "ok"}], "tasks": [TASK]}, 201),
        Sent("/v1/jobs", {"name": "n8", "tasks": [{"resources": {"cpu": -1}}]}, 422),
        Sent("/v1/jobs", {"name": "run", "tasks": [TASK]}, 412, headers={"If-None-Match": "*"}),
        Sent("/v1/jobs", [{"name": "n9", "tasks": [TASK]}, {"name": "n9", "tasks": [TASK]}], 422),
    ),
    ("POST", "/v1/jobs/{job}/stop"): (
        Sent("/v1/jobs/run/stop", None),
        Sent("/v1/jobs/wait/stop", None),
        Sent("/v1/jobs/gang/stop", None),
        Sent("/v1/jobs/over/stop", None),
        Sent("/v1/jobs/his/stop", None, 403),
        Sent("/v1/jobs/his/stop", None, 200, "force=true"),
        Sent("/v1/jobs/none/stop", None, 404),
        Sent("/v1/jobs/run/stop", None, 412, headers=STALE),
    ),
    ("POST", "/v1/jobs/stop"): (
        Sent("/v1/jobs/stop", {"jobs": ["run", "wait", "gang"]}),
        Sent("/v1/jobs/stop", {"jobs": ["run", "his"]}, 403),
        Sent("/v1/jobs/stop", {"jobs": []}, 422),
    ),
    ("POST", "/v1/jobs/{job}/hold"): (
        Sent("/v1/jobs/run/hold", None),
        Sent("/v1/jobs/held/hold", None),
        Sent("/v1/jobs/over/hold", None, 409),
        Sent("/v1/jobs/his/hold", None, 403),
        Sent("/v1/jobs/run/hold", None, 412, headers=STALE),
    ),
    ("POST", "/v1/jobs/hold"): (Sent("/v1/jobs/hold", {"jobs": ["run", "wait"]}),),
    ("POST", "/v1/jobs/{job}/release"): (
        Sent("/v1/jobs/held/release", None),
        Sent("/v1/jobs/over/release", None, 409),
        Sent("/v1/jobs/held/release", None, 412, headers=STALE),
    ),
    ("POST", "/v1/jobs/release"): (Sent("/v1/jobs/release", {"jobs": ["held", "run"]}),),
    ("POST", "/v1/jobs/{job}/resize"): (
        Sent("/v1/jobs/run/resize", {"count": 9}),
        Sent("/v1/jobs/run/resize", {"count": 1}),
        Sent("/v1/jobs/run/resize", {"count": 1, "group": "none"}, 409),
        Sent("/v1/jobs/over/resize", {"count": 9}, 409),
        Sent("/v1/jobs/his/resize", {"count": 9}, 403),
        Sent("/v1/jobs/run/resize", {"count": 9}, 412, headers=STALE),
        Sent("/v1/jobs/rolling/resize", {"count": 9}, 409),
        Sent("/v1/jobs/none/resize", {"count": 9}, 404),
    ),
    ("POST", "/v1/jobs/{job}/weight"): (
        Sent("/v1/jobs/run/weight", {"weight": 2.5}),
        Sent("/v1/jobs/run/weight", {"weight": 0}, 422),
        Sent("/v1/jobs/over/weight", {"weight": 2.5}, 409),
        Sent("/v1/jobs/run/weight", {"weight": 2.5}, 412, headers=STALE),
    ),
    ("POST", "/v1/jobs/{job}/rerun"): (
        Sent("/v1/jobs/over/rerun", {}, 201),
        Sent("/v1/jobs/over/rerun", {"failed": True, "name": "again", "hold": True}, 201),
        Sent("/v1/jobs/over/rerun", {"tasks": "1"}, 201),
        Sent("/v1/jobs/run/rerun", {"failed": True}, 409),
        Sent("/v1/jobs/run/rerun", {"name": "wait"}, 409),
        Sent("/v1/jobs/his/rerun", {}, 403),
        Sent("/v1/jobs/over/rerun", {"tasks": "1", "failed": True}, 422),
    ),
    ("POST", "/v1/jobs/{job}/revert"): (
        Sent("/v1/jobs/rolling/revert", {}),
        Sent("/v1/jobs/rolling/revert", {"to": 9}, 404),
        Sent("/v1/jobs/run/revert", {}, 404),
        Sent("/v1/jobs/rolling/revert", {}, 412, headers=STALE),
    ),
    ("POST", "/v1/jobs/update"): (
        Sent("/v1/jobs/update", SERVICE),
        Sent("/v1/jobs/update", {**SERVICE, "name": "ended"}),
        Sent("/v1/jobs/update", {**SERVICE, "name": "ended"}, 412, headers=STALE),
        Sent("/v1/jobs/update", {**SERVICE, "name": "web", "precedence": 7}, 422),
        Sent("/v1/jobs/update", {**SERVICE, "name": "none"}, 409),
        Sent("/v1/jobs/update", {**SERVICE, "name": "his"}, 403),
        Sent("/v1/jobs/update", {"name": "gang", "kind": "batch", "gang": "strict", "tasks": [TASK]}, 422),
        Sent("/v1/jobs/update", SERVICE, 412, headers=STALE),
    ),
    ("POST", "/v1/machines"): (
        Sent("/v1/machines", {"names": ["m0", "n0", "n1"], "resources": {"cpu": 4, "memory": "4Gi"}}, 201),
        Sent("/v1/machines", {"names": ["n0"], "resources": {"cpu": 2}, "executor": "new"}, 201),
        Sent("/v1/machines", {"names": ["m0"], "resources": {"cpu": 9}}, 409),
        Sent("/v1/machines", {"names": ["n0"], "resources": {"gpu": 9}}, 422),
    ),
    ("POST", "/v1/machines/drain"): (
        Sent("/v1/machines/drain", {"names": ["m0", "m1"], "deadline_ms": 60_000}),
        Sent("/v1/machines/drain", {"names": ["m2"]}),
        Sent("/v1/machines/drain", {"names": ["m"]}, 409),
    ),
    ("POST", "/v1/machines/up"): (
        Sent("/v1/machines/up", {"names": ["drained", "m0"]}),
        Sent("/v1/machines/up", {"names": ["none"]}, 404),
    ),
    ("POST", "/v1/machines/down"): (Sent("/v1/machines/down", {"names": ["m0"]}),),
    ("POST", "/v1/machines/remove"): (
        Sent("/v1/machines/remove", {"names": ["m1", "m2"]}),
        Sent("/v1/machines/remove", {"names": ["m0", "none"]}, 404),
    ),
    ("POST", "/v1/machines/{name}/set"): (
        Sent("/v1/machines/m0/set", {"attributes": {"rack": "r7", "zone": None}}),
        Sent("/v1/machines/m0/set", {"attributes": {"ra ck\n": "r7"}}, 422),
        Sent("/v1/machines/none/set", {"attributes": {"rack": "r7"}}, 404),
    ),
    ("POST", "/v1/machines/{name}/resize"): (
        Sent("/v1/machines/m0/resize", {"resources": {"cpu": 8}}),
        Sent("/v1/machines/m0/resize", {"resources": {"cpu": 1}}, 409),
        Sent("/v1/machines/m0/resize", {"resources": {"cpu": 1}}, 200, "evict=true"),
    ),
    ("PATCH", "/v1/pools/{name}"): (
        Sent("/v1/pools/p", {"weight": 3}),
        Sent("/v1/pools/p", {"limits": {"cpu": 1}}),
        Sent("/v1/pools/p", {"limits": {"cpu": 1}}, 200, "over=true"),
        Sent("/v1/pools/p", {"limits": {"jobs": 0}}, 200, "over=true"),
        Sent("/v1/pools/new", {"limits": {"tasks": 1}, "parent": "p2"}),
        Sent("/v1/pools/p", {"weight": -3}, 422),
        Sent("/v1/pools/new", {"parent": "p"}, 409),
        Sent("/v1/pools/p", {"weight": 3}, 412, headers=STALE),
    ),
    ("DELETE", "/v1/pools/{name}"): (
        Sent("/v1/pools/idle", None),
        Sent("/v1/pools/p", None, 409),
        Sent("/v1/pools/none", None, 404),
        Sent("/v1/pools/idle", None, 412, headers=STALE),
    ),
    ("PUT", "/v1/pool-file"): (
        Sent("/v1/pool-file", {"pools": [{"name": "p", "weight": 4}, {"name": "q"}]}),
        Sent("/v1/pool-file", {"pools": [{"name": "idle"}]}, 409),
        Sent("/v1/pool-file", {"pools": [{"name": "p"}, {"name": "p"}]}, 422),
    ),
    ("PATCH", "/v1/limits/{kind}"): (
        Sent("/v1/limits/batch", {"jobs": 9, "resources": {"cpu": 64}}),
        Sent("/v1/limits/other", {"precedence": [1, 9]}),
        Sent("/v1/limits/batch", {"resources": {"cpu": 2}}, 200, "over=true"),
        Sent("/v1/limits/batch", {"jobs": 0}, 200, "over=true"),
        Sent("/v1/limits/service", {}, 200, "clear=true"),
        Sent("/v1/limits/batch", {"resources": {"gpu": 1}}, 422),
    ),
}  # fmt: skip
"""Requests of every route that changes something."""
PARTS = ("/v1/jobs", "/v1/jobs/{", "/v1/jobs/", "/v1/machines", "/v1/pool", "/v1/limits")
"""Beginnings of paths whose routes a test tries in one cell; "/v1/jobs" alone is the submission."""


@pytest.fixture
async def busy(http: httpx.AsyncClient, omega: Omega, cell: RedisCell) -> RedisCell:
    """A cell with running, waiting, held and ended jobs, a gang on two machines, an update, pools and limits."""
    join(cell, 3)
    cell.machines.join("here", [MachineSpec("drained", (4000, 4096))], 0)
    pools = [{"name": "p"}, {"name": "p2"}, {"name": "idle"}, {"name": "closed", "users": ["eve"]}]
    assert (await http.put("/v1/pool-file", json={"pools": pools})).is_success
    assert (await http.patch("/v1/limits/service", json={"jobs": 9})).is_success
    assert (await http.post("/v1/machines/drain", json={"names": ["drained"]})).is_success
    batch = {"kind": "batch", "pool": "p"}
    jobs = [
        {"id": "run", "name": "run", "tasks": [{**TASK, "count": 4}], **batch},
        {"id": "wait", "name": "wait", "tasks": [TASK], **batch},
        {"id": "over", "name": "over", "tasks": [TASK], **batch},
        *(
            {"id": name, "name": name, "kind": "service", "simulate": True, "tasks": [{**TASK, "command": ["a"]}]}
            for name in ("web", "rolling", "ended")
        ),
    ]
    assert (await http.post("/v1/jobs", json=jobs)).is_success
    held = {"id": "held", "name": "held", "tasks": [TASK], **batch}
    assert (await http.post("/v1/jobs?hold=true", json=held)).is_success
    omega.user = "bob"
    omega.run("job", "submit", "-", given="{name: his, id: his, kind: service, tasks: [{}]}")
    gang = JobSpec("gang", "gang", "batch", (TaskGroup((1000, 1), 2),), 20, Gang.STRICT, {"pool": "p", "user": "ada"})
    cell.jobs.submit([gang], 0, "ada")
    member, services = Member(cell), Member(cell, "service/0")
    assert member.place("run", (0, 2), (1, 1)).accepted
    assert member.place("gang", (0, 1), (1, 1), mode=Mode.GANG).accepted
    assert member.place("over", (2, 2)).accepted
    run = next(run for run in cell.machines.runs([2]) if run.job == "over")
    cell.executors.end(
        [TaskEnd(2, run.placement, EndKind.FINISHED, "0"), TaskEnd(2, run.placement, EndKind.FAILED, "1", "exit 3")],
        1,
        "here",
    )
    for name in ("web", "rolling", "ended"):
        assert services.place(name, (2, 1)).accepted
    assert (await http.post("/v1/jobs/ended/stop")).is_success
    new = {"name": "rolling", "kind": "service", "simulate": True, "tasks": [{**TASK, "command": ["b"]}]}
    assert (await http.post("/v1/jobs/update", json=new)).is_success
    return cell


def outcome(document: Any) -> Any:
    """Return a document without what only the change gives: new ids, modify indices, versions."""
    if isinstance(document, list):
        return [outcome(each) for each in document]
    if isinstance(document, dict):
        left = {
            key: outcome(each) for key, each in document.items() if key not in ("modify_index", "version", "dry_run")
        }
        return left | ({"id": None} if re.fullmatch(r"[0-9a-f]{12}", str(document.get("id"))) else {})
    return document


def of_update(row: Any) -> Any:
    """Return what an update did, or would do."""
    return [row[name] for name in ("replaces", "restarts", "group_changes")]


PLANS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "resize": (lambda said: [said["after"]], lambda row: row["totals"]),
    "update": (of_update, of_update),
    "revert": (of_update, of_update),
}
"""Of dry runs with an answer of their own: what they say, and where the answer of the change has it."""


class Copy:
    """What the store has of a cell, to be restored."""

    def __init__(self, cell: RedisCell) -> None:
        self.cell, self.stored = cell, stored(cell)
        client: Any = cell.client
        self.dumped = {key: (client.dump(key), max(0, client.pttl(key))) for key in self.stored}

    def restore(self) -> None:
        client: Any = self.cell.client
        client.delete(*stored(self.cell))
        for key, (dump, left) in self.dumped.items():
            client.restore(key, left, dump)


def part_of(path: str) -> str:
    """Return the part that a route belongs to."""
    if path == PARTS[0]:
        return path
    return max((part for part in PARTS[1:] if path.startswith(part)), key=len)


@pytest.mark.parametrize("part", PARTS)
async def test_a_dry_run_answers_as_the_change_and_writes_nothing(omega: Omega, busy: RedisCell, part: str) -> None:
    service = Service(omega.url or "", omega.cell)
    before, cases = (
        Copy(busy),
        [(route, sent) for route, some in EACH.items() if part_of(route[1]) == part for sent in some],
    )
    assert cases
    async with visit(service) as http:
        for (method, _), sent in cases:
            given: dict[str, Any] = {"headers": sent.headers} | ({} if sent.body is None else {"json": sent.body})
            tried = await http.request(method, f"{sent.path}?{sent.query}&dry_run=true", **given)
            assert stored(busy) == before.stored, sent
            made = await http.request(method, f"{sent.path}?{sent.query}", **given)
            assert made.status_code == sent.status, (sent, made.text)
            if made.is_success:
                check(sent, tried, made)
                before.restore()
                for client in service._clients.values():  # with what they read of the cell
                    client.close()
                service._clients.clear()
            else:
                assert (tried.status_code, tried.json()) == (made.status_code, made.json()), sent


def check(sent: Sent, tried: httpx.Response, made: httpx.Response) -> None:
    """Compare what a dry run said with what happened."""
    assert tried.status_code == 200, (sent, tried.text)
    said, happened, word = tried.json(), made.json(), sent.path.rpartition("/")[2]
    assert said["dry_run"] is True
    if word in PLANS and sent.path.startswith("/v1/jobs"):
        assert PLANS[word][0](said) == PLANS[word][1](happened["jobs"][0]), sent
    else:
        assert outcome(said) == outcome(happened), sent


async def test_a_dry_run_names_no_id_that_the_job_will_not_have(http: httpx.AsyncClient, busy: RedisCell) -> None:
    jobs = [{"name": "n1", "tasks": [TASK]}, {"id": "n-2", "name": "n2", "tasks": [TASK]}]
    tried = (await http.post("/v1/jobs?dry_run=true", json=jobs)).json()["jobs"]
    assert [(job["id"], job["status"], job["modify_index"]) for job in tried] == [
        (None, "submitted", None), ("n-2", "submitted", None),
    ]  # fmt: skip
    keyed: dict[str, Any] = {"headers": {"Idempotency-Key": "k"}, "json": jobs}
    tried = (await http.post("/v1/jobs?dry_run=true", **keyed)).json()["jobs"]
    assert [job["id"] for job in tried] == [job["id"] for job in (await http.post("/v1/jobs", **keyed)).json()["jobs"]]
    again = (await http.post("/v1/jobs?dry_run=true", **keyed)).json()["jobs"]
    assert [job["status"] for job in again] == ["unchanged", "unchanged"]


async def test_the_index_of_a_dry_run_is_that_of_the_change(http: httpx.AsyncClient, busy: RedisCell) -> None:
    tried = await http.post("/v1/jobs/run/hold?dry_run=true")
    made = await http.post("/v1/jobs/run/hold", headers={"If-Match": tried.headers["etag"]})
    assert made.status_code == 200, made.text


async def test_every_route_that_changes_something_has_a_dry_run(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/v1/openapi.json")).json()["paths"]
    found = {
        (method.upper(), path): {each["name"] for each in said.get("parameters", ())}
        for path, methods in paths.items()
        for method, said in methods.items()
        if method != "get" and path.startswith("/v1/")
    }
    without = {route for route, words in found.items() if "dry_run" not in words}
    assert set(EACH) == set(found) - without
    table = PAGE.read_text("utf-8").partition("| without a dry run")[2].partition("\n\n")[0]
    assert {(method, path) for method, path in re.findall(r"`([A-Z]+) (/v1/[^`]+)`", table)} == without

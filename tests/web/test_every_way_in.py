"""Every way by which a text comes in by HTTP: what it may name, and how much of it is parsed where others wait."""

import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

import anyio
import httpx
import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.redis import RedisCell
from omega.jobfile import document, reader
from omega.web import reading
from omega.web.document import described
from omega.web.problems import TooLarge
from omega.web.reading import SMALL_JSON, SMALL_VALUES, SMALL_YAML
from omega.web.service import Service
from tests.integration.stage import made_cell
from tests.web.visiting import visit

pytestmark = [pytest.mark.server, pytest.mark.anyio]
YAML = {"Content-Type": "application/yaml"}
JSON = {"Content-Type": "application/json"}
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Way:
    """A way in: the path, and the form of the console that carries the text (None: it is the body)."""

    path: str
    form: Mapping[str, str] | None = None
    method: str = "POST"

    async def send(self, client: httpx.AsyncClient, cell: str, text: str, kind: Mapping[str, str]) -> httpx.Response:
        path = self.path.format(cell=cell)
        if self.form is None:
            return await client.request(self.method, path, content=text, headers=dict(kind))
        return await client.post(path, data={**self.form, "text": text})


JOBS = {
    "submit": Way("/v1/jobs?cell={cell}"),
    "dry run": Way("/v1/jobs?cell={cell}&dry_run=true"),
    "plan": Way("/v1/jobs/plan?cell={cell}"),
    "update": Way("/v1/jobs/update?cell={cell}"),
    "plan page": Way("/cells/{cell}/plan", {"step": "plan"}),
    "plan page, submit": Way("/cells/{cell}/plan", {"step": "submit"}),
    "update page": Way("/cells/{cell}/jobs/site/change", {"action": "update"}),
    "update page, make": Way("/cells/{cell}/jobs/site/change", {"action": "update", "step": "make", "check": "1"}),
}
DOCUMENTS = {
    "pool plan": Way("/v1/pool-file/plan?cell={cell}"),
    "pool import": Way("/v1/pool-file?cell={cell}", method="PUT"),
    "pool set": Way("/v1/pools/x?cell={cell}", method="PATCH"),
}
MODELS = {
    "stop": Way("/v1/jobs/stop?cell={cell}"),
    "resize": Way("/v1/jobs/site/resize?cell={cell}"),
    "rerun": Way("/v1/jobs/site/rerun?cell={cell}"),
    "limits": Way("/v1/limits/batch?cell={cell}", method="PATCH"),
    "machines": Way("/v1/machines?cell={cell}"),
    "machine set": Way("/v1/machines/m0/set?cell={cell}"),
    "pools page": Way("/cells/{cell}/pools/change", {"step": "make"}),
    "login": Way("/login", {"next": "/"}),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def cell(store_url: str) -> Iterator[RedisCell]:
    """A cell with one machine."""
    with made_cell(store_url, f"ways-{uuid4().hex[:8]}", 1) as made:
        yield made


@pytest.fixture
async def client(cell: RedisCell) -> AsyncIterator[httpx.AsyncClient]:
    """An operator, with a job to change."""
    async with visit(Service(cell.url)) as made:
        site = {"name": "site", "kind": "service", "tasks": [{}]}
        assert (await made.post(f"/v1/jobs?cell={cell.name}", json=site)).status_code in (201, 409)
        yield made


@pytest.mark.parametrize("kind", [JSON, YAML], ids=["json", "yaml"])
@pytest.mark.parametrize("way", JOBS)
async def test_no_job_lists_files_of_the_server(
    client: httpx.AsyncClient, cell: RedisCell, tmp_path: Path, way: str, kind: Mapping[str, str]
) -> None:
    (tmp_path / "secret").write_text("of the server")
    job = {
        "name": "site", "kind": "mapreduce", "workers": 1, "map": {"command": ["cat"]},
        "reduce": {"command": ["cat"]}, "input": {"files": [f"{tmp_path}/*"]}, "output": "/tmp/out",
    }  # fmt: skip
    for sent in (job, [{"name": "first", "tasks": [{}]}, job]):
        answer = await JOBS[way].send(client, cell.name, json.dumps(sent), kind)
        assert answer.status_code == 422, answer.text
        assert "names files of the computer where it is submitted" in answer.text
        assert "secret" not in answer.text
    specs = cell.jobs.specs([each.id for each in cell.jobs.all()]).values()
    assert not [each for each in specs if "mapreduce" in each]


@dataclass(slots=True)
class Work:
    """What reached a parser in this process: the largest number of bytes and of values, by the name of the parser."""

    size: dict[str, int]
    values: dict[str, int]
    threads: set[str]

    def count(self, parser: str, text: str | bytes, value: Any) -> None:
        self.size[parser] = max(self.size.get(parser, 0), len(text))
        self.values[parser] = max(self.values.get(parser, 0), _values(value))
        self.threads.add(f"{parser} in {'loop' if threading.current_thread() is threading.main_thread() else 'thread'}")


def _values(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(_values, inner))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Count what is parsed in this process."""
    found, before = Work({}, {}, set()), json.loads

    def counted(parser: str, call: Callable[..., Any], place: int) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            found.count(parser, arguments[place], None)
            value = call(*arguments, **options)
            found.count(parser, arguments[place], value)
            return value

        return run

    monkeypatch.setattr(document, "_yaml", counted("yaml", document._yaml, 1))
    monkeypatch.setattr(json, "loads", counted("json", before, 0))
    monkeypatch.setattr(reading, "_in_process", _elsewhere)
    monkeypatch.setattr(reading, "parse_qsl", counted("form", parse_qsl, 0))
    return found


async def _elsewhere(_: Any, file: Any) -> Any:
    """Stand for the process that reads large texts, which the tests below start."""
    raise TooLarge(f"{file.name}: is read elsewhere")


HOSTILE: dict[str, tuple[Mapping[str, str], Callable[[], str]]] = {
    "yaml of a MiB": (YAML, lambda: "a: [" + "1, " * (MIB // 3) + "1]"),
    "yaml of 33 KiB": (YAML, lambda: "a: [" + "1, " * 11_000 + "1]"),
    "json of 7 MiB": (JSON, lambda: '{"a": [' + "[]," * (7 * MIB // 3) + "1]}"),
    "json of 300 KiB in one text": (JSON, lambda: json.dumps({"a": "x" * (300 << 10)})),
    "json of 100 KiB in many values": (JSON, lambda: '{"jobs": [' + "1," * (50 << 10) + "1]}"),
    "a field twice": (JSON, lambda: '{"a": 1, "a": "' + "x" * (7 * MIB) + '"}'),
    "nested": (JSON, lambda: "[" * MIB),
}
SMALL = {"json": (SMALL_JSON, SMALL_VALUES), "yaml": (SMALL_YAML, SMALL_YAML), "form": (SMALL_JSON, 20_000)}


@pytest.mark.parametrize("text", HOSTILE)
async def test_little_is_parsed_where_others_wait(
    client: httpx.AsyncClient, cell: RedisCell, work: Work, text: str
) -> None:
    kind, make = HOSTILE[text]
    body = make()
    for name, way in {**JOBS, **DOCUMENTS, **MODELS}.items():
        answer = await way.send(client, cell.name, body, kind)
        assert answer.status_code in (401, 403, 413, 415, 422), f"{name}: {answer.status_code} {answer.text[:400]}"
        for parser, size in work.size.items():
            most, values = SMALL[parser]
            assert size <= most, f"{name}: {size:,} bytes reach the parser of {parser}"
            assert work.values[parser] <= values, f"{name}: {work.values[parser]:,} values come from {parser}"
    assert "yaml in loop" not in work.threads


@pytest.mark.parametrize("name", JOBS)
async def test_the_work_on_large_job_files_takes_turns(
    client: httpx.AsyncClient, cell: RedisCell, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    running, most, before = list[int](), list[int](), reader.entries

    def counted(*given: Any, **options: Any) -> Any:
        running.append(1)
        most.append(len(running))
        time.sleep(0.1)
        running.pop()
        return before(*given, **options)

    monkeypatch.setattr(reader, "entries", counted)
    text = json.dumps([{"name": f"large-{i}", "tasks": [{"command": ["x"] * 20}]} for i in range(500)])
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(JOBS[name].send, client, cell.name, text, JSON)
    assert max(most) == 1, "the loop waits for each thread that wants the interpreter's lock"


async def test_a_large_job_file_is_submitted(client: httpx.AsyncClient, cell: RedisCell) -> None:
    text = "x" * 50_000
    jobs = [{"name": f"l{i}", "id": f"l{i}", "tasks": [{"command": ["true", text]}]} for i in range(8)]
    for sent, kind in ((json.dumps(jobs), JSON), (json.dumps(jobs[:2]), YAML)):
        answer = await client.post(f"/v1/jobs?cell={cell.name}", content=sent, headers=dict(kind))
        assert answer.status_code == 201, answer.text[:400]
        assert len(answer.json()["jobs"]) == (8 if kind is JSON else 2)
    jobs[3]["tasks"] = [{"count": 0}]
    answer = await client.post(f"/v1/jobs?cell={cell.name}", json=jobs)
    assert answer.json()["detail"] == "body: [3].tasks[0].count: 0 is not allowed; want at least 1"
    assert text in json.dumps(cell.jobs.specs(["l7"])["l7"]), "as it was sent"


@pytest.mark.chaos
async def test_a_text_that_takes_too_long_ends_its_process_alone(
    client: httpx.AsyncClient, cell: RedisCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "\n".join(f"a{i}: {{}}" for i in range(60_000))
    monkeypatch.setattr(reading, "PROCESS_SECONDS", 0.2)
    answer = await client.post(f"/v1/pool-file/plan?cell={cell.name}", content=body, headers=YAML)
    assert answer.status_code == 413
    assert "takes too long to read" in answer.json()["detail"]
    monkeypatch.setattr(reading, "PROCESS_SECONDS", 60.0)
    answer = await client.post(f"/v1/pool-file/plan?cell={cell.name}", content=body[: 64 << 10], headers=YAML)
    assert answer.status_code == 422, "another process reads the next text"


async def test_a_text_that_needs_too_much_memory_ends_its_process_alone(
    client: httpx.AsyncClient, cell: RedisCell
) -> None:
    body = '{"a": [' + "{}," * (5 * MIB // 3) + "1], " + ",".join(f'"{i}": []' for i in range(200_000)) + "}"
    for _ in range(2):
        answer = await client.post(f"/v1/pool-file/plan?cell={cell.name}", content=body, headers=JSON)
        assert answer.status_code in (413, 422)
    answer = await client.get("/v1/cells")
    assert answer.status_code == 200


def test_what_a_process_found_arrives_as_it_was() -> None:
    value = {"a": [1 << 70, -(1 << 70), 1.5, float("inf"), "\ud800é", None, True, {"": []}]}
    assert reading._received(reading._sent("body", value)) == value
    with pytest.raises(BadInput, match="more than 500,000 values"):
        reading._sent("body", [[0]] * 300_000)


@pytest.mark.parametrize(
    "request_of",
    [
        ("GET", "/v1/jobs?cell=a&limit=1", {}),
        ("DELETE", "/v1/pools/x?cell=a", {"If-Match": "1"}),
        ("GET", "/v1/openapi.json", {}),
        ("PUT", "/v1/jobs", {}),
    ],
    ids=["a query", "a condition", "the document", "another method"],
)
async def test_the_document_of_the_api_is_not_made_on_the_loop(
    cell: RedisCell, monkeypatch: pytest.MonkeyPatch, request_of: tuple[str, str, Mapping[str, str]]
) -> None:
    """It takes 150 ms of processor time."""
    threads = list[threading.Thread]()

    def counted(made: dict[str, Any]) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return described(made)

    monkeypatch.setattr("omega.web.app.described", counted)
    method, path, headers = request_of
    async with visit(Service(cell.url)) as client, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(partial(client.request, method, path, headers=dict(headers)))
    assert len(threads) == 1
    assert threading.main_thread() not in threads

"""The pages of a cell, its jobs and its machines, on the application itself with a filled cell."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from omega.client.client import Client
from omega.web.access.roles import Role
from omega.web.service import Service
from tests.browser.demo_cell import MARKUP, fill
from tests.web.visiting import visit

CELL = "console-pages"
AT = f"/cells/{CELL}"
PAGES = ("/", "/jobs", "/jobs?state=failed&sort=name&limit=200&pick=1", "/machines", "/machines?group=zone&color=cpu",
         "/machines?level=d", "/machines/node-00007", "/card?machine=7")  # a table # fmt: skip


@pytest.fixture(scope="module")
def url(store_url: str) -> Iterator[str]:
    demo = fill(store_url, CELL)
    yield store_url
    demo.cell.delete()


@asynccontextmanager
async def visitor(url: str, role: Role = "operator") -> AsyncIterator[httpx.AsyncClient]:
    async with visit(Service(url), role) as client:
        yield client


async def _page(client: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await client.get(AT + path)
    assert answer.status_code == status, answer.text
    return answer.text


@pytest.mark.anyio
@pytest.mark.parametrize("path", PAGES)
async def test_pages_show_hostile_names_as_text_and_need_no_inline_code(url: str, path: str) -> None:
    async with visitor(url) as client:
        html = await _page(client, path)
    assert MARKUP not in html
    assert not re.search(r"<[^>]*\s(?:on\w+|style)=", html)
    assert html.count("<script") == (0 if "card" in path else 1)
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(ids) == len(set(ids))


@pytest.mark.anyio
@pytest.mark.parametrize("path", PAGES[:-1])
async def test_pages_end_with_their_command_and_address(url: str, path: str) -> None:
    async with visitor(url) as client:
        html = await _page(client, path)
    assert re.search(rf"<code>omega [a-z]+ [a-z]+ --json[^<]* --cell {CELL}</code>", html)
    assert re.search(r'<a href="/v1/[a-z]+[^"]*cell=', html)


@pytest.mark.anyio
async def test_the_cell_counts_what_its_links_list(url: str) -> None:
    async with visitor(url) as client:
        html = await _page(client, "/")
        figures = dict(re.findall(r'<a href="([^"]*)"><b>([\d,]+)</b>', html))
        for state in ("running", "pending", "failed"):
            path = f"/jobs?state={state}"
            assert f"{figures[AT + path]} of {figures[AT + path]} jobs" in await _page(client, path)
        path = "/machines?state=up"
        assert f" of {figures[AT + path]} machines" in await _page(client, path)
        reasons = re.findall(r'<a href="[^"]*(/jobs\?reason=\w+)">([\d,]+)</a>', html)
        assert reasons
        for path, count in reasons:
            assert f"{count} of {count} jobs" in await _page(client, path)


@pytest.mark.anyio
async def test_levels_of_the_map_count_what_their_links_list(url: str) -> None:
    async with visitor(url) as client:
        html = await _page(client, "/machines")
        levels = re.findall(r'<a href="([^"]*level=\w)#list">.*?<b>([\d,]+)</b>', html)
        assert sum(int(count) for _, count in levels) == 201
        for path, count in levels:
            shown = await client.get(path.replace("&amp;", "&"))
            assert f"of {count} machines" in shown.text or (count == "0" and "No machine is listed" in shown.text)


@pytest.mark.anyio
async def test_pages_of_jobs_follow_one_another(url: str) -> None:
    async with visitor(url) as client:
        seen: list[str] = []
        path = f"{AT}/jobs?limit=5&sort=name"
        while path:
            html = (await client.get(path)).text
            seen += re.findall(r'<tr data-key="([^"]*)"', html)
            following = re.search(r'<a href="([^"]*)" rel="next">', html)
            path = following[1].replace("&amp;", "&") if following else ""
        assert len(seen) == 18
        assert seen == sorted(seen)


@pytest.mark.anyio
async def test_many_jobs_are_held_released_and_stopped(url: str) -> None:
    client = Client(url, CELL, user="ada")
    ids = [f"many-{i}" for i in range(300)]
    client.submit(*({"id": each, "name": each, "tasks": [{"count": 1, "duration": "1h"}]} for each in ids), hold=True)
    async with visitor(url) as browser:
        here = f"{AT}/jobs?name=many"
        form: dict[str, object] = {"job": ids, "here": here}
        answer = await browser.post(f"{AT}/jobs/change", data=form | {"do": "release"})
        assert (answer.status_code, answer.headers["location"]) == (303, here)
        assert client.status(ids[7])["state"] == "pending"
        await browser.post(f"{AT}/jobs/change", data=form | {"do": "hold"})
        assert client.status(ids[299])["state"] == "held"
        sure = await browser.post(f"{AT}/jobs/change", data=form | {"do": "stop"})
        assert sure.status_code == 200
        assert "Stop 300 jobs?" in sure.text
        assert client.status(ids[0])["state"] == "held"  # it asks first
        answer = await browser.post(f"{AT}/jobs/change", data=form | {"do": "stop", "sure": "1"})
        assert (await browser.get(answer.headers["location"])).text.count("300 jobs stopped.") == 1
        assert client.status(ids[0])["state"] == "stopped"


@pytest.mark.anyio
async def test_a_change_leads_back_to_pages_of_the_cell_only(url: str) -> None:
    async with visitor(url) as browser:
        for here in ("https://example.com/", f"//x{AT}/jobs", "/cells/other/jobs"):
            answer = await browser.post(f"{AT}/jobs/change", data={"do": "hold", "here": here})
            assert answer.headers["location"] == f"{AT}/jobs"
            assert "No job is selected." in (await browser.get(f"{AT}/jobs")).text


@pytest.mark.anyio
async def test_machines_are_drained_and_marked(url: str) -> None:
    client = Client(url, CELL)
    async with visitor(url) as browser:
        change = f"{AT}/machines/change"
        await browser.post(change, data={"do": "drain", "machine": ["node-00180", "node-00181"], "deadline": "5m"})
        assert client.machine("node-00181")["state"] == "drained"
        answer = await browser.post(change, data={"do": "down", "machine": "node-00181"})
        assert answer.headers["location"] == f"{AT}/machines/node-00181"
        assert "confirm" in (await browser.get(answer.headers["location"])).text
        assert client.machine("node-00181")["state"] == "drained"
        await browser.post(change, data={"do": "down", "machine": "node-00181", "sure": "1"})
        assert client.machine("node-00181")["state"] == "down"
        await browser.post(change, data={"do": "up", "machine": ["node-00180", "node-00181"]})
        assert [client.machine(f"node-0018{i}")["state"] for i in (0, 1)] == ["up", "up"]
        for data in (
            {"do": "drain", "machine": "node-00180", "deadline": "soon"},
            {"do": "eat", "machine": "node-00180"},
        ):
            await browser.post(change, data=data)
            assert 'class="message error"' in (await browser.get(f"{AT}/machines/node-00180")).text


@pytest.mark.anyio
async def test_a_reader_sees_no_forms_and_changes_nothing(url: str) -> None:
    async with visitor(url, "reader") as browser:
        assert "Stop…" not in await _page(browser, "/jobs")
        assert "Drain" not in await _page(browser, "/machines/node-00003")
        for path, data in (
            ("/jobs/change", {"do": "hold", "job": "train"}),
            ("/machines/change", {"do": "drain", "machine": "node-00003"}),
        ):
            assert (await browser.post(AT + path, data=data)).status_code == 403
    assert Client(url, CELL).machine("node-00003")["state"] == "up"


@pytest.mark.anyio
async def test_what_is_not_there_has_a_page_that_says_so(url: str) -> None:
    async with visitor(url) as browser:
        for path in (f"{AT}/machines/none", "/cells/none/", "/cells/none/jobs"):
            answer = await browser.get(path)
            assert answer.status_code == 404
            assert "<h1>Not found</h1>" in answer.text
        assert (await browser.get(f"{AT}/jobs?sort=luck")).status_code == 422
        assert f'href="{AT}/"' in (await browser.get("/?cells=all")).text


@pytest.mark.anyio
async def test_a_machine_with_a_slash_in_its_name_has_a_page(url: str) -> None:
    Client(url, CELL).add_machines("row-1/node-1", resources={"cpu": "1", "memory": "1Gi"}, executor="demo")
    async with visitor(url) as browser:
        assert "<h1><bdi>row-1/node-1</bdi></h1>" in await _page(browser, "/machines/row-1%2Fnode-1")
    Client(url, CELL).remove("row-1/node-1")

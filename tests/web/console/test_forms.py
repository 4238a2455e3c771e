"""Forms and links of pages: whoever sees one may use it; commands that a page prints are safe to paste."""

import html
import re
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import anyio
import httpx
import pytest

from omega.web.access.roles import ROLES, Role
from omega.web.service import Service
from tests.browser.demo_cell import fill
from tests.web.console.pages import LOADING
from tests.web.visiting import visit

CELL = "console-forms"
AT = f"/cells/{CELL}"
PAGES = (
    "/", "/jobs", "/jobs/train", "/jobs/train/file", "/jobs/train/change?action=hold", "/jobs/extract/file",
    "/machines", "/machines/node-00007", "/machines/node-00149", "/schedulers", "/pools", "/pools/change",
    "/plan?example=1", "/events",
)  # fmt: skip
HOSTILE = "$(touch x)`id`;'\""
pytestmark = [pytest.mark.server, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def url(store_url: str) -> Iterator[str]:
    demo = fill(store_url, CELL)
    yield store_url
    demo.cell.delete()


class Controls(HTMLParser):
    """The forms of a page with their fields and buttons, and the links to changes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str], list[dict[str, str]]]] = []
        self.links: list[str] = []
        self._text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._text = ""
        if tag == "form" and given.get("method") == "post":
            self.forms.append((given["action"], {}, []))
        elif tag == "a" and "/change" in given.get("href", ""):
            self.links.append(given["href"])
        elif self.forms and tag in ("input", "textarea", "button") and given.get("name"):
            _, fields, buttons = self.forms[-1]
            if tag == "button":
                buttons.append({given["name"]: given.get("value", "")})
            else:
                fields.setdefault(given["name"], given.get("value", ""))
                self._text = given["name"] if tag == "textarea" else ""

    def handle_data(self, data: str) -> None:
        if self._text:
            self.forms[-1][1][self._text] += data

    def handle_endtag(self, tag: str) -> None:
        if self._text:  # a line end at the beginning does not count
            self.forms[-1][1][self._text] = self.forms[-1][1][self._text].removeprefix("\n")
            self._text = ""


async def send(client: httpx.AsyncClient, path: str, fields: dict[str, str]) -> httpx.Response:
    return await client.post(path, data=fields, headers={"Content-Type": "application/x-www-form-urlencoded"})


async def load(client: httpx.AsyncClient) -> None:
    """Wait until the cell was read for the first time."""
    with anyio.fail_after(20.0):
        while LOADING in (await client.get(AT)).text:  # noqa: ASYNC110 - the page is what an outsider has
            await anyio.sleep(0.05)


@pytest.mark.parametrize("role", ROLES)
async def test_whoever_sees_a_form_may_send_it(url: str, role: Role) -> None:
    sent = set[str]()
    async with visit(Service(url), role) as client:
        await load(client)
        for path in PAGES:
            answer = await client.get(AT + path)
            assert LOADING not in answer.text, "once read, it stays so, whatever is changed"
            if "/change?" in path and role == "reader":
                assert answer.status_code == 403
                continue
            assert answer.status_code == 200, path
            controls = Controls(answer.text)
            for link in controls.links:
                assert (await client.get(link, follow_redirects=True)).status_code in (200, 409), (path, link)
            for action, fields, buttons in controls.forms:
                for pressed in buttons or [{}]:
                    fields |= {"force": ""}
                    answer = await send(client, action, fields | pressed)
                    assert answer.status_code in (200, 303, 409, 422), (path, action, pressed, answer.text)
                    sent.add(f"{action.removeprefix(AT)} {''.join(pressed.values())}".strip())
    wanted = {"/plan plan", "/pools/change plan"}
    wanted |= {"/plan submit", "/jobs/change hold", "/jobs/train/change plan"} if role != "reader" else set()
    wanted |= {"/machines/change drain"} if role == "operator" else set()
    assert wanted <= sent
    assert role != "reader" or not {each for each in sent if not each.endswith("plan")}


async def test_a_reader_plans_and_does_not_submit(url: str) -> None:
    form = {"text": "name: never\ntasks: [{}]\n"}
    async with visit(Service(url), "reader") as client:
        planned = await send(client, f"{AT}/plan", {**form, "step": "plan"})
        assert (planned.status_code, "would be placed" in planned.text) == (200, True)
        refused = await send(client, f"{AT}/plan", {**form, "step": "submit"})
        assert (refused.status_code, "needs the role submitter" in refused.text) == (403, True)
        assert (await client.get(f"/v1/jobs/never?cell={CELL}")).status_code == 404
        assert (await client.post(f"/v1/cell/verify?cell={CELL}")).status_code == 200


async def test_commands_of_pages_are_quoted(url: str) -> None:
    words = dict.fromkeys(
        ("state", "kind", "user", "name", "pool", "reason", "job", "group", "color", "loser"), HOSTILE
    )
    seen = 0
    async with visit(Service(url)) as client:
        await client.post(f"/v1/jobs?cell={CELL}&hold=true", json={"name": "it's", "id": "its", "tasks": [{}]})
        for path in (*PAGES, "/jobs/its", "/jobs/its/logs"):
            for query in ({}, words):
                answer = await client.get(AT + path.partition("?")[0], params=query, follow_redirects=True)
                for command in commands(answer.text):
                    assert not re.search(r"\$\(|`|;", unquoted(command)), (path, command)
                    seen += HOSTILE in shlex.split(command)
        ids = ["a b", HOSTILE]
        confirm = await client.post(f"{AT}/jobs/change", data={"do": "stop", "job": ids})
        (command,) = commands(confirm.text)
        assert shlex.split(command)[4:6] == ids
        assert 'data-cell=""' in confirm.text, "the address of the answer to a form is another page's"
    assert seen >= 2


def commands(page: str) -> list[str]:
    """Return the commands in the footer of a page."""
    found = re.findall(r"<code>(omega [^<]*)</code>", page.partition("<footer>")[2])
    return [html.unescape(each) for each in found]


def unquoted(command: str) -> str:
    """Return what a shell reads outside of single and double quotes."""
    return re.sub(r"'[^']*'|\"'\"", "", command)


async def test_attribute_names_do_not_turn_their_values(url: str) -> None:
    attributes: dict[str, Any] = {"\u05d0\u05d1": "right", "left": "\u05d2"}
    async with visit(Service(url)) as client:
        changed = await client.post(f"/v1/machines/node-00009/set?cell={CELL}", json={"attributes": attributes})
        assert changed.status_code == 200, changed.text
        for path in ("/machines/node-00009", "/machines?group=left&value=\u05d2"):
            page = (await client.get(AT + path)).text
            for name, value in attributes.items():
                assert f"<bdi>{name}</bdi>=<bdi>{value}</bdi>" in page, path

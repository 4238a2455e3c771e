"""A form that is refused is shown again with what it had, without JavaScript: every form of the console."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from omega.web.access.roles import Role
from omega.web.service import Service
from tests.web.console.test_forms import AT, PAGES, Controls, url
from tests.web.visiting import token_of, visit

__all__ = ["url"]
pytestmark = [pytest.mark.server, pytest.mark.anyio]
BROWSER = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
LINE = ' & "more" <b>=\u2003'
TYPED = f"\ntwo lines\n{LINE}"
Form = tuple[str, dict[str, str]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def browser(url: str, role: Role) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without JavaScript, in a session."""
    async with visit(Service(url), None) as client:
        client.headers.update(BROWSER)
        await client.get("/", params={"token": token_of(role)})
        yield client


async def filled(client: httpx.AsyncClient) -> list[Form]:
    """The forms of all pages by each of their buttons, with something in all their fields."""
    found = dict[tuple[str, str, str], Form]()
    for path in PAGES:
        for action, fields, buttons in Controls((await client.get(AT + path)).text).forms:
            if action == "/logout":
                continue
            ends = {"job": "train", "machine": "node-00007"} if action.endswith("s/change") else {}
            hidden = {name: fields[name] for name in ("csrf", "action", "check", "version", "pool") if name in fields}
            typed = {name: TYPED if name == "text" else LINE for name in [*fields, "more"] if name not in hidden}
            for pressed in buttons or [{}]:
                key = action, str(pressed), " ".join(fields)
                found[key] = action, typed | hidden | ends | pressed
    assert len(found) >= 10
    return list(found.values())


def kept(answer: httpx.Response, action: str) -> dict[str, str]:
    """The fields of the form of a page that is sent to `action` and has most of them."""
    forms = [fields for to, fields, _ in Controls(answer.text).forms if to == action]
    assert forms, (action, answer.status_code, answer.text)
    return max(forms, key=len)


def without_csrf(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name != "csrf"}


async def test_a_form_whose_session_ended_is_shown_again_after_signing_in(url: str) -> None:
    async with browser(url, "operator") as client:
        forms = await filled(client)
        for action, fields in forms:
            client.cookies.clear()
            refused = await client.post(action, data=fields)
            assert refused.status_code == 401
            wrong = await client.post("/login", data=kept(refused, "/login") | {"token": "wrong"})
            assert "not valid" in wrong.text
            shown = await client.post("/login", data=kept(wrong, "/login") | {"token": token_of("operator")})
            again = kept(shown, action)
            assert without_csrf(again) == without_csrf(fields), action
            assert again["csrf"] not in ("", fields["csrf"])
            sent = await client.post(action, data=again)
            assert "belongs to another login" not in sent.text


async def test_a_form_of_another_session_is_shown_again(url: str) -> None:
    async with browser(url, "operator") as client:
        for action, fields in await filled(client):
            refused = await client.post(action, data=fields | {"csrf": "0" * 64})
            assert refused.status_code == 403
            assert kept(refused, action) == fields, action


async def test_a_form_of_a_page_of_another_site_is_not_shown_again(url: str) -> None:
    async with browser(url, "operator") as client:
        action, fields = next(each for each in await filled(client) if "text" in each[1])
        for site in ("cross-site", "same-site", "none", ""):
            client.headers["Sec-Fetch-Site"] = site
            for cookies in (True, False):
                if not cookies:
                    client.cookies.clear()
                refused = await client.post(action, data=fields | {"csrf": "0" * 64})
                assert refused.status_code in (401, 403)
                assert "two lines" not in refused.text, (site, cookies)
            client.headers["Sec-Fetch-Site"] = "same-origin"
            await client.get("/", params={"token": token_of("operator")})


async def test_a_form_that_a_role_may_not_send_is_shown_again(url: str) -> None:
    async with browser(url, "operator") as client:
        forms = await filled(client)
    async with browser(url, "reader") as client:
        csrf = Controls((await client.get(f"{AT}/jobs")).text).forms[0][1]["csrf"]
        refused = 0
        for action, fields in forms:
            answer = await client.post(action, data=fields | {"csrf": csrf})
            if answer.status_code == 403:
                assert without_csrf(kept(answer, action)) == without_csrf(fields), action
                refused += 1
        assert refused > 5


INVALID: list[tuple[str, dict[str, str]]] = [
    ("/plan", {"step": "plan", "text": TYPED}),
    ("/plan", {"step": "submit", "text": TYPED}),
    ("/pools/change", {"step": "plan", "version": "0", "pool": "", "new": LINE, "weight:": LINE}),
    ("/pools/change", {"step": "make", "version": "0", "pool": "", "new": LINE, "weight:": LINE}),
    ("/jobs/change", {"do": "hold", "job": LINE}),
    ("/jobs/change", {"do": "stop", "sure": "1", "job": LINE}),
    ("/machines/change", {"do": "drain", "deadline": LINE, "machine": "node-00007"}),
    ("/machines/change", {"do": "down", "machine": "node-00007"}),
    ("/machines/change", {"do": "up", "machine": LINE}),
    ("/jobs/train/change", {"action": "update", "step": "plan", "text": TYPED}),
    ("/jobs/train/change", {"action": "update", "step": "make", "check": "0", "text": TYPED}),
    ("/jobs/train/change", {"action": "resize", "check": "0", "count": LINE}),
    ("/jobs/train/change", {"action": "weight", "check": "0", "weight": LINE}),
    ("/jobs/train/change", {"action": "rerun", "check": "0", "tasks": LINE, "group": LINE}),
    ("/jobs/train/change", {"action": "revert", "check": "0", "to": LINE}),
]
OWN = ("step", "version", "check", "action", "do", "sure")
"""Fields that were not typed."""


async def test_a_form_that_the_cell_refuses_is_shown_again(url: str) -> None:
    async with browser(url, "operator") as client:
        csrf = Controls((await client.get(f"{AT}/jobs")).text).forms[0][1]["csrf"]
        for action, fields in INVALID:
            refused = await client.post(AT + action, data=fields | {"csrf": csrf})
            assert refused.status_code in (404, 409, 422), (action, fields, refused.status_code)
            typed = {name: value for name, value in fields.items() if value and name not in OWN}
            assert typed.items() <= everywhere(refused).items(), (action, fields)
        every = {(action, fields.get("action")) for action, fields in await filled(client)}
        assert {(action.removeprefix(AT), word) for action, word in every} <= {
            (action, fields.get("action")) for action, fields in INVALID
        } | {(f"/jobs/{job}/change", word) for job in ("train", "extract") for word in ("hold", "update")}


def everywhere(answer: httpx.Response) -> dict[str, str]:
    """All fields of the forms of a page, also of those that are sent by GET."""
    page = answer.text.replace('method="get"', 'method="post"')
    return {name: value for _, fields, _ in Controls(page).forms for name, value in fields.items() if value}

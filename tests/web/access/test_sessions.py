"""Sessions of browsers: how one begins, what it is worth elsewhere, and how it ends."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers

from omega.web.access import sessions
from omega.web.access.addresses import Addresses, Site
from omega.web.access.admissions import Access
from omega.web.access.sessions import Sessions
from omega.web.access.tokens import Tokens, append_line, digest, token_line, write_private
from tests.web.access.probe import client
from tests.web.visiting import HOST, URL, token_of, tokens

pytestmark = pytest.mark.anyio
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PAGE = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    async with client(Access(tokens(), Addresses(public=("https://omega.example",)))) as it:
        yield it


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/?token={}", "/"),
        ("/cells/a/jobs?state=failed&token={}&x=1", "/cells/a/jobs?state=failed&x=1"),
        ("/?token={}&token=other", "/"),
        ("//evil.example/?token={}", "/evil.example/"),
        ("/%5Cevil.example?token={}", "/%5Cevil.example"),
        ("/a%0d%0aSet-Cookie:x?token={}", "/a%0D%0ASet-Cookie%3Ax"),
        ("/cells/%C3%A9%20b?token={}", "/cells/%C3%A9%20b"),
        ("/login?next=/cells/a&token={}", "/cells/a"),
        ("/login?next=//evil.example&token={}", "/"),
        ("/login?next=https://evil.example&token={}", "/"),
        ("/login?next=/%5C%5Cevil.example&token={}", "/"),
    ],
)  # fmt: skip
async def test_the_token_of_an_address_becomes_a_cookie_and_is_gone(
    browser: httpx.AsyncClient, path: str, location: str
) -> None:
    answer = await browser.get(URL + path.format(token_of("operator")))
    assert (answer.status_code, answer.headers["location"]) == (303, location)
    assert token_of("operator") not in str(answer.headers)
    assert answer.headers["referrer-policy"] == "no-referrer"
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert name == "omega-7070"
    assert rest.partition("; ")[2] == "Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"
    assert (await browser.get("/v1/who")).json()["role"] == "operator"


async def test_with_tls_the_cookie_is_secure_and_of_this_host_alone(browser: httpx.AsyncClient) -> None:
    answer = await browser.get(f"/?token={token_of('reader')}", headers={"Host": "omega.example"})
    assert answer.headers["set-cookie"].startswith("__Host-omega-443=")
    assert answer.headers["set-cookie"].endswith("; Secure")


async def test_a_token_in_an_address_counts_for_pages_alone(browser: httpx.AsyncClient) -> None:
    assert (await browser.get(f"/v1/who?token={token_of('operator')}")).status_code == 401
    assert (await browser.post(f"/?token={token_of('operator')}")).status_code == 401
    assert not browser.cookies


async def test_a_request_with_the_cookie_of_a_session_that_ended_says_so(browser: httpx.AsyncClient) -> None:
    refused = await browser.get("/v1/who", headers={"Cookie": "omega-7070=ended"})
    assert refused.status_code == 401
    assert refused.json()["detail"] == "the session has ended, or its token was revoked; log in again"
    assert "Authorization: Bearer" in (await browser.get("/v1/who")).json()["detail"]


async def test_a_wrong_token_leads_to_the_login_page(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/cells/a?token=wrong")
    assert answer.headers["location"] == "/login?next=%2Fcells%2Fa&failed=1"
    page = await browser.get(answer.headers["location"])
    assert "This token is not valid" in page.text
    assert 'value="/cells/a"' in page.text
    assert not browser.cookies


async def test_a_link_of_another_site_logs_nobody_in(browser: httpx.AsyncClient) -> None:
    for site in ("cross-site", "same-site"):
        sent = {"Sec-Fetch-Site": site}
        assert (await browser.get(f"/?token={token_of('operator')}", headers=sent)).status_code == 403
        form = await browser.post("/login", headers=FORM | sent, content=f"token={token_of('operator')}")
        assert form.status_code == 403
    form = await browser.post("/login", headers=FORM | {"Origin": "http://evil.example"}, content="token=x")
    assert form.status_code == 403
    assert not browser.cookies


async def test_people_without_a_session_see_the_login_page(browser: httpx.AsyncClient) -> None:
    answer = await browser.get('/cells/a/"><script>?q=<b>&token=', headers=PAGE)
    answer = answer if answer.status_code == 401 else await browser.get('/cells/a/"><script>?q=<b>', headers=PAGE)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert answer.text.count("<script") == answer.text.count('<script src="/static/console.js') == 1
    assert "<b>" not in answer.text
    assert 'href="/cells/a/%22%3E%3Cscript%3E?q=%3Cb%3E"' in answer.text
    assert (await browser.get("/v1/who", headers=PAGE)).headers["content-type"] == "application/problem+json"


async def test_a_login_by_form_leads_back(browser: httpx.AsyncClient) -> None:
    body = f"token={token_of('submitter')}&next=%2Fcells%2Fa%2Fjobs%3Fstate%3Dfailed"
    answer = await browser.post("/login", headers=FORM | {"Origin": "null"}, content=body)
    assert (answer.status_code, answer.headers["location"]) == (303, "/cells/a/jobs?state=failed")
    assert (await browser.get("/v1/who")).json()["role"] == "submitter"


async def test_a_cookie_of_another_port_name_or_process_is_worth_nothing(browser: httpx.AsyncClient) -> None:
    await browser.get(f"/?token={token_of('operator')}")
    value = browser.cookies["omega-7070"]
    flipped = value[:-1] + ("0" if value[-1] != "0" else "1")
    known, began, name, signature = value.rsplit(".", 3)
    forged = [
        ("omega-8080", value, HOST), ("omega", value, HOST), ("omega-7070", flipped, HOST), ("omega-7070", "", HOST),
        ("omega-7070", f'"{value}"', HOST), ("omega-8080", value, "127.0.0.1:8080"),
        ("__Host-omega-443", value, "omega.example"),
        ("omega-7070", f"{known}.{int(began) + 1}.{name}.{signature}", HOST),
        ("omega-7070", Sessions().begin(known, "omega-7070"), HOST),
        ("omega-7070", f"{value}; omega-7070={value}", HOST),
    ]  # fmt: skip
    async with client(Access(tokens(), Addresses(public=("https://omega.example",)))) as other:
        assert (await other.get("/v1/who", headers={"Cookie": f"omega-7070={value}"})).status_code == 401
    browser.cookies.clear()
    assert (await browser.get("/v1/who", headers={"Cookie": f"omega-7070={value}"})).status_code == 200
    assert (await browser.get("/v1/who", headers={"Cookie": f"omega-8080=x; omega-7070={value}"})).status_code == 200
    for cookie, text, host in forged:
        answer = await browser.get("/v1/who", headers={"Cookie": f"{cookie}={text}", "Host": host})
        assert answer.status_code == 401, (cookie, text)


async def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    append_line(file, token_line("one", "eve", "operator"))
    async with client(Access(Tokens(file))) as it:
        await it.get("/?token=one")
        assert (await it.get("/v1/who")).json()["role"] == "operator"
        write_private(file, token_line("one", "eve", "reader") + "\n")
        assert (await it.get("/v1/who")).json()["role"] == "reader"
        write_private(file, "")
        assert (await it.get("/v1/who")).status_code == 401


async def test_a_session_expires(browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await browser.get(f"/?token={token_of('operator')}")
    now = sessions._now()
    monkeypatch.setattr(sessions, "_now", lambda: now + sessions.LIFETIME_SECONDS)
    assert (await browser.get("/v1/who")).status_code == 200
    monkeypatch.setattr(sessions, "_now", lambda: now + sessions.LIFETIME_SECONDS + 2)
    assert (await browser.get("/v1/who")).status_code == 401
    monkeypatch.setattr(sessions, "_now", lambda: now - 1_000)
    assert (await browser.get("/v1/who")).status_code == 401, "a session of the future is forged"


async def test_logging_out_ends_the_session_also_for_a_copy_of_its_cookie(browser: httpx.AsyncClient) -> None:
    await browser.get(f"/?token={token_of('operator')}")
    copy = {"Cookie": f"omega-7070={browser.cookies['omega-7070']}"}
    csrf = (await browser.get("/v1/who")).json()["csrf"]
    assert (await browser.post("/logout", headers=FORM)).status_code == 403
    assert (
        await browser.post("/logout", headers=FORM | {"Sec-Fetch-Site": "same-site"}, content=f"csrf={csrf}")
    ).status_code == 403
    assert (await browser.get("/logout")).status_code == 404
    answer = await browser.post("/logout", headers=FORM, content=f"csrf={csrf}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert not browser.cookies
    assert (await browser.get("/v1/who", headers=copy)).status_code == 401


def test_ended_sessions_cost_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_ENDED", 3)
    made = Sessions()
    for _ in range(5):
        found = made.read(made.begin("sha256:" + "0" * 64, "c"), "c")
        assert found is not None
        made.end(found)
        assert not made.lives(found)
    assert len(made._ended) == 3


def test_no_secret_is_the_same_as_an_empty_one() -> None:
    assert not Sessions.same("", "")
    assert not Sessions.same("x", "")
    assert not Sessions.same("\udcff", "x")
    assert Sessions.same("x", "x")


def test_a_session_that_was_ended_revokes_what_it_has_open() -> None:
    access, site = Access(tokens()), Site(URL, 7070, secure=False)
    value = access.sessions.begin(digest(token_of("reader")), "omega-7070")
    sent = Headers({"cookie": f"omega-7070={value}"})
    admitted, session = access.admit(sent, None, site), access.session(sent, site)
    assert admitted is not None
    assert session is not None
    assert admitted.revoked() == ""
    access.sessions.end(session)
    assert "was revoked" in admitted.revoked()

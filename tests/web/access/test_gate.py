"""The gate: who passes it, and what other sites, other ports and other computers try in vain."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from omega.web.access.addresses import Addresses, Proxy
from omega.web.access.admissions import Access
from omega.web.access.exchange import HEADERS
from omega.web.access.roles import ROLES
from tests.web.access.probe import client, exchange, probe
from tests.web.visiting import HOST, URL, headers, token_of, tokens

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """A browser with the session of a submitter."""
    async with client() as it:
        answer = await it.get(f"/cells/a/who?token={token_of('submitter')}")
        assert answer.status_code == 303
        yield it


async def csrf_of(browser: httpx.AsyncClient) -> str:
    return str((await browser.get("/cells/a/who")).json()["csrf"])


@pytest.mark.parametrize("path", ["/", "/v1/who", "/v1/openapi.json", "/cells/a/who", "/metrics", "/nothing", "/docs"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE", "BREW"])
async def test_nothing_is_open_without_a_token(path: str, method: str) -> None:
    async with client() as nobody:
        answer = await nobody.request(method, path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../v1/who", "/static/./../v1/who", "//v1/who", "/static//../v1/who", "/V1/who", "/v1/who/", "/v1;/who",
        "http://127.0.0.1:7070/static/", "static/x.css", "/login/", "/login/../v1/who", "/STATIC/x.css",
    ],
)  # fmt: skip
async def test_no_spelling_of_a_path_passes_without_a_token(path: str) -> None:
    """The gate sees the path as the application does: decoded, and as it was sent."""
    sent = await exchange(probe(Access(tokens())), "GET", path)
    assert sent[0]["status"] == 401


async def test_the_files_of_the_login_page_are_open_for_reading_alone() -> None:
    async with client() as nobody:
        assert (await nobody.get("/static/x.css?v=1")).headers["cache-control"] == "public, max-age=31536000, immutable"
        assert (await nobody.get("/static/x.css")).headers["cache-control"] == "no-cache"
        assert (await nobody.post("/static/x.css")).status_code == 401


@pytest.mark.parametrize(
    "said",
    [
        "Bearer wrong", "Bearer ", "Bearer", "Basic b3BlcmF0b3I6eA==", "token-of-the-operator",
        "Bearer token-of-the-operato", "Bearer token-of-the-operator x", "Token token-of-the-operator",
        f"Bearer {'x' * 100_000}",
    ],
)  # fmt: skip
async def test_a_wrong_token_is_refused(said: str) -> None:
    async with client() as it:
        answer = await it.get("/v1/who", headers={"Authorization": said})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')


async def test_a_wrong_token_is_not_replaced_by_a_cookie(browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/v1/who", headers={"Authorization": "Bearer wrong"})).status_code == 401


async def test_two_tokens_are_none() -> None:
    both = {"Authorization": f"Bearer {token_of('reader')}", "authorization": "Bearer x"}
    sent = await exchange(probe(Access(tokens())), "GET", "/v1/who", both)
    assert sent[0]["status"] == 401


async def test_roles_have_the_rights_of_those_below() -> None:
    allowed = {}
    for role in ROLES:
        async with client(sent=headers(role)) as it:
            answers = [await it.get("/v1/who"), await it.post("/v1/jobs"), await it.post("/v1/machines")]
            allowed[role] = [each.status_code for each in answers]
            if role == "reader":
                assert "needs the role submitter, and ada has the role reader" in answers[1].text
    assert allowed == {"reader": [200, 403, 403], "submitter": [200, 200, 403], "operator": [200, 200, 200]}


async def test_read_only_makes_everybody_a_reader() -> None:
    async with client(Access(tokens(), read_only=True), sent=headers("operator")) as it:
        assert (await it.get("/v1/who")).json()["role"] == "reader"
        assert (await it.post("/v1/jobs")).status_code == 403


# The address: DNS rebinding


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7070", "127.0.0.1.evil.example", "localhost.evil.example:7070", "127.0.0.2:7070",
     "localhost@evil.example", "", "[::2]", "127.0.0.1:7070/x", "0x7f000001:7070", "localhost.", "127.0.0.1:7070, x"],
)  # fmt: skip
async def test_a_request_for_another_host_is_refused_with_any_token(host: str) -> None:
    async with client(sent=headers("operator")) as it:
        answer = await it.get("/v1/who", headers={"Host": host})
    assert answer.status_code == 421
    assert "--public-url" in answer.json()["detail"]


@pytest.mark.parametrize("host", [HOST, "localhost:7070", "[::1]:7070", "127.0.0.1:8080", "LOCALHOST", "omega.example"])
async def test_the_servers_own_addresses_are_answered(host: str) -> None:
    access = Access(tokens(), Addresses(public=("https://omega.example",)))
    async with client(access, sent=headers("reader")) as it:
        assert (await it.get("/v1/who", headers={"Host": host})).status_code == 200


async def test_a_request_without_a_host_is_refused() -> None:
    app = probe(Access(tokens()))
    sent = await exchange(app, "GET", "/v1/who", {"Host": "evil.example", **headers("reader")})
    assert sent[0]["status"] == 421, "two hosts"


# Other sites


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:8080", "https://127.0.0.1:7070", "http://localhost:7070"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_another_origin_is_refused_with_any_credentials(
    browser: httpx.AsyncClient, origin: str, method: str
) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for sent in (asked, asked | headers("operator")):
        answer = await browser.request(method, "/v1/jobs", headers=sent)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_two_origins_are_refused() -> None:
    access = Access(tokens(), Addresses(listed=frozenset({"https://grafana.example"})))
    for origins in (("https://grafana.example", "http://evil.example"), (URL, "http://evil.example")):
        sent = headers("operator") | {"Origin": origins[0], "origin": origins[1]}
        assert (await exchange(probe(access), "POST", "/v1/jobs", sent))[0]["status"] == 403


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"Origin": "null"},
        {"Origin": URL},
        {"Sec-Fetch-Site": "same-origin"},
        {"Omega-CSRF": "0" * 64},
        {"Omega-CSRF": ""},
    ],
)
@pytest.mark.parametrize(
    "body", [b"", b"csrf=", b"csrf=" + b"0" * 64, b"csrf=a&csrf=b", b"x=csrf=1", b"xcsrf=1", b"csrf", b"CSRF=1"]
)
async def test_a_form_without_the_token_of_the_session_is_refused(
    browser: httpx.AsyncClient, sent: dict[str, str], body: bytes
) -> None:
    answer = await browser.post("/cells/a/jobs", headers={**FORM, **sent}, content=body)
    assert answer.status_code == 403
    assert "the form belongs to another login" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/json", ""])
async def test_the_token_of_a_form_counts_in_forms_alone(browser: httpx.AsyncClient, kind: str) -> None:
    csrf = await csrf_of(browser)
    answer = await browser.post("/cells/a/jobs", headers={"Content-Type": kind}, content=f"csrf={csrf}".encode())
    assert answer.status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_site_or_port_changes_nothing(browser: httpx.AsyncClient, site: str) -> None:
    """Another port of the same host is the same site: its requests bring the cookie."""
    csrf = await csrf_of(browser)
    form = {**FORM, "Sec-Fetch-Site": site, "Origin": "null"}
    assert (await browser.post("/cells/a/jobs", headers=form, content=f"csrf={csrf}")).status_code == 403
    assert (await browser.post("/v1/jobs", headers={"Sec-Fetch-Site": site}, content="{}")).status_code == 403


async def test_a_form_of_our_own_page_is_accepted_and_arrives_whole(browser: httpx.AsyncClient) -> None:
    """Under Referrer-Policy: no-referrer, browsers send Origin: null with it."""
    body = f"name=x&csrf={await csrf_of(browser)}"
    sent = {**FORM, "Origin": "null", "Sec-Fetch-Site": "same-origin"}
    answer = await browser.post("/cells/a/jobs", headers=sent, content=body)
    assert (answer.status_code, answer.json()) == (200, {"user": "ada", "size": len(body)})


async def test_a_script_of_our_own_page_sends_its_origin_or_the_token(browser: httpx.AsyncClient) -> None:
    assert (await browser.post("/v1/jobs", content="{}")).status_code == 403
    assert (await browser.post("/v1/jobs", headers={"Origin": "null"}, content="{}")).status_code == 403
    assert (await browser.post("/v1/jobs", headers={"Origin": URL}, content="{}")).status_code == 200
    csrf = {"Omega-CSRF": await csrf_of(browser)}
    assert (await browser.post("/v1/jobs", headers=csrf, content="{}")).status_code == 200
    assert (await browser.post("/cells/a/jobs", headers=csrf, content="{}")).status_code == 200


async def test_the_token_of_a_form_is_that_of_its_own_session(browser: httpx.AsyncClient) -> None:
    first = await csrf_of(browser)
    await browser.get(f"/?token={token_of('operator')}")
    assert (await browser.post("/cells/a/jobs", headers=FORM, content=f"csrf={first}")).status_code == 403


async def test_a_listed_site_uses_tokens_and_no_cookies(browser: httpx.AsyncClient) -> None:
    access = Access(tokens(), Addresses(listed=frozenset({"https://grafana.example"})))
    sent = {"Origin": "https://grafana.example"}
    async with client(access) as it:
        asked = {**sent, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        answer = await it.options("/v1/jobs", headers=asked)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, sent["Origin"])
        assert "access-control-allow-credentials" not in answer.headers
        assert (await it.get(f"/?token={token_of('operator')}")).status_code == 303
        assert (await it.get("/v1/who", headers=sent)).status_code == 401, "the cookie does not count"
        answer = await it.get("/v1/who", headers={**sent, **headers("reader")})
        assert (answer.status_code, answer.headers["vary"]) == (200, "Origin")


async def test_every_answer_has_the_headers(browser: httpx.AsyncClient) -> None:
    answers = [
        await browser.get("/v1/who"), await browser.get("/v1/wrong"), await browser.get("/nothing"),
        await browser.get("/v1/who", headers={"Host": "evil.example"}), await browser.get("/login"),
        await browser.post("/cells/a/jobs"), await browser.get("/static/x.css"),
    ]  # fmt: skip
    assert [each.status_code for each in answers] == [200, 500, 404, 421, 200, 403, 200]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in answer.headers
    assert answers[0].headers["cache-control"] == "no-store"


async def test_a_route_cannot_loosen_them() -> None:
    async with client(sent=headers("reader")) as it:
        answer = await it.get("/v1/lax")
    for name in ("content-security-policy", "x-frame-options"):
        assert answer.headers.get_list(name) == [HEADERS[name.encode()].decode()]
    assert answer.headers["cache-control"] == "private"


# Proxies


PROXY = Proxy.of("X-Remote-User", ["10.0.0.0/8"])


@pytest.mark.parametrize(
    ("peer", "user", "status"),
    [
        (("10.1.2.3", 4), "bob", 200),
        (("::ffff:10.1.2.3", 4), "bob", 200),
        (("127.0.0.1", 4), "bob", 401),
        (("11.1.2.3", 4), "bob", 401),
        (None, "bob", 401),
        (("10.1.2.3", 4), "", 401),
        (("10.1.2.3", 4), "bob smith", 401),
        (("10.1.2.3", 4), "bob\u00e9", 401),
        (("10.1.2.3", 4), "x" * 200, 401),
    ],
)
async def test_a_user_in_a_header_counts_from_listed_peers_alone(peer: Any, user: str, status: int) -> None:
    async with client(Access(tokens(), proxy=PROXY), peer=peer) as it:
        answer = await it.get("/v1/who", headers={b"X-Remote-User": user.encode("latin-1")})
    assert answer.status_code == status
    if status == 200:
        assert (answer.json()["user"], answer.json()["role"]) == ("bob", "reader")


async def test_a_header_that_is_there_twice_is_none() -> None:
    async with client(Access(tokens(), proxy=PROXY), peer=("10.0.0.1", 4)) as it:
        answer = await it.get("/v1/who", headers=[("X-Remote-User", "bob"), ("X-Remote-User", "root")])
    assert answer.status_code == 401


async def test_a_forwarded_address_is_not_the_peer() -> None:
    claims = {"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1", "X-Real-IP": "10.0.0.1"}
    async with client(Access(tokens(), proxy=PROXY)) as it:
        assert (await it.get("/v1/who", headers={"X-Remote-User": "bob", **claims})).status_code == 401


async def test_a_user_of_a_proxy_needs_the_token_of_forms_too() -> None:
    """The proxy's own cookie is sent by browsers as any other."""
    access = Access(tokens(), proxy=Proxy.of("X-Remote-User", ["unix"]))
    access.tokens.start = {
        **access.tokens.start,
        "user:bob": next(iter(access.tokens.start.values())).__class__("bob", "submitter"),
    }
    async with client(access, peer=None, sent={"X-Remote-User": "bob"}) as it:
        assert (await it.post("/v1/jobs")).status_code == 403
        assert (await it.post("/v1/jobs", headers={"Origin": URL})).status_code == 200
        csrf = (await it.get("/cells/a/who")).json()["csrf"]
        assert (await it.post("/cells/a/jobs", headers={"Omega-CSRF": csrf})).status_code == 200

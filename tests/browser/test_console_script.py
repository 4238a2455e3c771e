"""``console.js`` in a real browser, on pages that the test makes: what survives an update, streams, and bad days."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from fastapi.responses import Response
from playwright.sync_api import Browser, Page, expect

from omega.web.console.heat import drawing
from omega.web.console.render import Part, Rendered, fingerprint
from omega.web.service import Service
from omega.web.sse import EventStream, event, last_event
from tests.browser.conftest import SECONDS
from tests.web.fake_mirrors import FakeMirrors
from tests.web.serving import free_port
from tests.web.serving_app import serve
from tests.web.visiting import token_of

LOG = "<pre id='log' data-log='/log?x=1' tabindex=0></pre><p data-log-status='log'></p>"


class Site:
    """A server with one page, whose parts the test sets."""

    def __init__(self, app: Any, mirrors: FakeMirrors, port: int) -> None:
        self.app, self.mirrors, self.origin = app, mirrors, f"http://127.0.0.1:{port}"
        self.parts: dict[str, str] = {}
        self.outside = ""
        app.add_api_route("/cells/main/page", self._page)
        app.add_api_route("/log", self._log)
        self.log: list[bytes] = []

    def show(self, **parts: str) -> None:
        """Change parts, by a reading that says so."""
        self.parts |= parts
        self.mirrors.mirror.push(1, "jobs")

    async def _page(self, request: Request) -> Response:
        def render(_: Mapping[str, Any]) -> Rendered:
            parts = {name: Part(fingerprint(html), html) for name, html in self.parts.items()}
            sections = "".join(
                f'<div data-part="{name}" data-topics="jobs" data-hash="{part.hash}">{part.html}</div>'
                for name, part in parts.items()
            )
            head = "<!doctype html><title>Page</title><script src='/static/console.js' defer></script>"
            return Rendered(f"{head}<body data-cell='main'><main>{sections}{self.outside}</main>", parts)

        answer: Response = await self.app.state.pages.respond(request, self.mirrors.mirror, render)
        return answer

    async def _log(self, request: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes]:
            for piece in self.log:
                yield piece

        return EventStream(pieces(), request)

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not true() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert true()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    service, mirrors, port = Service("unix:///nowhere.sock", "main"), FakeMirrors(), free_port()
    service.mirrors = mirrors  # type: ignore[assignment]
    with serve(service, tmp_path, port=port) as (app, _):
        yield Site(app, mirrors, port)


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Callable[[], Page]]:
    context = browser.new_context(viewport={"width": 800, "height": 600})
    context.set_default_timeout(SECONDS * 1000)
    login = context.new_page()
    login.goto(f"{site.origin}/static/console.css?token={token_of('operator')}")
    login.close()

    def opened() -> Page:
        page = context.new_page()
        page.goto(f"{site.origin}/cells/main/page")
        return page

    yield opened
    context.close()


def _rows(*keys: str, text: str = "row") -> str:
    rows = "".join(f'<tr data-key="{key}"><td><input id="of-{key}"></td><td>{text} {key}</td></tr>' for key in keys)
    return f"<table><tbody>{rows}</tbody></table>"


def test_focus_values_details_and_scrolling_survive_an_update(site: Site, visit: Callable[[], Page]) -> None:
    more = "<details><summary>More</summary>open</details>"
    scroll = "<div id='box'>" + "<p>line</p>" * 50 + "</div>"
    site.parts = {"list": _rows("a", "b", "c") + more + scroll}
    page = visit()
    page.locator("#of-b").fill("typed")
    page.locator("summary").click()
    page.evaluate("(sheet => sheet.replaceSync('#box {height: 50px; overflow: auto}'))(window.s = new CSSStyleSheet())")
    page.evaluate("document.adoptedStyleSheets = [window.s]; box.scrollTop = 40")
    page.locator("#of-b").focus()
    page.evaluate("window.kept = document.getElementById('of-b')")
    site.show(list=_rows("new", "b", "c", "a", text="changed") + more + scroll.replace("line", "text"))
    expect(page.locator("tr")).to_have_text(["changed new", "changed b", "changed c", "changed a"])
    assert page.evaluate("document.activeElement === window.kept && window.kept.value === 'typed'")
    assert page.evaluate("document.querySelector('details').open && box.scrollTop === 40")


def test_a_selection_survives_an_update_beside_it(site: Site, visit: Callable[[], Page]) -> None:
    site.parts = {"list": "<p id='a'>some text</p><p id='b'>1</p>"}
    page = visit()
    page.evaluate("getSelection().setBaseAndExtent(a.firstChild, 1, a.firstChild, 6)")
    site.show(list="<p id='c'>new</p><p id='a'>some text</p><p id='b'>2</p>")
    expect(page.locator("#b")).to_have_text("2")
    assert page.evaluate("getSelection().toString()") == "ome t"
    site.show(list="<p id='a'>some words</p><p id='b'>3</p>")
    expect(page.locator("#b")).to_have_text("3")
    assert page.evaluate("getSelection().toString()") == "ome w"


def test_a_part_that_the_browser_does_not_have_as_the_server_thinks_is_sent_again(
    site: Site, visit: Callable[[], Page]
) -> None:
    site.parts = {"list": _rows("a", "b")}
    page = visit()
    page.evaluate("document.querySelector('tr').remove()")
    site.show(list=_rows("b", "a", "c"))
    expect(page.locator("tr")).to_have_text(["row b", "row a", "row c"])


def _map(levels: str) -> str:
    marks = f'data-key="m" data-levels="{levels}" data-machines="0-9,20-29" viewBox="-.07 -.5 10 2"'
    svg = f"<svg {marks}>{drawing(levels, 10)}</svg>"
    return f"<div class='heat' data-heat='/cells/main/'><a href='#'>r1</a>{svg}</div>"


def test_changed_squares_are_drawn_as_the_server_draws_them(site: Site, visit: Callable[[], Page]) -> None:
    site.parts = {"map": _map("0" * 20)}
    page = visit()
    page.evaluate("window.kept = document.querySelector('svg')")
    levels = "000011110000x0000055"
    site.show(map=_map(levels))
    expect(page.locator("svg")).to_have_attribute("data-levels", levels)
    drawn = page.evaluate("window.kept.innerHTML.replaceAll('></path>', '/>')")
    assert drawn == drawing(levels, 10)


def test_arrow_keys_move_over_the_squares_of_a_map(site: Site, visit: Callable[[], Page]) -> None:
    site.parts, site.outside = {"map": _map("0" * 20)}, "<p id='card'></p>"
    page = visit()
    page.route("**/card?machine=21", lambda route: route.fulfill(body="<b>machine 21</b>"))
    page.keyboard.press("Tab")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#card")).to_have_text("machine 21")
    page.route("**/machines/21", lambda route: route.fulfill(body="its page"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/cells/main/machines/21")


def test_ten_tabs_have_one_stream_and_hidden_ones_none(site: Site, visit: Callable[[], Page]) -> None:
    site.parts = {"list": _rows("a")}
    tabs = [visit() for _ in range(10)]
    site.until(lambda: bool(site.app.state.streams.number == 1))
    time.sleep(0.5)
    assert site.app.state.streams.number == 1
    site.show(list=_rows("a", "b"))
    for tab in tabs:
        expect(tab.locator("tr")).to_have_count(2)
    hide = "Object.defineProperty(document, 'hidden', {value: true})"
    for tab in tabs:
        tab.evaluate(f"{hide}; document.dispatchEvent(new Event('visibilitychange'))")
    site.until(lambda: bool(site.app.state.streams.number == 0))


def test_a_deleted_cell_ends_the_updates_with_a_message(site: Site, visit: Callable[[], Page]) -> None:
    site.parts = {"list": _rows("a")}
    page = visit()
    site.until(lambda: bool(site.app.state.streams.number == 1))
    site.mirrors.gone = True
    expect(page.locator("[role=status]")).to_contain_text("no longer updated: cell main: was deleted")


def test_a_server_that_does_not_answer_is_named_until_it_is_back(site: Site, visit: Callable[[], Page]) -> None:
    site.parts = {"list": _rows("a")}
    page = visit()
    site.until(lambda: bool(site.app.state.streams.number == 1))
    site.show(list=_rows("a", "b"))
    expect(page.locator("tr")).to_have_count(2)
    page.route("**/cells/main/page", lambda route: route.abort())
    site.show(list=_rows("a", "b", "c"))
    expect(page.locator("[role=status]")).to_contain_text("does not answer")
    expect(page.locator("[role=status]")).to_contain_text("The last reading is of")
    page.unroute("**/cells/main/page")
    expect(page.locator("tr")).to_have_count(3)
    expect(page.locator("[role=status]")).to_be_empty()


def test_output_is_followed_as_text_until_it_ends(site: Site, visit: Callable[[], Page]) -> None:
    site.outside = LOG
    site.log = [
        event({"detail": "Source: the files of its agent."}, name="source"),
        event({"text": "old"}, id="1.3"),
        event({}, name="reset"),
        event({"text": "<script>alert(1)</script>\x1b[31mred\x1b[0m\u202e\nnext\n"}, id="2.9"),
        last_event("over", "The job has ended; this is all of the output.", again=False),
    ]
    page = visit()
    expect(page.locator("[data-log-status]")).to_have_text("The job has ended; this is all of the output.")
    assert page.evaluate("log.textContent") == "<script>alert(1)</script>red\nnext\n"

"""Every page in light, dark and narrow windows: accessible, within the window, and complete without JavaScript."""

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.demo_cell import MARKUP
from tests.tiers import one_of

Visit = Callable[..., Page]
PAGES = {
    "cell": "",
    "jobs": "jobs",
    "job": "jobs/crawl",
    "output": "jobs/hostile/logs?task=0&group=0",
    "change": "jobs/starved/change?action=stop",
    "job file": "jobs/crawl/file",
    "pending job": "jobs/starved?why=1",
    "machines": "machines",
    "machine": "machines/node-00007",
    "schedulers": "schedulers",
    "pools": "pools",
    "pool change": "pools/change",
    "plan": "plan",
    "events": "events",
}
HOSTILE = ["jobs/hostile", "jobs?user=mallory", "machines/node-00007", "events?job=hostile", "plan"]
"""Pages that show text of somebody else."""
NARROW, WIDE = 360, 2_560
OWN_SCRIPTS = "[...document.scripts].filter(each => !each.src.startsWith(location.origin + '/static/')).length"


def problems(page: Page, **options: object) -> list[str]:
    """Return what axe finds in a page, a line for each element."""
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [f"{each['id']}: {node['target']} {node['html'][:150]}" for each in found for node in each["nodes"]]


def overflow(page: Page) -> list[str]:
    """Return the elements that are wider than the window, unless something around them scrolls."""
    found: list[str] = page.evaluate(
        """() => {
            const wide = document.documentElement.clientWidth;
            if (document.documentElement.scrollWidth <= wide) return [];
            return [...document.querySelectorAll("body *")]
                .filter(each => each.getBoundingClientRect().right > wide + 1)
                .map(each => each.outerHTML.slice(0, 120)).slice(-5);
        }"""
    )
    return found


@pytest.mark.parametrize("path", one_of(3, PAGES.values()), ids=PAGES)
def test_a_page_is_accessible_in_light_and_dark_and_fits_any_width(visit: Visit, path: str) -> None:
    page = visit(path, color_scheme="light")
    assert problems(page) == []
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert problems(page, runOnly=["color-contrast"]) == []
    page.set_viewport_size({"width": WIDE, "height": 1_200})
    assert overflow(page) == []
    page.set_viewport_size({"width": NARROW, "height": 800})
    assert overflow(page) == []
    assert problems(page, rules={"color-contrast": {"enabled": False}}) == []


@pytest.mark.parametrize("path", one_of(3, PAGES.values()), ids=PAGES)
def test_a_page_is_the_same_without_javascript(visit: Visit, path: str) -> None:
    live, plain = visit(path), visit(path, java_script_enabled=False)
    words = "main h1, main h2, main th, main label, main button"
    assert plain.locator(words).all_inner_texts() == live.locator(words).all_inner_texts()
    assert plain.locator("h1").count() == 1
    assert "omega " in plain.locator("footer code").first.inner_text()
    assert "/v1/" in plain.locator("footer").inner_text()


@pytest.mark.parametrize("path", HOSTILE)
def test_text_of_others_is_shown_as_text(visit: Visit, path: str) -> None:
    page = visit(path)
    if path == "plan":
        page.locator("textarea").first.fill(f"name: x\nannotations: {{a: {MARKUP!r}}}\ntasks: [{{count: 1")
        page.get_by_role("button", name="Plan").click()
    assert page.evaluate(OWN_SCRIPTS) == 0
    assert "owned" not in page.title()
    assert page.locator("img[src=x]").count() == 0
    if path in ("jobs/hostile", "machines/node-00007"):
        assert MARKUP in page.locator("main").inner_text()


def test_hostile_output_is_shown_as_text(visit: Visit) -> None:
    page = visit("jobs/hostile/logs?task=0&group=0")
    output = page.locator("pre", has_text="red")
    output.wait_for()
    text = output.text_content() or ""
    assert MARKUP in text
    assert not {"\x1b", "\u202e", "\x07"} & set(text)
    assert overflow(page) == []

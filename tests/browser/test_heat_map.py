"""The map of 10,000 machines: small, structured, one tab stop, and updated by its changed squares alone."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Response, expect

from omega.cellstate.model import MachineState
from omega.cellstate.transaction import Claim
from tests.browser.conftest import SECONDS
from tests.browser.demo_cell import DemoCell, fill
from tests.browser.test_pages import Visit, problems

MACHINES = 10_000
LEVELS = "[...document.querySelectorAll('svg[data-levels]')].map(each => each.dataset.levels).join('')"
"""Expression for the squares of a page, a letter each."""
MOST_PAGE, MOST_UPDATE = 300 << 10, 20 << 10


@pytest.fixture(scope="module")
def large(store_url: str) -> Iterator[DemoCell]:
    """A filled cell with 10,001 machines on the server of the other tests."""
    made = fill(store_url, f"large-{uuid4().hex[:8]}", MACHINES)
    yield made
    made.cell.delete()
    made.cell.close()


@pytest.fixture
def page(visit: Visit, large: DemoCell) -> Page:
    """The page of its machines."""
    page = visit("")
    page.goto(f"{page.url.partition('/cells/')[0]}/cells/{large.cell.name}/machines")
    expect(page.locator("svg[data-machines]").first).to_be_visible()  # the first reading may take longer than the page
    return page


def test_the_map_is_structured_and_one_tab_stop(page: Page) -> None:
    assert problems(page, rules={"color-contrast": {"enabled": False}}) == []
    heat = page.locator("[data-heat]")
    assert heat.evaluate("each => each.tabIndex") == 0
    assert heat.evaluate("each => [...each.querySelectorAll('*')].filter(inner => inner.tabIndex >= 0).length") == 0
    heat.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#card")).to_contain_text("node-00001")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#card")).to_contain_text("node-00011")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("node-00011")


def is_update(answer: Response) -> bool:
    """Whether an answer has changed parts of a page."""
    return "omega-parts" in answer.request.headers


def test_an_update_sends_the_changed_squares(page: Page, large: DemoCell) -> None:
    assert len(page.request.get(page.url).body()) <= MOST_PAGE
    before = page.evaluate(LEVELS)
    assert len(before) >= MACHINES
    updates: list[Response] = []
    page.on("response", lambda answer: updates.append(answer) if is_update(answer) else None)
    large.cell.machines.set_state(9_000, MachineState.DRAINED, 1, "ada")
    large.commit("batch/0", "train", [Claim(index, 0, 1) for index in range(5_000, 5_010)])
    now = before
    for _ in range(round(20 * SECONDS)):  # the policy of the page forbids expressions that the page itself evaluates
        now = page.evaluate(LEVELS)
        if now.count("d") > before.count("d"):
            break
        page.wait_for_timeout(50)
    assert now.count("d") > before.count("d"), "the page showed no change"
    assert max(len(answer.body()) for answer in updates) <= MOST_UPDATE
    assert len(now) == len(before)
    assert 1 <= sum(old != new for old, new in zip(before, now, strict=True)) <= 11

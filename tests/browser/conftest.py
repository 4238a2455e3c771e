"""One filled cell, one server and one browser for the tests of a worker."""

import os
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, StorageState, ViewportSize, expect

from tests.browser.chromium import INSTALL, Loop, find_chromium, running_chromium
from tests.browser.demo_cell import DemoCell, fill
from tests.conftest import absent
from tests.web.serving import Console, serving

SECONDS = 15.0
"""Time that a page gets for what a test waits for; only a machine under great load takes more than one."""
expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="session")
def demo(store_url: str) -> Iterator[DemoCell]:
    """The filled cell with 201 machines; tests that change it change what they made themselves."""
    made = fill(store_url, f"demo-{uuid4().hex[:8]}")
    yield made
    made.cell.delete()
    made.cell.close()


@pytest.fixture(scope="session")
def console(demo: DemoCell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of the filled cell."""
    with serving(demo.url, demo.cell.name, tmp_path_factory.mktemp("serve")) as console:
        yield console


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Browser, Loop]]:
    """A browser, and the loop that runs while it is used."""
    program = find_chromium()
    if program is None and os.geteuid() == 0:
        absent(INSTALL)  # .ci/run installs it
    elif program is None:
        pytest.skip(INSTALL)
    with running_chromium(program) as running:
        yield running


@pytest.fixture
def browser(chromium: tuple[Browser, Loop]) -> Iterator[Browser]:
    """The browser, for the time of a test."""
    browser, loop = chromium
    with loop.taken():
        yield browser


def is_problem(message: ConsoleMessage) -> bool:
    """Whether the browser logs an error; it logs each answer of a form that is shown again as one."""
    return message.type == "error" and not any(f"status of {status}" in message.text for status in (401, 403, 422))


@pytest.fixture(scope="session")
def sessions(chromium: tuple[Browser, Loop], console: Console) -> dict[str, StorageState]:
    """The cookies of a session of each role."""
    browser, loop = chromium
    states: dict[str, StorageState] = {}
    with loop.taken():
        for role in console.tokens:
            context = browser.new_context(java_script_enabled=False)
            page = context.new_page()
            page.goto(console.login(role))
            assert "token" not in page.url
            states[role] = context.storage_state()
            context.close()
    return states


@pytest.fixture
def visit(browser: Browser, console: Console, sessions: dict[str, StorageState]) -> Iterator[Callable[..., Page]]:
    """Open pages of the console; a page that logs an error, or breaks the policy of its content, fails the test."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def log(page: Page, text: str) -> None:
        problems.append(f"{page.url}: {text}")

    def opened(path: str = "", *, role: str = "operator", width: int = 1280, **options: Any) -> Page:
        size: ViewportSize = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, storage_state=sessions[role], **options)
        contexts.append(context)
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        page.on("pageerror", lambda error: log(page, str(error)))
        page.on("console", lambda message: log(page, message.text) if is_problem(message) else None)
        page.goto(console.page(path))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems, "\n".join(dict.fromkeys(problems))

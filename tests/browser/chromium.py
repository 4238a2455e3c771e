"""The browser of the tests: Debian's Chromium, driven by Playwright."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

INSTALL = "no Chromium on PATH; install it with: apt-get install chromium"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the path of a Chromium, None when there is none."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Loop:
    """The event loop of Playwright, which is the running one of this thread only inside `taken`.

    Playwright keeps its loop running for as long as it is used. Other tests of the process run loops of their own.
    """

    def __init__(self) -> None:
        """Put the loop of a Playwright that was just started aside."""
        self._loop = asyncio._get_running_loop()  # asyncio has no public name for it
        asyncio._set_running_loop(None)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Let Playwright's loop run."""
        asyncio._set_running_loop(self._loop)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)


@contextmanager
def running_chromium(program: str) -> Iterator[tuple[Browser, Loop]]:
    """Start a browser; the block ends it. As root it runs without its sandbox, which root cannot use."""
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=program, args=arguments)
    loop = Loop()
    yield browser, loop
    with loop.taken():
        browser.close()
        playwright.stop()

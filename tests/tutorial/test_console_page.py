"""docs/console.md: a browser follows its steps in a cell of its own, by the words of the page alone."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SECONDS, browser, chromium
from tests.tutorial.page import DOCS, blocks, without_shell
from tests.web.serving import free_port

__all__ = ["browser", "chromium"]

ITEM = re.compile(r"^\d+\. (.*?)(?=^\d+\. |^\S|\Z)", re.MULTILINE | re.DOTALL)
STEP = re.compile(
    r"(?P<verb>Open|Press|Enter) (?:`(?P<value>[^`]*)` into |this into )?\*\*(?P<name>[^*]*)\*\*"
    r"|shows `(?P<shown>[^`]*)`"
)


def steps() -> Iterator[tuple[str, str, str]]:
    """Yield the steps of the page: (verb, name of the element, text), and (shows, "", text)."""
    for item in ITEM.findall((DOCS / "console.md").read_text(encoding="utf-8")):
        block = re.search(r"```yaml\n(.*?)```", dedent("   " + item), re.DOTALL)
        for step in STEP.finditer(item):
            if step["verb"]:
                yield step["verb"], step["name"], dedent(block[1]) if block else step["value"] or ""
            else:
                yield "shows", "", step["shown"]


def follow(page: Page, verb: str, name: str, text: str) -> None:
    """Do one step."""
    if verb == "shows":
        expect(page.locator("main")).to_contain_text(text)
    elif verb == "Enter":
        page.get_by_label(name, exact=True).fill(text)
    else:
        within = page.locator("body" if verb == "Open" else "main")
        link, button = (within.get_by_role(kind, name=name, exact=True) for kind in ("link", "button"))
        (link if verb == "Open" else button.or_(link)).first.click()


@pytest.fixture
def address(store_url: str, tmp_path: Path) -> Iterator[str]:
    """The address that the page's command prints, in a cell of a store of the test."""
    command = next(text for language, text in blocks("console.md") if language == "sh")
    words = without_shell(command)
    assert words is not None
    program = [str(Path(sys.executable).with_name("omega")), "--store", store_url, "--cell", f"console-{free_port()}"]
    port = ["--listen", f"127.0.0.1:{free_port()}"]
    environment = os.environ | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        [*program, *words[1:], *port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"http://\S+token=\S+", line):
                yield found[0]
                break
        else:
            pytest.fail("".join(said), pytrace=False)
        process.terminate()
        process.stdout.read()


@pytest.mark.chaos
@pytest.mark.parametrize("javascript", [True, False], ids=["live", "plain"])
def test_a_stranger_follows_the_page(address: str, browser: Browser, javascript: bool) -> None:
    context = browser.new_context(java_script_enabled=javascript)
    context.set_default_timeout(SECONDS * 1000)
    page = context.new_page()
    page.goto(address)
    assert "token" not in page.url
    for verb, name, text in steps():
        follow(page, verb, name, text)
    context.close()

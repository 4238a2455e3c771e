"""``make screenshots``: pictures of six pages of the console, from a filled cell, for docs/console.md."""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import FloatRect, ViewportSize

from benchmarks.store import own_server, server_directory
from omega.cellstate.transaction import Claim
from tests.browser.chromium import INSTALL, find_chromium, running_chromium
from tests.browser.demo_cell import DemoCell, fill, report
from tests.conftest import ROOT
from tests.web.serving import serving

PAGES = {
    "console-cell": "",
    "console-jobs": "jobs",
    "console-job": "jobs/starved?why=1",
    "console-machines": "machines",
    "console-schedulers": "schedulers",
    "console-pools": "pools",
}
"""Names of the figures, and their pages."""
SECONDS = 90
"""Time that the console watches the cell before the pictures are made, for the lines of its history."""
SIZE: ViewportSize = {"width": 1280, "height": 900}


def act(demo: DemoCell, beat: int) -> None:
    """Let a second pass in the cell: tasks are placed, now and then in conflict, and the schedulers report."""
    first = beat * 5 % 80
    demo.commit("batch/1", "train", [Claim(index, 0, 1) for index in range(first, first + 5)])
    if beat % 4 == 0:
        demo.commit("batch/0", "racer", [Claim(100 + beat % 50, 0, 5)])
    report(demo, beat)


def main() -> int:
    """Make the pictures in docs/figures."""
    program = find_chromium()
    if program is None:
        sys.stderr.write(f"error: {INSTALL}\n")
        return 1
    with own_server(server_directory()) as url, TemporaryDirectory() as folder:
        demo = fill(url, "demo")
        with serving(url, "demo", Path(folder)) as console, running_chromium(program) as (browser, loop), loop.taken():
            page = browser.new_context(viewport=SIZE, color_scheme="light").new_page()
            page.goto(console.login("operator"))
            page.goto(console.page(""))
            for beat in range(SECONDS):
                act(demo, beat)
                time.sleep(1)
            for name, path in PAGES.items():
                page.goto(console.page(path))
                page.wait_for_timeout(1_500)
                bottom = page.locator("footer").bounding_box()
                height = min(SIZE["height"], bottom["y"] + bottom["height"] if bottom else SIZE["height"])
                shown: FloatRect = {"x": 0, "y": 0, "width": SIZE["width"], "height": height}
                page.screenshot(path=ROOT / "docs" / "figures" / f"{name}.png", clip=shown)
        demo.cell.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

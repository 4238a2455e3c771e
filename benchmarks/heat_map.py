"""``python -m benchmarks.heat_map``: the time in which Chromium draws the heat map, and the size of updates.

The times are the browser's own; `drawn_ms` is from the first byte of the page to the first paint with the map, and
`processor_ms` the processor time of the page's thread until two frames later, which other load does not lengthen. An
update changes the use of some machines; its size is that of the answer's body.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, CDPSession, Page, Response

from benchmarks.computer import computer
from benchmarks.launch import Document, launch, progress
from benchmarks.store import StoreSettings
from omega.cellstate.errors import Refused
from omega.cellstate.transaction import Claim
from tests.browser.chromium import find_chromium, running_chromium
from tests.browser.demo_cell import DemoCell, fill
from tests.web.serving import Console, serving

SECONDS = 60
PAINTED = """() => new Promise(done => {
    const look = () => performance.getEntriesByName("first-contentful-paint").length
        ? requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(look, 10);
    look();
})"""
TIMES = """() => {
    const page = performance.getEntriesByType("navigation")[0];
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    const size = document.querySelectorAll("svg").length && page.decodedBodySize;
    return {
        drawn_ms: paint.startTime - page.responseStart,
        parsed_ms: page.domContentLoadedEventEnd - page.responseEnd,
        server_ms: page.responseStart - page.requestStart,
        html_bytes: size,
    };
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Numbers of machines, loads of the page for each, and the machines that an update changes."""

    machines: Sequence[int] = (1_000, 10_000)
    times: int = 7
    changed: int = 20


def measure(settings: Settings) -> Document:
    """Measure the map of each number of machines."""
    program = find_chromium()
    if program is None:
        raise Refused("no Chromium on PATH; install it with: apt-get install chromium")
    rows = []
    with settings.measured_store() as store, running_chromium(program) as (browser, loop):
        for machines in settings.machines:
            progress(f"{machines} machines")
            demo = fill(store.url, f"{store.cell}-{machines}", machines)
            with (
                TemporaryDirectory() as folder,
                serving(store.url, demo.cell.name, Path(folder)) as console,
                loop.taken(),
            ):
                rows.append({"machines": machines} | measure_map(browser, console, demo, settings))
            demo.cell.delete()
    return {"computer": computer(), "settings": settings.values("machines", "times", "changed"), "rows": rows}


def measure_map(browser: Browser, console: Console, demo: DemoCell, settings: Settings) -> Document:
    """Load the page several times, then change machines and wait for the update."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1000)
    page.goto(console.login("operator"))
    page.goto(console.page("machines"))
    page.wait_for_selector("svg[data-levels]")
    metrics = context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
    samples = [_load(page, console, metrics) for _ in range(settings.times)]
    row: Document = {name: round(median(sample[name] for sample in samples), 1) for name in samples[0]}
    with page.expect_response(lambda answer: _is_update(answer, page), timeout=SECONDS * 1000) as update:
        for index in range(200, 200 + settings.changed):
            demo.commit("batch/0", "train", [Claim(index, 0, 1)])
    row["update_bytes"] = len(update.value.body())
    context.close()
    return row


def _load(page: Page, console: Console, metrics: CDPSession) -> dict[str, float]:
    before = _processor_seconds(metrics)
    page.goto(console.page("machines"))
    page.evaluate(PAINTED)
    after = _processor_seconds(metrics)
    times: dict[str, float] = page.evaluate(TIMES)
    return times | {"processor_ms": 1000 * (after - before if after > before else after)}


def _processor_seconds(metrics: CDPSession) -> float:
    found = metrics.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in found if each["name"] == "TaskDuration")


def _is_update(answer: Response, page: Page) -> bool:
    return answer.url == page.url and "omega-parts" in answer.request.headers


if __name__ == "__main__":
    launch(Settings, measure)

"""Pages follow the cell by themselves, in all tabs of a browser, and change it."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.demo_cell import DemoCell, group

Visit = Callable[..., Page]
TABS = 10


def submit(demo: DemoCell, name: str, count: int = 1) -> None:
    demo.client.submit({"name": name, "id": name, "pool": "research", "tasks": [group(count, "1", "1Gi")]})


def stay(page: Page) -> None:
    """Mark a document, to see later that it is still the same one."""
    page.evaluate("window.stayed = true")


def stayed(page: Page) -> bool:
    return bool(page.evaluate("window.stayed === true"))


def test_a_page_shows_a_new_job_without_a_reload(visit: Visit, demo: DemoCell) -> None:
    page = visit("jobs")
    stay(page)
    submit(demo, "fresh")
    expect(page.get_by_role("link", name="fresh")).to_be_visible()
    assert stayed(page)


def test_a_job_is_stopped_through_the_console(visit: Visit, demo: DemoCell) -> None:
    submit(demo, "unwanted")
    page = visit("jobs/unwanted", role="submitter")
    page.get_by_role("link", name="Stop …").click()
    page.get_by_role("button", name="Stop this job").click()
    expect(page.locator("main")).to_contain_text("stopped")
    job = demo.cell.jobs.get("unwanted")
    assert job is not None
    assert job.state.name == "STOPPED"


def test_a_job_is_stopped_without_javascript(visit: Visit, demo: DemoCell) -> None:
    submit(demo, "unwanted-too")
    page = visit("jobs/unwanted-too", role="submitter", java_script_enabled=False)
    page.get_by_role("link", name="Stop …").click()
    page.get_by_role("button", name="Stop this job").click()
    job = demo.cell.jobs.get("unwanted-too")
    assert job is not None
    assert job.state.name == "STOPPED"


def test_many_selected_jobs_are_held(visit: Visit, demo: DemoCell) -> None:
    for number in range(3):
        submit(demo, f"many-{number}")
    page = visit("jobs?name=many-", role="submitter")
    boxes = page.locator("tbody input[type=checkbox]")
    expect(boxes).to_have_count(3)
    for at in range(2):
        boxes.nth(at).check()
    page.get_by_role("button", name="Hold").click()
    expect(page.locator("tbody .is-held")).to_have_count(2)


def test_all_tabs_of_a_browser_share_one_stream(visit: Visit, demo: DemoCell) -> None:
    first = visit("jobs")
    tabs = [first, *(first.context.new_page() for _ in range(TABS - 1))]
    streams: list[str] = []
    for tab in tabs:
        tab.on("request", lambda request: streams.append(request.url) if request.url.endswith("/live") else None)
        if tab is not first:
            tab.goto(first.url)
        stay(tab)
    submit(demo, "everywhere")
    for tab in tabs:
        tab.bring_to_front()
        expect(tab.get_by_role("link", name="everywhere")).to_be_visible()
        assert stayed(tab)
    assert len(streams) <= TABS


def test_a_reader_sees_everything_and_changes_nothing(visit: Visit, demo: DemoCell) -> None:
    submit(demo, "not-yours")
    page = visit("jobs/not-yours", role="reader")
    expect(page.locator("h1")).to_contain_text("not-yours")
    assert page.get_by_text("Stop …").count() == 0
    answer = page.request.post(f"{page.url}/change", form={"action": "stop", "csrf": "made up"})
    assert answer.status == 403
    assert demo.cell.jobs.get("not-yours").state.name == "ACTIVE"  # type: ignore[union-attr]

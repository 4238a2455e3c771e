"""What a person chose or typed is what the console changes: selections, confirmations, and forms after a session."""

from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from tests.browser.demo_cell import DemoCell, group
from tests.browser.test_live import submit
from tests.browser.test_pages import NARROW, overflow, problems
from tests.web.serving import Console

Visit = Callable[..., Page]
LARGE = "# " + "typed by hand " * 8_000 + "\n"
"""More of a job file than the server reads before it knows who sends it."""


def test_only_selected_jobs_are_changed(visit: Visit, demo: DemoCell) -> None:
    for number in range(2):
        submit(demo, f"chosen-{number}")
    page = visit("jobs?name=chosen-", role="submitter")
    page.get_by_role("link", name="Select all on this page").click()
    expect(page.locator("[data-selected]")).to_have_text("2")
    submit(demo, "chosen-late")
    late = page.get_by_label("Select chosen-late")
    expect(late).to_be_visible()
    expect(late).not_to_be_checked()
    expect(page.get_by_label("Select chosen-0")).to_be_checked()
    page.get_by_role("button", name="Hold").click()
    expect(page.locator(".message")).to_contain_text("2 jobs held")
    assert {demo.cell.jobs.get(name).state.name for name in ("chosen-0", "chosen-1")} == {"HELD"}  # type: ignore[union-attr]
    assert demo.cell.jobs.get("chosen-late").state.name == "ACTIVE"  # type: ignore[union-attr]


def test_selected_jobs_that_leave_the_page_stay_selected(visit: Visit, demo: DemoCell) -> None:
    submit(demo, "leaving")
    page = visit("jobs?name=leaving&state=pending", role="submitter")
    page.get_by_label("Select leaving", exact=True).check()
    demo.client.hold("leaving", force=True)
    expect(page.locator("[data-selected]")).to_have_text("1, of which 1 left this page")
    submit(demo, "leaving-too")
    page.get_by_label("Select leaving-too").check()
    page.get_by_role("button", name="Stop…").click()
    expect(page.locator("h1")).to_have_text("Stop 2 jobs?")
    page.wait_for_timeout(2_500)  # an update would have come by now
    expect(page.locator(".message.note")).to_have_count(0)
    page.get_by_role("button", name="Stop 2 jobs").click()
    expect(page.locator(".message")).to_contain_text("2 jobs stopped")
    assert demo.cell.jobs.get("leaving").state.name == "STOPPED"  # type: ignore[union-attr]


def sign_in(page: Page, console: Console, role: str) -> None:
    expect(page.locator("h1")).to_have_text("Sign in")
    expect(page.locator("main")).to_contain_text("nothing was changed")
    page.get_by_label("Token").fill("of another server")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("main")).to_contain_text("not valid")
    page.get_by_label("Token").fill(console.tokens[role])
    page.get_by_role("button", name="Sign in").click()


def test_a_form_outlives_its_session(visit: Visit, console: Console, demo: DemoCell) -> None:
    page = visit("plan", role="submitter")
    typed = f"{LARGE}name: typed\ntasks: [{{}}]\n"
    page.get_by_label("YAML or JSON").fill(typed)
    page.get_by_label("Hold until released").check()
    page.context.clear_cookies()
    page.get_by_role("button", name="Submit").click()
    sign_in(page, console, "submitter")
    expect(page.locator("h1")).to_have_text("Plan")
    assert page.get_by_label("YAML or JSON").input_value() == typed
    expect(page.get_by_label("Hold until released")).to_be_checked()
    expect(page.locator("main")).to_contain_text("It has what you entered")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".message")).to_contain_text("submitted typed")
    page.goto(console.page("plan"))
    assert page.get_by_label("YAML or JSON").input_value() == "", "it was sent"


def test_a_form_outlives_its_session_without_javascript(browser: Browser, console: Console, demo: DemoCell) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(console.login("submitter"))
    page.goto(console.page("plan"))
    page.get_by_label("YAML or JSON").fill("\nname: without-script\ntasks: [{}]\n")
    context.clear_cookies()
    page.get_by_role("button", name="Submit").click()
    sign_in(page, console, "submitter")
    assert page.locator("textarea").input_value() == "\nname: without-script\ntasks: [{}]\n"
    page.get_by_role("button", name="Send it again").click()
    expect(page.locator(".message")).to_contain_text("submitted without-script")
    context.close()


def test_a_selection_outlives_its_session_and_another_sign_in(visit: Visit, console: Console, demo: DemoCell) -> None:
    submit(demo, "outliving")
    page = visit("jobs?name=outliving", role="submitter")
    page.get_by_label("Select outliving").check()
    page.context.clear_cookies()
    page.get_by_role("button", name="Stop…").click()
    sign_in(page, console, "submitter")
    expect(page.get_by_label("Select outliving")).to_be_checked()
    other = page.context.new_page()
    other.goto(console.login("submitter"))  # the form of the first tab is of the session before
    page.get_by_role("button", name="Hold").click()
    expect(page.locator("h1")).to_have_text("Not done")
    page.get_by_role("link", name="Back to the form").click()
    expect(page.get_by_label("Select outliving")).to_be_checked()
    page.get_by_role("button", name="Hold").click()
    expect(page.locator(".message")).to_contain_text("1 job held")


def test_the_sign_in_page_is_accessible_and_fits(browser: Browser, console: Console) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(console.address_of("/login"))
    assert overflow(page) == []
    assert problems(page) == []
    page.set_viewport_size({"width": NARROW, "height": 800})
    assert overflow(page) == []
    page.close()


def test_times_are_in_one_zone_which_is_named(browser: Browser, console: Console, demo: DemoCell) -> None:
    demo.client.submit({"name": "timed", "id": "timed", "pool": "research", "tasks": [group(1, "1", "1Gi")]})
    context = browser.new_context(timezone_id="Pacific/Kiritimati")
    page = context.new_page()
    page.goto(console.login("reader"))
    page.goto(console.page("jobs/timed"))
    read = page.locator("#read")
    first = read.inner_text()
    page.wait_for_timeout(1_100)  # a change in the same second would show the same time
    demo.client.hold("timed")
    expect(read).not_to_have_text(first)  # the script has written it now
    submitted = page.locator("dt:text-is('Submitted') + dd time").first.inner_text()
    assert abs(seconds(submitted) - seconds(read.inner_text())) % 86_340 < 300, (submitted, read.inner_text())
    assert "All times are in " in page.locator("footer").inner_text()
    context.close()


def seconds(text: str) -> int:
    hours, minutes, rest = text[-8:].split(":")
    return 3_600 * int(hours) + 60 * int(minutes) + int(rest)

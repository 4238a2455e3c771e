"""The pages of a job, schedulers, pools, plan and events on a filled cell."""

import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from html import unescape
from urllib.parse import quote
from uuid import uuid4

import pytest

from omega.cellstate.model import Limits
from omega.web.access.roles import Role
from omega.web.console.page import MESSAGE
from omega.web.service import Service
from tests.browser.demo_cell import JOBS, MARKUP, DemoCell, fill
from tests.web.console.pages import Pages, Tags, words
from tests.web.visiting import visit

API = "name: api\nkind: service\nprecedence: 200\nsimulate: true\ntasks: [{count: 1}]\n"
pytestmark = [pytest.mark.server, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """The backend of uvicorn."""
    return "asyncio"


@pytest.fixture(scope="module")
def demo(store_url: str) -> Iterator[DemoCell]:
    """A cell in which everything happened once."""
    made = fill(store_url, f"web-{uuid4().hex[:8]}")
    yield made
    made.cell.delete()
    made.cell.close()


@pytest.fixture
async def pages(demo: DemoCell) -> AsyncIterator[Pages]:
    """The pages of the cell for an operator."""
    async with visit(Service(demo.url)) as client:
        yield Pages(client, demo.cell.name)


async def test_a_job_shows_its_tasks_attempts_and_conflicts(pages: Pages) -> None:
    html = await pages.page("jobs/racer")
    text = words(html)
    assert "3 transactions by batch/0, 2 conflicts" in text
    assert "lost to batch/1 , version" in text
    assert html.count('<svg class="timeline"') >= 11
    assert "0[10-29] pending" in text
    assert "Why it waits WAITING: it would fit" in text


async def test_the_why_of_a_job_is_explained_on_demand(pages: Pages) -> None:
    assert "Machines that each demand excludes" not in await pages.page("jobs/impossible")
    text = words(await pages.page("jobs/impossible?why=1&machine=node-00007"))
    assert "constraint arch == 'riscv64': matches no machine" in text
    assert "On machine node-00007" in text
    assert "0 of 3 unplaced tasks would fit" in text
    text = words(await pages.page("jobs/starved?why=1"))
    assert re.search(r"Would fit after: \d+ more machines like node-00000 \(cpu 16, memory 64Gi\)", text)
    assert re.search(r"pool reports: holds cpu \d+ of its fair share", text)


@pytest.mark.parametrize("job", [fields["name"] for _, fields in JOBS])
async def test_every_job_has_its_pages(pages: Pages, job: str) -> None:
    for path in (f"jobs/{job}?why=1&machine=node-00007&rows=x&state=nothing", f"jobs/{job}/file", f"jobs/{job}/logs"):
        await pages.page(path)
    for action in ("stop", "hold", "release", "rerun", "nothing", "update"):
        assert (await pages.get(f"jobs/{job}/change?action={action}")).status_code in (200, 303, 409)


@pytest.mark.parametrize(
    "query",
    ["action=resize&count=", "action=resize&count=9999999999999999999", "action=resize&count=5&group=none",
     "action=weight&weight=nan", "action=revert&to=7", "action=rerun&tasks=x"],
)  # fmt: skip
async def test_bad_values_are_refused_beside_the_form(pages: Pages, query: str) -> None:
    answer = await pages.get(f"jobs/crawl/change?{query}")
    assert answer.status_code in (200, 409)
    fields = dict(pair.split("=") for pair in query.split("&")) | {"check": "0", "force": "1"}
    assert (await pages.post("jobs/crawl/change", fields)).status_code == 409


async def test_a_name_leads_to_the_job(pages: Pages, demo: DemoCell) -> None:
    await pages.page("jobs/crawl")
    answer = await pages.get("jobs/craw?state=failed")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/cells/{demo.cell.name}/jobs/crawl?state=failed"


async def test_hostile_texts_and_output_are_shown_as_text(pages: Pages) -> None:
    for path in ("jobs/hostile", "jobs/hostile/file", "jobs/hostile/logs", "events?job=hostile"):
        await pages.page(path)
    text = words(await pages.page("jobs/hostile/logs"))
    assert MARKUP in text
    assert "�� invalid bidi" in text


async def test_a_job_is_changed_after_a_dry_run(pages: Pages, demo: DemoCell) -> None:
    html = await pages.page("jobs/paused/change?action=release")
    assert "10 of 10 tasks would be placed" in words(html)
    (action, fields), *_ = [form for form in Tags(html).forms if form[0].endswith("/change")]
    assert fields["action"] == "release"
    html = await pages.posted(action, fields, 409)
    assert "belongs to grace, and you are ada" in words(html)
    answer = await pages.post(action, fields | {"force": "1"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/cells/{demo.cell.name}/jobs/paused")
    assert demo.client.status("paused")["state"] == "pending"
    html = await pages.posted(action, fields | {"force": "1", "action": "hold"}, 409)
    assert "modify index" in words(html)  # it was changed since the dry run


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("action=stop", "Ends 52 tasks on machines, and gives up 2 tasks without one."),
        ("action=resize&count=50", "From 100 to 50 tasks"),
        ("action=resize&count=110", "10 of 10 tasks would be placed"),
        ("action=weight&weight=3", "more goes from 1 to 3."),
        ("action=rerun&which=failed", "Submits its 6 failed tasks as a new job"),
        ("action=hold", "2 unplaced tasks get no machine until the job is released"),
    ],
)
async def test_every_change_says_what_it_would_do(pages: Pages, query: str, text: str) -> None:
    assert text in words(await pages.page(f"jobs/crawl/change?{query}"))


async def test_an_edited_file_is_compared_and_its_errors_stand_at_their_lines(pages: Pages) -> None:
    form = {"action": "update", "text": "name: site\nkind: service\ntusks: []\n", "step": "plan"}
    html = await pages.posted("jobs/site/change", form, 422)
    assert "3 tusks: [] tusks: unknown field; did you mean tasks?" in words(html)
    html = await pages.page("jobs/site/file")
    text = unescape(html.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0])
    assert "name: cache" in text
    html = await pages.posted("jobs/site/change", form | {"text": text.replace("count: 8", "count: 9")})
    assert "tasks.cache.count 8 9" in words(html)
    other = form | {"text": API, "step": "make", "check": "0", "force": "1"}
    assert "not of this one; leave its name as it is" in words(await pages.posted("jobs/site/change", other, 422))


async def test_who_lost_to_whom_with_the_transactions_behind_it(pages: Pages) -> None:
    html = await pages.page("schedulers")
    assert "busy 15%, waiting 85%" in html
    assert "Lost ↓ to → batch/0 batch/1 All batch/0 · 10 10 batch/1 10 · 10 All 10 10" in words(html)
    text = words(await pages.page("schedulers?loser=batch/0&winner=batch/1"))
    assert "batch/0 lost 10 claims to batch/1 (inferred) : 6 by fine detection, 4 by coarse detection." in text
    assert "racer node-00173 coarse batch/1 , version" in text


async def test_pools_have_bars_on_one_scale_and_a_reason(pages: Pages) -> None:
    html = await pages.page("pools")
    text = words(html)
    assert "reports ◌" not in text
    assert "starving" in text
    assert "its weight decides, 1 of 3 (33 %) among 2 pools that want more cpu." in text
    assert 'aria-label="cpu: fair share' in html
    below = words(await pages.page("pools?below=production&resource=memory")).partition("Evictions by pool")[0]
    assert "web" in below
    assert "research" not in below.partition("Evictions between pools")[0]


async def test_two_pools_are_rebalanced_after_a_preview(pages: Pages, demo: DemoCell) -> None:
    path = pages.path("pools/change")
    html = await pages.page(path)
    (_, fields) = next(form for form in Tags(html).forms if form[0] == path)
    assert (fields["weight:production"], fields["guarantee:cpu:production"]) == ("2", "400")
    edited = fields | {"weight:research": "6", "limit:cpu:production": "2000", "step": "plan"}
    html = await pages.posted(path, edited)
    assert "Fair shares before and after" in words(html)
    assert demo.cell.pools.get().by_name["research"].weight is None
    (_, made) = Tags(html).forms[0]
    assert made["step"] == "make"
    answer = await pages.post(path, made)
    assert answer.status_code == 303
    pools = demo.cell.pools.get().by_name
    assert (pools["research"].weight, pools["production"].limits) == (6, {"cpu": 2_000_000})
    assert pools["production"].guarantee == {"cpu": 400_000}
    assert "version" in words(await pages.posted(path, made, 422))  # changed since the preview


async def test_an_error_in_the_form_of_pools_keeps_what_was_entered(pages: Pages, demo: DemoCell) -> None:
    path = pages.path("pools/change")
    form = {"version": "1", "pool": "", "weight:people": "heavy", "step": "plan"}
    html = await pages.posted(path, form, 422)
    assert "pool people: weight: 'heavy' is not a number" in words(html)
    assert 'value="heavy"' in html


async def test_a_job_file_is_planned_and_submitted(pages: Pages, demo: DemoCell) -> None:
    text = "name: big\nsimulate: true\ntasks: [{count: 600, resources: {cpu: 4}, duration: 1h}]\n"
    html = await pages.posted("plan", {"text": text, "step": "plan"})
    assert "would be pending: RESOURCES" in words(html)
    assert "Would fit after:" in words(html)
    assert "Machines that each demand excludes" in html
    answer = await pages.post("plan", {"text": text, "step": "submit", "hold": "1"})
    assert answer.status_code == 303
    job = answer.headers["location"].rpartition("/")[2]
    assert demo.client.status(job)["state"] == "held"
    html = await pages.posted("plan", {"text": "name: x\ntasks:\n  - count: 0\n", "step": "plan"}, 422)
    assert "3 - count: 0 tasks[0].count: 0 is not allowed; want at least 1" in words(html)
    html = await pages.posted("plan", {"text": '{"name": "x"}', "step": "plan"}, 422)
    assert '1 {"name": "x"} tasks: is missing' in words(html)


async def test_a_plan_counts_limits(pages: Pages, demo: DemoCell) -> None:
    text = "name: more\nkind: service\nsimulate: true\ntasks: [{count: 3, resources: {memory: 1Mi}, duration: 1h}]\n"
    used = demo.cell.pools.kinds()["service"].used
    demo.cell.pools.set_limits("service", Limits((None, used[1] + 2)), 1, "ada")
    try:
        html = words(await pages.posted("plan", {"text": text, "step": "plan"}))
        assert "2 of 3 tasks would be placed" in html
        assert "1 would be pending: LIMIT" in html
        assert "kind service, memory: " in html
    finally:
        demo.cell.pools.set_limits("service", Limits((None, None)), 1, "ada")


async def test_events_are_filtered_and_followed_by_version(pages: Pages) -> None:
    html = await pages.page("events?kind=conflict")
    assert "racer" in words(html)
    assert "submit" not in words(html).partition("Events")[2].partition("This page")[0].replace("submitted", "")[500:]
    assert "omega events --json --kind conflict" in words(html)
    one = words(await pages.page("events?version=30"))
    assert "Version 30" in one
    assert "is not among the newest events" in words(await pages.page("events?version=999999"))
    assert (await pages.get("events?version=&before=x")).status_code == 200


async def test_a_reader_sees_no_forms_that_change(demo: DemoCell) -> None:
    async with visit(Service(demo.url), "reader") as client:
        pages = Pages(client, demo.cell.name)
        assert "Stop …" not in await pages.page("jobs/crawl")
        assert (await pages.post("jobs/crawl/change", {"action": "stop"})).status_code == 403
        assert (await pages.post("pools/change", {"step": "make"})).status_code == 403
        assert "Change weights" not in await pages.page("pools")
        assert (await pages.post("plan", {"text": "x", "step": "submit"})).status_code == 403


LISTED = (
    "", "jobs", "jobs?pool=production", "jobs?state=failed&name=a&reason=RESOURCES", "jobs/racer", "jobs/racer?why=1",
    "jobs/racer/file", "jobs/racer/logs?task=1&stream=stderr", "jobs/racer/change?action=hold", "machines",
    "machines?state=up", "machines/node-00007", "schedulers", "pools", "pools/change", "plan", "events",
    "events?kind=conflict&job=racer", "events?version=30",
)  # fmt: skip
NO_OUTPUT = 404
"""Of the output of a simulated task."""


@pytest.mark.parametrize("path", LISTED)
async def test_the_address_at_the_end_of_every_page_answers(pages: Pages, path: str) -> None:
    footer = (await pages.page(path)).partition("<footer>")[2]
    links = [unescape(link) for link in Tags(footer).links]
    if path in ("plan", "pools/change"):
        assert links == []
        assert "POST /v1/" in words(footer)
        return
    (link,) = links
    answer = await pages.client.get(link)
    if "/logs" in path:
        assert "task=1&stream=stderr&tail=400" in link
        assert "--task 1 --stderr --tail 400" in words(footer)
        assert answer.status_code in (200, NO_OUTPUT)
        return
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"


async def test_the_end_of_a_page_names_filters_that_the_command_lacks_and_an_error_has_none(pages: Pages) -> None:
    assert "(not filtered by pool, name)" in words(await pages.page("jobs?pool=production&name=a"))
    assert "This page:" not in await pages.page("machines/none", 404)


@pytest.mark.parametrize("role", ["reader", "operator"])
async def test_tables_have_a_header_cell_for_each_cell(demo: DemoCell, role: Role) -> None:
    async with visit(Service(demo.url), role) as client:
        pages = Pages(client, demo.cell.name)
        for path in ("", "jobs", "machines", "machines/node-00007", "schedulers", "pools", "jobs/racer", "events"):
            html = await pages.page(path)
            for head, body in re.findall(r"<thead>(.*?)</thead>\s*<tbody>(.*?)</tbody>", html, re.DOTALL):
                for row in (each for each in re.findall(r"<tr.*?</tr>", body, re.DOTALL) if "colspan" not in each):
                    assert _cells(row) == _cells(head), path


def _cells(row: str) -> list[bool]:
    """Return of each cell of a row whether readers do not see it."""
    return ['class="pick"' in cell for cell in re.findall(r"<t[hd]\b[^>]*>", row)]


async def test_every_error_of_a_file_is_shown_without_line_ends_of_browsers(pages: Pages) -> None:
    for step in ("plan", "submit"):
        html = await pages.posted("plan", {"text": "a: [", "step": step}, 422)
        assert "1 a: [ not readable as YAML or JSON" in words(html)
    html = await pages.posted("plan", {"text": "name: con\r\ntasks:\r\n  - count: 0\r\n", "step": "plan"}, 422)
    assert "1 name: con 2 tasks: 3 - count: 0 tasks[0].count" in words(html)
    assert "\\u000d" not in html


async def test_a_job_that_ended_is_submitted_again_from_its_file(pages: Pages, demo: DemoCell) -> None:
    text = "name: again/../y\nsimulate: true\ntasks: [{count: 1, resources: {cpu: 1}, duration: 1h}]\n"
    job = (await pages.post("plan", {"text": text, "step": "submit"})).headers["location"].rpartition("/")[2]
    assert (await pages.get("jobs/again%2F..%2Fy")).headers["location"].endswith(f"/jobs/{job}")
    assert "Edit and update …" in await pages.page(f"jobs/{job}")
    demo.client.stop(job)
    for path in (f"jobs/{job}", f"jobs/{job}/file"):
        html = await pages.page(path)
        assert "Edit and update …" not in html
        assert f'href="{pages.path(f"plan?job={job}")}"' in html
    assert "name: again/../y" in await pages.page(f"plan?job={job}")


async def test_the_example_suits_the_machines(pages: Pages) -> None:
    assert "duration: 60s" in await pages.page("plan?example=1")


async def test_numbers_of_schedulers_and_pools_link_to_nothing_else(pages: Pages) -> None:
    for path in ("schedulers", "pools"):
        numbers = re.findall(r'<td class="num"><a href="([^"]*)"', await pages.page(path))
        assert all("conflict" in link or "pools/change" in link for link in map(unescape, numbers)), numbers


async def test_only_operators_make_a_previewed_change(demo: DemoCell) -> None:
    before = demo.cell.pools.get().version
    async with visit(Service(demo.url), "submitter") as client:
        pages = Pages(client, demo.cell.name)
        form = {"weight:research": "7", "step": "plan"}
        assert "Fair shares before and after" in words(await pages.posted("pools/change", form))
        assert (await pages.post("pools/change", form | {"step": "make"})).status_code == 403
    assert demo.cell.pools.get().version == before


async def test_a_message_stands_on_its_page_alone(pages: Pages) -> None:
    """The error of a change of one job is none of the confirmation of stopping others, which is asked for first."""
    jobs = pages.path("jobs")
    message = quote(json.dumps(["error", "job a: it has ended", jobs]), safe="")
    pages.client.cookies.set(MESSAGE, message)
    other = await pages.get("machines")
    assert "it has ended" not in other.text
    assert MESSAGE not in other.headers.get("set-cookie", "")
    own = await pages.get("jobs")
    assert "it has ended" in own.text
    assert MESSAGE in own.headers["set-cookie"], "it is shown once"


async def test_times_of_a_page_are_of_one_zone(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script shows the time of the reading in the server's zone, as the page shows all others."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert 'id="read" data-offset="19800"' in (await pages.get("jobs")).text
    finally:
        monkeypatch.undo()
        time.tzset()

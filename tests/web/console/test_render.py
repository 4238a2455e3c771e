"""The frame of every page, macros, filters and charts."""

from html.parser import HTMLParser

import pytest

from omega.web.access.visitors import Visitor
from omega.web.console import charts, render
from omega.web.console.render import Frame, environment, link_of

HOSTILE = "<script>alert(1)</script>\"'\u202ecod.exe\x1b[31m\u200b&amp;\udcff"


def _frame(**values: object) -> Frame:
    return Frame(visitor=Visitor(HOSTILE, "operator"), title=HOSTILE, cell="main", now_ms=1_700_000_000_000, **values)  # type: ignore[arg-type]


def _text(source: str, **values: object) -> str:
    link = link_of("main")
    render.NOW_MS.set(10_000)
    imported = '{% import "macros.html" as ui %}'
    return (
        environment().from_string(imported + source).render(values, link=link, now_ms=10_000, frame=_frame(csrf="c1"))
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_hostile_texts_are_shown_as_text_everywhere_in_the_frame() -> None:
    html = render.render(
        "loading.html", _frame(unavailable=HOSTILE, message=("error", HOSTILE), command=HOSTILE), {}
    ).html
    found = _Tags()
    found.feed(html)
    assert found.tags.count("script") == 1  # our own
    assert "style" not in found.attributes
    assert not any(name.startswith("on") for name in found.attributes)
    assert not set(html) & set("\u202e\x1b\u200b\udcff")
    assert "\\u202ecod.exe\\u001b[31m\\u200b&amp;amp;\\udcff" in html


def test_names_are_isolated_and_addresses_are_quoted() -> None:
    html = _text("{{ ui.job(link, row) }} {{ ui.machine(link, 'a/b') }}", row={"id": "1?x=#", "name": "<ש>"})
    assert html.startswith('<a href="/cells/main/jobs/1%3Fx%3D%23"><bdi>&lt;ש&gt;</bdi></a>')
    assert 'href="/cells/main/machines/a%2Fb"' in html
    assert link_of("a b")("jobs", state="failed", user=None, pool="") == "/cells/a%20b/jobs?state=failed"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ 12345|n }} {{ none|n }}", "12,345 –"),
        ("{{ 1500|amount('cpu') }} {{ 4096|amount('memory') }}", "1.5 4 GiB"),
        ("{{ 1|percent(4) }} {{ 0.5|percent }} {{ 3|count('task') }}", "25 % 50 % 3 tasks"),
        ("{{ 4000|ago }}", '<time class="age" datetime="1970-01-01T00:00:04Z">6s</time>'),
        ("{{ none|when }}{{ none|ago }}", "––"),
        ("{{ 'a\x1b[1mb\n\tc<'|lines }}", "a[1mb\n\tc&lt;"),
    ],
)
def test_filters(source: str, shown: str) -> None:
    assert _text(source) == shown


def test_a_sorted_column_is_marked_and_links_to_the_other_order() -> None:
    columns = [{"text": "Name", "sort": "name"}, {"text": "Tasks", "sort": "tasks", "right": True}, "Kind"]
    source = "{% call ui.table('Jobs', columns, sort) %}<tr></tr>{% endcall %}"
    html = _text(source, columns=columns, sort={"by": "-tasks", "link": "?sort={}".format})
    assert '<th scope="col"><a href="?sort=name">Name</a></th>' in html
    assert '<th scope="col" class="num" aria-sort="descending"><a href="?sort=tasks">Tasks</a></th>' in html
    assert '<th scope="col">Kind</th>' in html


def test_forms_have_the_token_unless_they_only_read() -> None:
    assert 'name="csrf" value="c1"' in _text("{% call ui.form(frame, '/x', 'Stop') %}{% endcall %}")
    assert "csrf" not in _text("{% call ui.form(frame, '/x', 'Show', method='get') %}{% endcall %}")


def test_bars_are_on_one_scale_and_never_longer_than_it() -> None:
    bar = charts.bar([("c0", 30), ("c1", 90)], '3 <of> "4"', whole=100, marks=[("limit", 50)])
    assert '<rect class="c0" x="0" width="30" height="10"/><rect class="c1" x="30" width="70" height="10"/>' in bar
    assert '<path class="mark limit" d="M50 0v10"/>' in bar
    assert 'aria-label="3 &lt;of&gt; &#34;4&#34;"' in bar


def test_lines_are_interrupted_where_nothing_is_known_and_thinned() -> None:
    html = charts.lines(
        {"a<b": [0.0, None, 1.0, 0.5]}, "load", top=1, top_text="100 %", left="l", right="r", texts={"a<b": "50 %"}
    )
    assert 'd="M0 100M400 0L600 50"' in html
    assert "a&lt;b <b>50 %</b>" in html
    assert charts.thinned([1.0, 3.0, None, None, 5.0, None], 3) == [2.0, None, 5.0]
    assert [charts.nice(each) for each in (0, 0.003, 0.3, 1, 7, 1234)] == [1, 0.005, 0.5, 1, 10, 2000]


def test_parts_have_a_hash_in_which_ages_do_not_count() -> None:
    parts = render.Parts()
    source = '{% call parts("queue", "jobs", title="Queue", kind="wide") %}{{ 4000|ago }} {{ x }}{% endcall %}'
    template = environment().from_string(source)
    pages = []
    for now_ms, x in ((5_000, 1), (9_000, 1), (9_000, 2)):
        render.NOW_MS.set(now_ms)
        pages.append(template.render(parts=parts, x=x))
    hashes = [page.partition('data-hash="')[2].partition('"')[0] for page in pages]
    assert hashes[0] == hashes[1] != hashes[2] == parts.found["queue"].hash
    assert pages[1].startswith(
        '<section class="part wide" id="queue" aria-labelledby="queue-title"><h2 id="queue-title">Queue'
    )
    assert parts.found["queue"].html in pages[2]


def test_samples_are_means_of_equal_spans_and_unknown_where_there_are_none() -> None:
    at_ms, values = [0, 10_000, 20_000, 59_999], [1.0, 3.0, None, 8.0]
    assert charts.sampled(at_ms, values, 0, 60_000) == [1.0, 3.0, None, None, None, 8.0]
    assert charts.sampled(at_ms, values, 0, 20_000) == [1.0, 5.5]
    assert len(charts.sampled(range(0, 3_600_000, 5_000), [1.0] * 720, 0, 3_600_000)) == charts.MOST_POINTS

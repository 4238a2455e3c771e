"""What a browser with an older version of a part gets."""

from omega.web.console.parts import MOST_BYTES, SentParts, answer, runs
from omega.web.console.render import Part, fingerprint


def _part(html: str) -> Part:
    return Part(fingerprint(html), html)


def _table(rows: dict[str, str]) -> Part:
    inner = "".join(f'<tr data-key="{key}"><td>{text}</td></tr>' for key, text in rows.items())
    return _part(f"<table><tbody>{inner}</tbody></table><p>{len(rows)} jobs</p>")


def test_a_browser_of_an_unknown_version_gets_the_whole_part() -> None:
    part = _table({"a": "1", "b": "2"})
    assert SentParts().update(part, "other") == {"hash": part.hash, "html": part.html}


def test_rows_that_did_not_change_are_not_sent_again() -> None:
    sent = SentParts()
    before, now = _table({"a": "1", "b": "2", "gone": "3"}), _table({"new": "4", "a": "1", "b": "5"})
    sent.keep(before)
    assert sent.update(now, before.hash) == {
        "hash": now.hash,
        "html": (
            '<table><tbody><tr data-key="new"></tr><tr data-key="a" data-same></tr><tr data-key="b"></tr></tbody>'
            "</table><p>3 jobs</p>"
        ),
        "rows": {
            "new": '<tr data-key="new"><td>4</td></tr>',
            "b": '<tr data-key="b"><td>5</td></tr>',
        },
    }


def test_of_rows_that_change_where_they_are_nothing_else_is_sent() -> None:
    sent = SentParts()
    before, now = _table({"a": "1", "b": "2"}), _table({"a": "1", "b": "5"})
    sent.keep(before)
    assert sent.update(now, before.hash) == {"hash": now.hash, "rows": {"b": '<tr data-key="b"><td>5</td></tr>'}}


def test_parts_with_keys_that_repeat_are_sent_whole() -> None:
    sent, part = SentParts(), _part('<li data-key="a">1</li><li data-key="a">2</li>')
    sent.keep(_part('<li data-key="a">1</li>'))
    assert sent.update(part, fingerprint('<li data-key="a">1</li>')) == {"hash": part.hash, "html": part.html}


def _map(levels: str, side: int = 8) -> Part:
    marks = f'data-key="heat" data-levels="{levels}" data-side="{side}"'
    return _part(f'<svg class="heat" {marks}><path d="{levels}"/></svg>')


def test_of_a_heat_map_only_changed_squares_are_sent() -> None:
    sent = SentParts()
    sent.keep(_map("0000000000000000"))
    now = _map("0010000000000220")
    levels = {"heat": {"2": "1", "13": "22"}}
    assert sent.update(now, _map("0000000000000000").hash) == {"hash": now.hash, "levels": levels}


def test_a_heat_map_of_another_shape_is_sent_whole() -> None:
    sent = SentParts()
    sent.keep(_map("00"))
    for now in (_map("00", 4), _map("000")):
        assert list(sent.update(now, _map("00").hash)["rows"]) == ["heat"]


def test_changed_squares_near_one_another_are_one_run() -> None:
    assert runs("aaaaaaaaaaaaaaa", "abaabaaaaaaaaab") == {"1": "baab", "14": "b"}
    assert runs("abc", "abc") == {}


def test_an_answer_is_bounded_and_names_what_is_left() -> None:
    large = {name: _part(name * MOST_BYTES) for name in "abc"} | {"same": _part("x")}
    asked = [("a", ""), ("b", ""), ("same", fingerprint("x")), ("gone", "")]
    updates, left = answer(large, asked, SentParts(), lambda update: len(update["html"]))
    assert (list(updates), left) == (["a"], ["b"])


def test_old_versions_are_dropped_in_bounded_memory() -> None:
    sent = SentParts()
    parts = [_table({f"{i}-{j}": "x" for j in range(500)}) for i in range(60)]
    for part in parts:
        sent.keep(part)
    assert "rows" not in sent.update(parts[1], parts[0].hash)
    assert sent._size <= 4 << 20

"""Constraints as text: what they mean, and the one line that says where one is wrong."""

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.constraints import All, Compare, Either, Has, Not, OneOf, attributes_in
from omega.cellstate.constraints.grammar import MOST_DEPTH, MOST_LETTERS, parse
from omega.cellstate.errors import BadInput

A, B, C = (Has(name) for name in "abc")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("platform == 'x86'", Compare("platform", "==", "x86")),
        ('platform == "it\'s"', Compare("platform", "==", "it's")),
        ("platform != 'x86'", Not(Compare("platform", "==", "x86"))),
        ("cores==8", Compare("cores", "==", 8.0)),
        ("cores < -1.5e3", Compare("cores", "<", -1500.0)),
        ("cores <= 1", Compare("cores", "<=", 1.0)),
        ("cores > 1", Compare("cores", ">", 1.0)),
        ("cores >= 1", Compare("cores", ">=", 1.0)),
        ("zone in ['a', \"b\", 3]", OneOf("zone", ("a", "b", 3.0))),
        ("zone not in ['a']", Not(OneOf("zone", ("a",)))),
        ("has a", A),
        ("a.b/c-d == ''", Compare("a.b/c-d", "==", "")),
        ("machine == 'm1'", Compare("machine", "==", "m1")),
        ("not has a", Not(A)),
        ("not not has a", Not(Not(A))),
        ("has a and has b or has c", Either((All((A, B)), C))),
        ("has a or has b and has c", Either((A, All((B, C))))),
        ("has a and (has b or has c)", All((A, Either((B, C))))),
        ("not has a and has b", All((Not(A), B))),
        ("not (has a and has b)", Not(All((A, B)))),
        ("has a\n  and has b", All((A, B))),
        ("index == 1 or notes == 1", Either((Compare("index", "==", 1.0), Compare("notes", "==", 1.0)))),
    ],
)
def test_what_a_constraint_means(text: str, meaning: object) -> None:
    assert parse(text) == meaning


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "position 1: expected an attribute, has, ( or not, found the end"),
        ("platform = 'x86'", "position 10: expected ==, !=, <, <=, >, >=, in or not, found '='; write =="),
        (
            "platform == x86",
            "position 13: expected a text in quotes or a number, found 'x86'; text needs quotes: 'x86'",
        ),
        ("platform", "position 9: expected ==, !=, <, <=, >, >=, in or not, found the end"),
        ("version < 'b'", "position 11: expected a number, found \"'b'\""),
        ("zone in []", "position 10: expected a text in quotes or a number, found ']'"),
        ("zone in ['a' 'b']", "position 14: expected ] or a comma, found \"'b'\""),
        ("zone in 'a'", "position 9: expected [, found \"'a'\""),
        ("zone == 'a", 'position 9: expected a text in quotes or a number, found "\'"; close the quote'),
        ("zone == 'a' && has b", "position 13: expected and, or or the end, found '&'; write and"),
        ("zone == 'a' || has b", "position 13: expected and, or or the end, found '|'; write or"),
        ("!has a", "position 1: expected an attribute, has, ( or not, found '!'; write not"),
        ("(zone == 'a'", "position 13: expected and, or or ), found the end"),
        ("zone == 'a')", "position 12: expected and, or or the end, found ')'"),
        ("zone == ')' has", "position 13: expected and, or or the end, found 'has'"),
        ("has", "position 4: expected an attribute, found the end"),
        ("has a and", "position 10: expected an attribute, has, ( or not, found the end"),
        ("a not 3", "position 7: expected in, found '3'"),
        ("7 == a", "position 1: expected an attribute, has, ( or not, found '7'"),
    ],
)
def test_a_mistake_is_pointed_at(text: str, reason: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert str(caught.value) == f"constraint {text!r}: {reason}"


def test_what_is_long_is_shown_in_part_and_in_one_line() -> None:
    with pytest.raises(BadInput) as caught:
        parse("has a and\n" * 20)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith("constraint 'has a and has a and ")
    assert len(said) < 200


def test_limits_of_size() -> None:
    parse("not " * (MOST_DEPTH - 1) + "has a")
    for deep in ("not " * MOST_DEPTH + "has a", "(" * 1_000 + "has a" + ")" * 1_000):
        with pytest.raises(BadInput, match="nested more than 64 levels; write it flatter"):
            parse(deep)
    wide = " or ".join(f"a == {i}" for i in range(200))
    assert len(list(attributes_in(parse(wide)))) == 200
    with pytest.raises(BadInput, match=f"the most is {MOST_LETTERS}"):
        parse(" " * MOST_LETTERS + "has a")


@given(st.text(st.sampled_from("ab'\"()[]=!<>,. 01-&\nandorthsi"), max_size=40))
def test_any_text_is_a_constraint_or_one_line(text: str) -> None:
    said = ""
    try:
        parse(text)
    except BadInput as error:
        said = str(error)
    assert "\n" not in said


def test_attributes_of_an_expression() -> None:
    assert list(attributes_in(parse("not (a == 1 and has b) or c in [1] or a > 2"))) == ["a", "b", "c", "a"]

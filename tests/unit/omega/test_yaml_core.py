"""YAML 1.2: the core schema, whichever loader reads it, and files that grow when they are read."""

import json
import tracemalloc
from typing import Any

import pytest
import yaml
from hypothesis import example, given, strategies as st

from omega.cellstate.errors import BadInput
from omega.jobfile import document as jobfile_document
from omega.jobfile.document import parse
from omega.yaml_core import Loader, core

MIB = 1 << 20


def values(text: str) -> tuple[Any, Any]:
    """What the loader in C and the one in Python read; a refusal counts as a value."""
    found = []
    for loader in (Loader, core(yaml.SafeLoader)):
        try:
            found.append(repr(loader(text).get_single_data()))
        except yaml.YAMLError as error:
            found.append(type(error).__name__)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Example 10.3 of the specification, and what YAML 1.1 reads otherwise
        ("", None), ("~", None), ("null", None), ("Null", None), ("true", True), ("FALSE", False),
        ("0", 0), ("0o7", 7), ("0x3A", 58), ("-19", -19), ("0.", 0.0), ("-0.0", -0.0), (".5", 0.5), ("+12e03", 12000.0),
        ("-2E+05", -200000.0), (".inf", float("inf")), ("-.Inf", float("-inf")), ("+.INF", float("inf")),
        ("010", 10), ("017", 17), ("08", 8), ("-010", -10), ("1e3", 1000.0), ("1:30", "1:30"), ("1:30:00", "1:30:00"),
        ("yes", "yes"), ("No", "No"), ("on", "on"), ("y", "y"), ("tRUE", "tRUE"), ("nULL", "nULL"),
        ("1_000", "1_000"), ("0b11", "0b11"), ("0o8", "0o8"), ("-0x1", "-0x1"), ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"), ("=", "="), ("<<", "<<"), ("!!str 5", "5"), ("!!int '5'", 5),
        ("+.inf", float("inf")), ("-.nan", "-.nan"), ("1.5.2", "1.5.2"), ("'5'", "5"), ("٣", "٣"),
        ("5\u0660", "5\u0660"),
    ],
)  # a table # fmt: skip
def test_core_schema(text: str, value: Any) -> None:
    assert values(text) == (repr(value), repr(value))


@given(st.text("0123456789+-.eExXob_:~aAfFnuUlLtTrsSyYNiIoO<= ", max_size=8))
@example("0o")
@example("0x")
@example(".")
@example("+")
@example("1e")
def test_both_loaders_read_the_same(text: str) -> None:
    in_c, pure = values(f"- {text}")
    assert in_c == pure


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: !!int yes", "1: not readable as YAML or JSON: not of the type int: 'yes'"),
        ("a:\n  !!bool 1", "2: not readable as YAML or JSON: not of the type bool: '1'"),
        ("a: !!timestamp 2024-01-01", "1: not readable as YAML or JSON: could not determine a constructor"),
        ("a: !!binary aGk=", "1: not readable as YAML or JSON: could not determine a constructor"),
        ("a: !!set {b}", "1: not readable as YAML or JSON: could not determine a constructor"),
        ("a: " + "9" * 5000, "1: not readable as YAML or JSON: a number of more than 40 digits: '9999"),
        ("? [a]\n: b", "1: a field's name must be text; put it in quotes"),
        ("? {a: b}\n: c", "1: a field's name must be text; put it in quotes"),
        ("1.5: b", "1: a field's name must be text; put 1.5 in quotes"),
        ("a: {b: 1, b: 2}", "1: b: is there twice (first on line 1); keep one"),
        ("a: &x {b: 1,\n  b: 2}\nc: *x", "2: b: is there twice (first on line 1); keep one"),
        ("a: |\n  b\n\x07", "3: not readable as YAML or JSON: "),
        ("a: b\nc: \x85\x9b", "2: not readable as YAML or JSON: "),
    ],
)
def test_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse("x.yaml", text)
    assert str(caught.value).startswith(f"x.yaml:{said}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_fields_that_yaml_1_1_takes_for_something_else() -> None:
    assert parse("x.yaml", "{no: 1, 2024-01-01: 2, on: 3}").value == {"no": 1, "2024-01-01": 2, "on": 3}


NINE = ",".join
LAUGHS = "\n".join(["a: &a0 [x]", *(f"b{i}: &a{i + 1} [{NINE([f'*a{i}'] * 9)}]" for i in range(9))])
MERGES = "\n".join(["- &a0 {k: v}", *(f"- &a{i + 1} {{<<: [{NINE([f'*a{i}'] * 9)}]}}" for i in range(9))])
FIELDS = "\n".join(["- &a0 {k: v}", *(f"- &a{i + 1} {{x: *a{i}, y: *a{i}, <<: *a{i}}}" for i in range(17))])
QUADRATIC = "a: &a [" + "x," * 5_000 + "]\nb: [" + "*a," * 5_000 + "]"
CHAIN = "- &a0 [x]\n" + "\n".join(f"- &a{i + 1} [*a{i}]" for i in range(500))


@pytest.mark.parametrize("name", ["x.yaml", "x.json"])
@pytest.mark.parametrize("text", [LAUGHS, MERGES, FIELDS, QUADRATIC, CHAIN], ids=str)
def test_bombs_are_refused_before_anything_is_built(text: str, name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=r"^x\.(yaml:\d+: (aliases repeat more|nested too)|json:1: not readable as)"):
            parse(name, text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * MIB


def test_aliases_that_a_long_file_uses_are_no_bomb() -> None:
    text = "- &t {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7}\n" + "- {<<: *t, n: 1}\n" * 3_000
    assert len(parse("x.yaml", text).value) == 3_001


@pytest.mark.parametrize(
    ("path", "line"),
    [(("b",), 3), (("b", 0), 4), (("b", 1, "c"), 6), (("b", 1, "d"), 1), (("b", 1, "x"), 5), (("b", 9), 3), ((), 1)],
)
def test_where_something_stands(path: tuple[str | int, ...], line: int) -> None:
    text = "a: &a {d: 1,\n  e: 2}\nb:\n- 1\n- <<: *a\n  c: 2\n"
    assert parse("x.yaml", text).where(path) == f"x.yaml:{line}"


def test_json_that_is_no_yaml_has_no_lines_but_the_same_rules() -> None:
    smile = json.dumps({"a": "😀"})
    read = parse("x.json", smile)
    assert (read.value, read.where(("a",))) == ({"a": "😀"}, "x.json")
    for text, said in (
        (smile[:-1] + ', "b": 1, "b": 2}', "x.json: b: is there twice; keep one"),
        (smile[:-1] + ', "b": ' + "[" * 30 + "]" * 30 + "}", "x.json: nested too deeply; no file needs"),
        ('{"a": NaN}', "x.json: not readable as YAML or JSON: NaN is not a number in JSON; fix it there"),
        ('{"a": ' + "1" * 5000 + "}", "x.json: not readable as YAML or JSON: a number of more than 40 digits; fix it"),
    ):
        with pytest.raises(BadInput) as caught:
            parse("x.json", text)
        assert str(caught.value).startswith(said)


def test_many_values_are_refused_as_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobfile_document, "MOST_VALUES", 10)
    with pytest.raises(BadInput, match=r"^x.yaml:1: more than 10 values; split it$"):
        parse("x.yaml", "[" + "1," * 20 + "]")

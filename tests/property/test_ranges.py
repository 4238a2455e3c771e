"""Sets of task indices, as text, as tuples and by the scripts' Lua, checked against sets of Python."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st
from lupa import lua51

import omega.cellstate
from omega.cellstate import ranges
from tests.property.gathering import gather

numbers = st.sets(st.integers(0, 40) | st.integers(0, 10**9), max_size=12)


@cache
def lua() -> Any:
    """The functions of ranges.lua."""
    part = (Path(omega.cellstate.__file__).parent / "lua" / "parts" / "ranges.lua").read_text()
    names = ("span_count", "span_take", "span_add", "span_split", "span_tail")
    table = ", ".join(f"{name} = {name}" for name in names)
    words = (
        "local match, gmatch, find, format = string.match, string.gmatch, string.find, string.format\n"
        "local concat = table.concat\n"
    )
    return lua51.LuaRuntime(unpack_returned_tuples=True).execute(f"{words}{part}\nreturn {{ {table} }}")


@given(numbers)
def test_written_and_read_back(some: set[int]) -> None:
    text = gather(some)
    assert ranges.indices(text) == sorted(some)
    assert ranges.spell(ranges.spans(text)) == text == ranges.span_text(ranges.span_read(text))
    assert (text == ranges.EMPTY) == (not some)
    spans = ranges.spans(text)
    assert all(a <= b for a, b in spans)
    assert all(b + 1 < a for (_, b), (a, _) in pairwise(spans)), "ascending, never touching"
    assert ranges.count(text) == ranges.span_count(ranges.span_read(text)) == len(some)
    assert lua().span_count(text) == len(some)


@given(numbers, st.data())
def test_the_first_and_the_last_few(some: set[int], data: st.DataObject) -> None:
    text, k, ordered = gather(some), data.draw(st.integers(0, len(some))), sorted(some)
    first = gather(ordered[:k]), gather(ordered[k:])
    last = gather(ordered[len(some) - k :]), gather(ordered[: len(some) - k])
    assert ranges.take(text, k) == first
    assert ranges.tail(text, k) == last
    if some:
        assert lua().span_take(text, k) == first
        assert lua().span_tail(text, k) == last


@given(numbers, numbers)
def test_union_of_what_is_disjoint(some: set[int], more: set[int]) -> None:
    more -= some
    text, other, union = gather(some), gather(more), gather(some | more)
    assert ranges.add(text, other) == union == lua().span_add(text, other)


@given(numbers, numbers)
def test_inside_and_rest(some: set[int], part: set[int]) -> None:
    text, other = gather(some), gather(part)
    pieces = gather(some & part), gather(some - part)
    assert ranges.split(text, other) == pieces == lua().span_split(text, other)

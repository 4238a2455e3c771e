"""Amounts as people write them."""

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import (
    BYTES,
    LARGEST,
    MIB,
    MOST_DIMENSIONS,
    Dimensions,
    format_amount,
    memory_as_written,
    parse_amount,
    parse_bytes,
)


@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [
        ("cpu", "2", 2000), ("cpu", 0.5, 500), ("cpu", "500m", 500), ("cpu", "0.0001", 1), ("cpu", 0, 0),
        ("memory", "256Mi", 256), ("memory", "1Gi", 1024), ("memory", "1.5Gi", 1536), ("memory", "1Ki", 1),
        ("memory", 0, 0), ("memory", "2Ti", 2 * 1024**2), ("memory", "1G", 953), ("memory", "1GB", 953),
        ("memory", "1GiB", 1024), ("memory", "1k", 1), ("memory", "1048577B", 1), ("memory", "1T", 953_674),

        ("cpu", "0.3339", 333),
        ("cpu", "010", 10_000), ("cpu", ".5", 500),
        ("gpu", "3", 3), ("disk", "2k", 2000), ("disk", "1.5M", 1_500_000), ("disk", "2G", 2_000_000_000),
        ("gpu", " 7 ", 7), ("gpu", str(LARGEST), LARGEST), ("gpu", "1e3", 1000),
    ],
)  # fmt: skip
def test_read(name: str, text: str | float, amount: int) -> None:
    assert parse_amount(name, text) == amount


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("cpu", "many", "is not an amount"), ("cpu", "", "is not an amount"), ("memory", "1Gb", "is not an amount"),
        ("memory", 256, "256 has no unit; write 256Mi (MiB) or 256M (10^6 bytes)"), ("memory", 1.5, "has no unit"),
        ("cpu", "1_000", "is not an amount"), ("cpu", "٣", "is not an amount"), ("cpu", "0x10", "is not an amount"),
        ("cpu", "1e999999", "is not an amount"), ("cpu", "1e9999", "is too large"), ("cpu", "9" * 10**6, "too large"),
        ("cpu", "-1", "is negative"), ("gpu", str(LARGEST + 1), "is too large"), ("cpu", "inf", "is not a finite"),
        ("cpu", "nan", "is not a finite"), ("gpu", "1m", "is not an amount"), ("memory", "Mi", "is not an amount"),
    ],
)  # fmt: skip
def test_refused(name: str, text: str | float, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_amount(name, text)
    assert str(caught.value).startswith(f"{name}: ")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 200, "a message does not repeat all of a long value"


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 1500, "1500m"),
        ("cpu", 0, "0"),
        ("memory", 512, "512Mi"),
        ("memory", 2048, "2Gi"),
        ("memory", 3 * 1024**2, "3Ti"),
        ("memory", 0, "0Mi"),
        ("gpu", 1000, "1000"),
    ],
)
def test_written(name: str, amount: int, text: str) -> None:
    assert format_amount(name, amount) == text


def test_vectors() -> None:
    dimensions = Dimensions(("cpu", "memory", "gpu"))
    assert dimensions.parse({"memory": "1Gi", "cpu": "1"}) == (1000, 1024, 0)
    assert dimensions.format((1000, 1024, 0)) == {"cpu": "1", "memory": "1Gi", "gpu": "0"}
    with pytest.raises(BadInput, match=r"unknown resource 'disk'; this cell has cpu, memory, gpu"):
        dimensions.parse({"disk": 1})


@pytest.mark.parametrize("names", [(), ("a", "a"), ("a b",), ("",), tuple(f"r{i}" for i in range(MOST_DIMENSIONS + 1))])
def test_dimensions_that_cannot_be(names: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="resources: "):
        Dimensions(names)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64Ki", 65_536), ("64KiB", 65_536), ("64k", 64_000), ("64KB", 64_000), ("1.5M", 1_500_000), ("0.1B", 1)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "64", "-1Ki", "Ki", "1_0Ki", "1 Ki", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadInput, match="is not a size; write for example 64Ki, 10Mi or 1Gi"):
        parse_bytes(text)


def test_a_task_takes_a_slot_and_a_machine_has_any_number_unless_they_state_others() -> None:
    two, slots = Dimensions(), Dimensions(("cpu", "user_slots"))
    assert two.parse_need({"cpu": 1}) == two.parse_capacity({"cpu": 1}) == (1000, 0)
    assert slots.parse_need({"cpu": 1}) == (1000, 1)
    assert slots.parse_need({"cpu": 1, "user_slots": 3}) == (1000, 3)
    assert slots.parse_capacity({"cpu": 1, "user_slots": 3}) == (1000, 3)
    assert slots.parse_capacity({"cpu": 1}) == slots.parse_capacity({"cpu": 1, "user_slots": "unbounded"})
    assert slots.format(slots.parse_capacity({})) == {"cpu": "0", "user_slots": "unbounded"}
    assert slots.parse({"user_slots": 4}) == (0, 4)


@pytest.mark.parametrize(
    ("whole", "part", "fitting"), [("24GB", "12GB", 2), ("20G", "2G", 10), ("999MB", "333MB", 3), ("1.5Gi", "512Mi", 3)]
)
def test_equal_parts_of_a_machines_memory_fit(whole: str, part: str, fitting: int) -> None:
    assert parse_amount("memory", whole) // parse_amount("memory", part) == fitting


@given(st.sampled_from(sorted(BYTES)), st.integers(1, 1_000), st.integers(1, 64))
def test_parts_fit_whatever_their_unit(unit: str, size: int, parts: int) -> None:
    part = parse_amount("memory", f"{size}{unit}")
    if part > 1:  # a need is at least 1 MiB
        assert parts * part <= parse_amount("memory", f"{parts * size}{unit}")
    assert parts * parse_amount("cpu", size / 1000) <= parse_amount("cpu", f"{parts * size}m")


def test_memory_is_enforced_as_written() -> None:
    assert memory_as_written({"memory": "12GB"}) == {"memory_bytes": 12 * 10**9}
    assert memory_as_written({"memory": "512Mi", "cpu": 1}) == {}
    assert memory_as_written({"memory": f"{MIB + 1}B"}) == {"memory_bytes": MIB + 1}
    assert memory_as_written({"memory": 0}) == memory_as_written({}) == {}

"""Amounts: what is written is read back; cpu and memory are rounded down, others up."""

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import LARGEST, Dimensions, format_amount, parse_amount

names = st.sampled_from(["cpu", "memory", "gpu", "disk"])
amounts = st.integers(0, LARGEST) | st.integers(0, 5000) | st.integers(0, 90_000).map(lambda n: n * 1024)
UNITS: dict[str, dict[str, Decimal]] = {
    "cpu": {"": Decimal(1000), "m": Decimal(1)},
    "memory": {"Ki": Decimal(1) / 1024, "Mi": Decimal(1), "GiB": Decimal(1024), "T": Decimal(10**12) / 2**20},
    "gpu": {"": Decimal(1), "k": Decimal(1000), "M": Decimal(1000**2), "G": Decimal(1000**3)},
}


@given(names, amounts)
def test_written_and_read_back(name: str, amount: int) -> None:
    assert parse_amount(name, format_amount(name, amount)) == amount


@given(st.sampled_from(list(UNITS)), st.data())
def test_every_unit_is_rounded(name: str, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(list(UNITS[name])))
    number = data.draw(st.decimals(0, 10**4, places=3, allow_nan=False, allow_infinity=False))
    exact = number * UNITS[name][unit]
    read = parse_amount(name, f"{number}{unit}")
    if name == "gpu":
        assert exact <= read < exact + 1
    else:
        assert exact - 1 < read <= max(exact, Decimal(exact > 0)), "at least one of what is not 0"


@given(st.lists(amounts, min_size=3, max_size=3))
def test_vectors_follow_the_order_of_names(vector: list[int]) -> None:
    dimensions = Dimensions(("memory", "gpu", "cpu"))
    assert dimensions.parse(dimensions.format(vector)) == tuple(vector)
    assert list(dimensions.numbers(vector)) == ["memory", "gpu", "cpu"]


@given(names, st.text(max_size=8))
def test_anything_else_is_refused_with_its_name(name: str, text: str) -> None:
    amount, said = 0, f"{name}: "
    try:
        amount = parse_amount(name, text)
    except BadInput as error:
        said = str(error)
    assert 0 <= amount <= LARGEST
    assert said.startswith(f"{name}: ")


@given(names, st.integers(LARGEST + 1, 10**30))
def test_too_much(name: str, amount: int) -> None:
    unit = {"cpu": "m", "memory": "Mi"}.get(name, "")
    with pytest.raises(BadInput, match="too large"):
        parse_amount(name, f"{amount}{unit}")

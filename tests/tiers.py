"""Which cases of a test run every time, and which only in the long form (`make chaos`)."""

from collections.abc import Iterable
from typing import Any

import pytest


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases of a parametrized test of which the first run every time."""
    return [case if number < count else _long(case) for number, case in enumerate(cases)]


def one_of(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases of which each `count`-th runs every time."""
    return [case if number % count == 0 else _long(case) for number, case in enumerate(cases)]


def _long(case: Any) -> Any:
    if isinstance(case, pytest.ParameterSet):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.chaos], id=case.id)
    return pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.chaos)

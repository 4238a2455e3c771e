"""Modules import one another in one direction only."""

import pytest

from tests.architecture.circles import import_circles
from tests.architecture.sources import Source, code


def test_no_import_circle() -> None:
    assert list(import_circles(code())) == []


DIRECT = "from omega.schedulers.b import B\n"
LATER = "def f():\n    from omega.schedulers.b import B\n"
TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from omega.schedulers.b import B\n"


@pytest.mark.parametrize(
    "text", ["import omega.schedulers.b\n", "from omega.schedulers import b\n", DIRECT, LATER, TYPES]
)
def test_a_circle_of_three_modules_is_found(text: str) -> None:
    sources = [
        Source("schedulers/a.py", text), Source("schedulers/b.py", "from omega.schedulers.c import C\n"),
        Source("schedulers/c/__init__.py", "from omega.schedulers.a import A\n"), Source("schedulers/d.py", text),
    ]  # fmt: skip
    (found,) = import_circles(sources)
    names = ["omega.schedulers.a", "omega.schedulers.b", "omega.schedulers.c"]
    assert set(names) == set(found.partition(";")[0].split(" imports "))
    assert list(import_circles([*sources[1:], Source("schedulers/a.py", "import omega.schedulers.e\n")])) == []


def test_a_circle_across_floors_and_through_a_package_is_found() -> None:
    above = Source("omega/live/__init__.py", "from omega.cellstate.replies import Cell\n")
    assert list(import_circles([above, Source("cellstate/replies.py", "from omega.live import Live\n")]))
    assert not list(import_circles([above, Source("tests/x.py", "from omega.live import Live\n")]))

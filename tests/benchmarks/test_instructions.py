"""``omega bench instructions``: counts under callgrind where it is installed, and says so where it is not."""

import shutil
from typing import cast

import pytest

from benchmarks.instructions import Settings, countable, measure
from omega.cellstate.errors import BadInput, StoreError


def test_it_needs_valgrind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(StoreError, match="valgrind is not on PATH"):
        measure(Settings())


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(BadInput, match="form folded: there is packed, spread"):
        measure(Settings(forms=("folded",)))


@pytest.mark.chaos
@pytest.mark.skipif(not countable(), reason="valgrind is not installed")
def test_placing_and_ending_a_job_are_counted() -> None:
    found = measure(Settings(forms=("packed",), machines=20, jobs=32))
    (row,) = cast("list[dict[str, int]]", found["forms"])
    assert row["per_job"] == pytest.approx(row["place"] + row["end"], abs=1)
    assert min(row["place"], row["end"]) > 10_000
    assert row["jobs"] == 32

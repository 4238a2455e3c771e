"""Tampering that is made from the tables of the product is found, or the page says why it cannot be."""

import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from omega.cellstate import derive
from omega.cellstate.events import FORMS
from omega.cellstate.schema import CHANGING, FIXED, GROUP
from omega.cellstate.verify import verify
from tests.unit.cellstate.audit.generated import UNSEEN, missed, tamperings, unexplained
from tests.unit.cellstate.audit.tampered import full, page_rows, shares
from tests.unit.cellstate.audit.town import Town

AT_ONCE = 30


@pytest.fixture(scope="module")
def town(store_url: str) -> Iterator[Town]:
    with full(store_url) as town:
        # Nobody saw the cell before it was changed: lost versions are not reported, which would write to it.
        town.cell.look_back = lambda: None  # type: ignore[method-assign]
        yield town


def test_each_field_index_and_kind_of_fact_is_tampered_with(town: Town) -> None:
    made = tamperings(town, "generated/all")
    assert len(made) >= 300
    assert {f"group {each.name}" for each in GROUP} | {each.name for each in (*CHANGING, *FIXED)} - {"size"} == {
        tampering.place.removeprefix("field ") for tampering in made if tampering.key == "jobs"
    }
    assert {*derive.INDEXES, "lanenames"} == {tampering.key for tampering in made if tampering.place == "index"}
    words = {tampering.place for tampering in made if tampering.key == "log"}
    assert words == (FORMS.keys() | {"places", "submits"}) - {"restore"}, "a restored cell is made elsewhere"
    assert UNSEEN.keys() <= {*page_rows()}


def test_some_of_it_is_found(town: Town) -> None:
    rows = [each.row for each in missed(town, tamperings(town, "generated/some")[:AT_ONCE])]
    assert unexplained(rows) == []
    assert verify(town.cell).ok, "everything was restored"


@pytest.mark.chaos
def test_all_of_it_is_found(town: Town) -> None:
    made = tamperings(town, "generated/all")
    rows = [each.row for each in missed(town, made)]
    sys.stdout.write(shares(rows, Counter(each.key for each in made)) + "\n")
    assert unexplained(rows) == []
    assert len(rows) <= len(made) / 6, f"{len(rows)} of {len(made)}"
